// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

const serverName = "mcs-apiserver.mcs-system.svc"

// bundle returns a certificate for these names, with a CA of its own.
func bundle(t *testing.T, names ...string) servingcert.Bundle {
	t.Helper()
	made, _, err := servingcert.Bundle{}.Renew(time.Now(), names)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// shown returns the state of a connection to a server with this certificate.
func shown(t *testing.T, made servingcert.Bundle) tls.ConnectionState {
	t.Helper()
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	connection, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is what the test needs
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState()
}

func TestOnlyTheCurrentCAIsTrusted(t *testing.T) {
	ours, theirs, misnamed := bundle(t, serverName), bundle(t, serverName), bundle(t, "other.mcs-system.svc")
	renewed := bundle(t, serverName)
	for _, test := range []struct {
		name  string
		set   [][]byte
		state tls.ConnectionState
		want  bool
	}{
		{"no CA", nil, shown(t, ours), false},
		{"the current CA", [][]byte{ours.CA}, shown(t, ours), true},
		{"another CA", [][]byte{ours.CA}, shown(t, theirs), false},
		{"another name", [][]byte{misnamed.CA}, shown(t, misnamed), false},
		{"a new CA", [][]byte{ours.CA, renewed.CA}, shown(t, renewed), true},
		{"the former CA", [][]byte{ours.CA, renewed.CA}, shown(t, ours), false},
		{"two CAs", [][]byte{append(ours.CA[:len(ours.CA):len(ours.CA)], renewed.CA...)}, shown(t, ours), true},
		{"empty updates", [][]byte{ours.CA, nil, {}}, shown(t, ours), true},
		{"nonsense", [][]byte{[]byte("nonsense")}, shown(t, ours), false},
		{"no certificate", [][]byte{ours.CA}, tls.ConnectionState{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			trust := newAuthority()
			for _, pem := range test.set {
				trust.set(pem)
			}
			if err := trust.verify(serverName, test.state); (err == nil) != test.want {
				t.Errorf("got trusted %t, want %t: %v", err == nil, test.want, err)
			}
		})
	}
}

// A server that does not listen yet is awaited for a limited time.
func TestDialWaitsForTheServer(t *testing.T) {
	refused := errors.New("connection refused")
	for _, test := range []struct {
		name     string
		refusals int
		ended    time.Duration // when the caller cancels
		want     error
		passed   time.Duration
	}{
		{"listening", 0, time.Hour, nil, 0},
		{"listening soon", 3, time.Hour, nil, 3 * redialDelay},
		{"never listening", 1 << 20, time.Hour, refused, dialPatience},
		{"canceled", 1 << 20, time.Second, refused, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.ended)
				defer cancel()
				attempts, start := 0, time.Now()
				_, err := withPatience(func(context.Context, string, string) (net.Conn, error) {
					if attempts++; attempts <= test.refusals {
						return nil, refused
					}
					return nil, nil
				})(ctx, "tcp", "127.0.0.1:1")
				if passed := time.Since(start); !errors.Is(err, test.want) || passed != test.passed {
					t.Errorf("got %v after %s, want %v after %s", err, passed, test.want, test.passed)
				}
			})
		})
	}
}

// The first non-empty bundle ends the wait for it.
func TestAuthorityIsKnownOnce(t *testing.T) {
	trust := newAuthority()
	known := func() bool {
		select {
		case <-trust.known:
			return true
		default:
			return false
		}
	}
	trust.set(nil)
	trust.set([]byte{})
	if known() {
		t.Error("an empty bundle counts as known")
	}
	trust.set([]byte("first"))
	if !known() {
		t.Error("the first bundle does not count as known")
	}
	trust.set(nil)
	trust.set([]byte("second"))
	if string(trust.pem) != "second" {
		t.Errorf("got bundle %q", trust.pem)
	}
}

// Requests to the server in the same Pod use the credential for the cluster, verify the
// name of the server whatever its address, and trust the current CA.
func TestOwnConfig(t *testing.T) {
	made := bundle(t, serverName)
	pair, err := tls.X509KeyPair(made.Cert, made.Key)
	if err != nil {
		t.Fatal(err)
	}
	credentials := make(chan string, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credentials <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()

	trust := newAuthority()
	host := &rest.Config{Host: "https://elsewhere.invalid", BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("another"), ServerName: "elsewhere"}}
	config := ownConfig(host, server.URL, serverName, trust)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	trust.set(bundle(t, serverName).CA)
	if _, err := client.Discovery().ServerVersion(); err == nil || len(credentials) > 0 {
		t.Errorf("sent a request to a server of another CA: %v", err)
	}
	trust.set(made.CA)
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	} else if got := <-credentials; got != "Bearer token" {
		t.Errorf("sent credential %q", got)
	}
}
