// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// connectTimeout limits how long an address may take to answer, unless the user sets a timeout.
const connectTimeout = 5 * time.Second

// maxVersion limits the size of a response.
const maxVersion = 1 << 20

// observeVersion asks the kube-apiserver for its version, and for the time. The error is that it
// did not answer.
func (o *observer) observeVersion(ctx context.Context) error {
	client, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(o.Config)
	if err != nil {
		return err
	}
	for range 2 { // the first one includes the handshake, so that the second one tells the time better
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
		if err != nil {
			return err
		}
		start := time.Now()
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		end := time.Now()
		body, err := io.ReadAll(io.LimitReader(response.Body, maxVersion))
		response.Body.Close()
		if err != nil {
			return err
		}
		var info version.Info
		if response.StatusCode == http.StatusOK && json.Unmarshal(body, &info) == nil {
			o.facts.Kubernetes = info.GitVersion
		}
		o.facts.Clock = newClock(response.Header.Get("Date"), start, end)
	}
	if o.facts.Kubernetes == "" {
		o.facts.Unobserved = append(o.facts.Unobserved, plan.Finding{
			Check: plan.CheckVersions, Result: plan.NotChecked, Contexts: []string{o.Context}, Message: "the kube-apiserver does not tell its version",
		})
	}
	return nil
}

// newClock returns by how much a clock is ahead that showed this date between start and end, nil
// if it is not a date. A date has no fractions of a second.
func newClock(date string, start, end time.Time) *plan.Clock {
	shown, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	return &plan.Clock{Least: shown.Sub(end), Most: shown.Add(time.Second).Sub(start)}
}

// server connects to the address at which other clusters reach the cluster, without the proxy
// that this machine may use.
func (o *observer) server(ctx context.Context) plan.Server {
	timeout, err := o.RequestTimeout(connectTimeout)
	if err != nil || timeout == 0 {
		timeout = connectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return connect(ctx, o.facts.Access)
}

// connect resolves an address and verifies its certificate.
func connect(ctx context.Context, access plan.Access) plan.Server {
	address, err := url.Parse(access.Server)
	if err != nil || address.Hostname() == "" {
		return plan.Server{} // said elsewhere
	}
	var server plan.Server
	host := address.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		server.Addresses = []string{ip.String()}
	} else if server.Addresses, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
		server.Unresolved = err.Error()
		return server
	}
	config := &tls.Config{ServerName: cmp.Or(access.ServerName, host), MinVersion: tls.VersionTLS12}
	if access.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(access.CA)) {
			server.Invalid = "certificate-authority-data in the kubeconfig has no certificate"
			return server
		}
	}
	dialer := &tls.Dialer{Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, cmp.Or(address.Port(), "443")))
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &verification):
		server.Invalid = verification.Err.Error()
	case err != nil:
		server.Unreachable = err.Error()
	default:
		connection.Close()
	}
	return server
}
