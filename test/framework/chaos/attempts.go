// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"net/http"
	"sync/atomic"
)

// Attempts counts the requests that a client makes, those that client-go repeats by itself
// included.
type Attempts struct {
	// Requests is the number of requests, of which Watches begin a watch.
	Requests, Watches atomic.Int64
	// Unavailable is the number of responses with status 429 or 5xx, of which RetryAfter
	// ask the client to try again. Broken is the number of requests without a response.
	Unavailable, RetryAfter, Broken atomic.Int64
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
	c.attempts.Requests.Add(1)
	if request.URL.Query().Get("watch") != "" {
		c.attempts.Watches.Add(1)
	}
	response, err := c.RoundTripper.RoundTrip(request)
	switch {
	case err != nil:
		c.attempts.Broken.Add(1)
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError:
		c.attempts.Unavailable.Add(1)
		if response.Header.Get("Retry-After") != "" {
			c.attempts.RetryAfter.Add(1)
		}
	}
	return response, err
}
