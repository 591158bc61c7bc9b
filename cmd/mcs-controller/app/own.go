// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

// authority is the CA bundle that verifies mcs-apiserver. It may change while the process
// runs.
type authority struct {
	mu    sync.Mutex
	pem   []byte
	known chan struct{}
}

func newAuthority() *authority { return &authority{known: make(chan struct{})} }

// set replaces the bundle; an empty one is ignored. It does not block.
func (a *authority) set(pem []byte) {
	if len(pem) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pem == nil {
		close(a.known)
	}
	a.pem = bytes.Clone(pem)
}

// add adds to the bundle, whose CAs are trusted until they expire: mcs-apiserver, which others
// issue a certificate for, may reload it before or after a new CA is known here.
func (a *authority) add(pem []byte) {
	a.mu.Lock()
	known := a.pem
	a.mu.Unlock()
	a.set(servingcert.Union(time.Now(), pem, known))
}

// await returns a task that begins when the bundle is known, and with it the certificate of
// mcs-apiserver.
func (a *authority) await(run task) task {
	return func(ctx context.Context) error {
		select {
		case <-a.known:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// verify verifies the certificate of a server with the current bundle.
func (a *authority) verify(serverName string, state tls.ConnectionState) error {
	a.mu.Lock()
	trusted, err := cert.ParseCertsPEM(a.pem)
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("parse CA bundle of mcs-apiserver: %w", err)
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("mcs-apiserver presented no certificate")
	}
	options := x509.VerifyOptions{DNSName: serverName, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	for _, certificate := range trusted {
		options.Roots.AddCert(certificate)
	}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(options)
	return err
}

// ownConfig returns the client configuration for the mcs-apiserver in the same Pod. It
// uses the credential for the cluster, which mcs-apiserver verifies with the cluster.
// Requests bypass the kube-apiserver, so that they always reach the server in this Pod.
func ownConfig(host *rest.Config, server, serverName string, trust *authority) *rest.Config {
	config := rest.AnonymousClientConfig(host)
	config.BearerToken, config.BearerTokenFile = host.BearerToken, host.BearerTokenFile
	config.Host, config.APIPath, config.QPS, config.UserAgent = server, "", -1, host.UserAgent
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = ownTransport(serverName, trust, withPatience((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext))
	config.Wrap(countWrites)
	return config
}

// ownTransport returns a transport that verifies the server with the current CA bundle.
func ownTransport(serverName string, trust *authority, dial dial) *http.Transport {
	return utilnet.SetTransportDefaults(&http.Transport{
		DialContext: dial,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			ServerName: serverName,
			// The default verification cannot change its CA bundle.
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
			VerifyConnection:   func(state tls.ConnectionState) error { return trust.verify(serverName, state) },
		},
	})
}

const (
	redialDelay  = 500 * time.Millisecond
	dialPatience = 5 * time.Minute
)

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// withPatience returns a dial function that waits for a server that does not listen: it
// runs in the same Pod and will be back. Refused connections would make informers back
// off, and notice the server up to a minute late.
func withPatience(dial dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialPatience)
		defer cancel()
		for {
			connection, err := dial(ctx, network, address)
			if err == nil {
				return connection, nil
			}
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(redialDelay):
			}
		}
	}
}
