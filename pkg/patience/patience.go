// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience lets informers wait for an API server that is away, instead of failing. An
// informer that fails waits longer each time, up to a minute, so that it would notice late that
// the server is back: what changes meanwhile would not be seen.
package patience

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// minWait and maxWait are how long to wait before a request is repeated, growing, and less
	// than half as long again.
	minWait, maxWait = time.Second, 4 * time.Second
	// logInterval is how often is logged at most that requests wait.
	logInterval = time.Minute
	// maxDrained is how much is read of a response so that its connection is used again.
	maxDrained = 4 << 10
)

// NewForConfig returns a client for informers alone, from a function such as
// kubernetes.NewForConfigAndClient. While the server is away, requests are repeated with the
// present token. Informers do not learn of that: it is logged, and every failure is reported.
func NewForConfig[Client any](config *rest.Config, report func(error), create func(*rest.Config, *http.Client) (Client, error)) (Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		var none Client
		return none, err
	}
	patient := *client // rest may return one that others use
	patient.Transport = &transport{next: cmp.Or(client.Transport, http.DefaultTransport), report: report}
	return create(config, &patient)
}

type transport struct {
	next   http.RoundTripper
	report func(error)

	mu     sync.Mutex
	logged time.Time
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	for wait := minWait; ; wait = min(wait*3/2, maxWait) {
		response, err := t.next.RoundTrip(request)
		if err == nil && !isAway(response.StatusCode) || request.Context().Err() != nil {
			return response, err
		}
		if err == nil {
			err = fmt.Errorf("%s %s: %d %s", request.Method, request.URL, response.StatusCode, http.StatusText(response.StatusCode))
			_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
			_ = response.Body.Close()
		}
		t.failed(request, err)
		select {
		case <-request.Context().Done():
			return nil, err
		case <-time.After(wait + rand.N(wait/2)): //nolint:gosec // spreads load, no secret
		}
	}
}

// isAway reports whether a server responds so if it, or another one that it needs, is away. One
// that cannot verify a token responds that the client is unauthorized. Informers handle all other
// errors: for some of them, they have to ask for something else.
func isAway(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// failed reports a failure, and logs it unless another one was logged lately.
func (t *transport) failed(request *http.Request, err error) {
	t.report(err)
	t.mu.Lock()
	due := time.Since(t.logged) >= logInterval
	if due {
		t.logged = time.Now()
	}
	t.mu.Unlock()
	if due {
		klog.FromContext(request.Context()).Error(err, "API server is away, informers wait for it", "server", request.URL.Host)
	}
}
