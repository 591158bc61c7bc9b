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

// bundle is a certificate for these names, with an authority of its own.
func bundle(t *testing.T, names ...string) servingcert.Bundle {
	t.Helper()
	made, _, err := servingcert.Bundle{}.Renew(time.Now(), names)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// shown is a connection to a server with this certificate.
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
	connection, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // to see what it shows
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState()
}

func TestOnlyTheAuthorityInForceIsTrusted(t *testing.T) {
	ours, theirs, misnamed := bundle(t, serverName), bundle(t, serverName), bundle(t, "other.mcs-system.svc")
	renewed := bundle(t, serverName)
	for _, test := range []struct {
		name  string
		set   [][]byte
		state tls.ConnectionState
		want  bool
	}{
		{"nothing is known", nil, shown(t, ours), false},
		{"the authority in force", [][]byte{ours.CA}, shown(t, ours), true},
		{"another authority", [][]byte{ours.CA}, shown(t, theirs), false},
		{"another name", [][]byte{misnamed.CA}, shown(t, misnamed), false},
		{"a new authority", [][]byte{ours.CA, renewed.CA}, shown(t, renewed), true},
		{"the former authority", [][]byte{ours.CA, renewed.CA}, shown(t, ours), false},
		{"two at a time", [][]byte{append(ours.CA[:len(ours.CA):len(ours.CA)], renewed.CA...)}, shown(t, ours), true},
		{"no news", [][]byte{ours.CA, nil, {}}, shown(t, ours), true},
		{"nonsense", [][]byte{[]byte("nonsense")}, shown(t, ours), false},
		{"no certificate", [][]byte{ours.CA}, tls.ConnectionState{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			trust := newAuthority()
			for _, pem := range test.set {
				trust.set(pem)
			}
			if err := trust.verify(serverName, test.state); (err == nil) != test.want {
				t.Errorf("trusted is %t, want %t: %v", err == nil, test.want, err)
			}
		})
	}
}

// A server that is not there yet is awaited, within reason: whoever is refused
// comes back later and later.
func TestServerThatIsNotThereYetIsAwaited(t *testing.T) {
	refused := errors.New("connection refused")
	for _, test := range []struct {
		name     string
		refusals int
		ended    time.Duration // when the caller gives up
		want     error
		passed   time.Duration
	}{
		{"there", 0, time.Hour, nil, 0},
		{"there soon", 3, time.Hour, nil, 3 * redialDelay},
		{"never there", 1 << 20, time.Hour, refused, dialPatience},
		{"the caller gives up", 1 << 20, time.Second, refused, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.ended)
				defer cancel()
				attempts, start := 0, time.Now()
				_, err := patiently(func(context.Context, string, string) (net.Conn, error) {
					if attempts++; attempts <= test.refusals {
						return nil, refused
					}
					return nil, nil
				})(ctx, "tcp", "127.0.0.1:1")
				if passed := time.Since(start); !errors.Is(err, test.want) || passed != test.passed {
					t.Errorf("%v after %s, want %v after %s", err, passed, test.want, test.passed)
				}
			})
		})
	}
}

// Whoever waits for the authority goes on with the first that is one.
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
		t.Error("no certificates are taken for an authority")
	}
	trust.set([]byte("first"))
	if !known() {
		t.Error("the first is not noticed")
	}
	trust.set(nil)
	trust.set([]byte("second"))
	if string(trust.pem) != "second" {
		t.Errorf("%q is trusted", trust.pem)
	}
}

// The server beside this process is asked with the cluster's credential, by
// its name whatever its address, and trusted by the authority in force.
func TestOwnServerIsAsked(t *testing.T) {
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
		t.Errorf("a server of another authority was asked: %v", err)
	}
	trust.set(made.CA)
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	} else if got := <-credentials; got != "Bearer token" {
		t.Errorf("asked with %q", got)
	}
}
