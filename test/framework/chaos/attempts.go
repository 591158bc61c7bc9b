// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"net/http"
	"sync/atomic"
)

// Attempts counts what client-go does by itself.
type Attempts struct {
	// Watches is the number of requests that begin a watch. RetryAfter is the number of
	// responses that ask the client to try again, which client-go does.
	Watches, RetryAfter atomic.Int64
}

// Wrap counts the requests of a transport. It is a transport.WrapperFunc.
func (a *Attempts) Wrap(transport http.RoundTripper) http.RoundTripper {
	return counted{transport, a}
}

type counted struct {
	http.RoundTripper
	attempts *Attempts
}

func (c counted) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") != "" {
		c.attempts.Watches.Add(1)
	}
	response, err := c.RoundTripper.RoundTrip(request)
	if err == nil && response.Header.Get("Retry-After") != "" {
		c.attempts.RetryAfter.Add(1)
	}
	return response, err
}
