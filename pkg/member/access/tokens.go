// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Tokens are the tokens for a member. Requests are made with the preferred one as long as
// the member accepts it, and with another one if it does not.
type Tokens struct {
	held atomic.Pointer[heldTokens]
}

// heldTokens are never modified.
type heldTokens struct {
	texts []string
	// accepted is the index of the one that the member accepted last.
	accepted int
}

// Set replaces the tokens that requests are made with from now on, the preferred one first.
func (t *Tokens) Set(texts ...string) { t.held.Store(&heldTokens{texts: texts}) }

// All returns the tokens, the preferred one first.
func (t *Tokens) All() []string {
	if held := t.held.Load(); held != nil {
		return held.texts
	}
	return nil
}

// Over returns a transport that adds a token to requests.
func (t *Tokens) Over(next http.RoundTripper) http.RoundTripper { return authenticated{t, next} }

type authenticated struct {
	tokens *Tokens
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request that is rejected is repeated at once with
// the next token, unless it has a body.
func (a authenticated) RoundTrip(request *http.Request) (*http.Response, error) {
	held := a.tokens.held.Load()
	if held == nil || len(held.texts) == 0 {
		return a.next.RoundTrip(request)
	}
	attempts := len(held.texts)
	if request.Body != nil && request.Body != http.NoBody {
		attempts = 1
	}
	for attempt := 0; ; attempt++ {
		index := (held.accepted + attempt) % len(held.texts)
		authenticated := request.Clone(request.Context())
		authenticated.Header.Set("Authorization", "Bearer "+held.texts[index])
		response, err := a.next.RoundTrip(authenticated)
		rejected := err == nil && rejects(response.StatusCode)
		if rejected && attempt+1 < attempts {
			_, _ = io.CopyN(io.Discard, response.Body, errorLimit) // so that the connection is used again
			_ = response.Body.Close()
			continue
		}
		if err == nil && !rejected && attempt > 0 {
			a.tokens.held.CompareAndSwap(held, &heldTokens{held.texts, index})
		}
		return response, err
	}
}

// rejects reports whether a server may have responded with a status because of the token. What
// is too large for a proxy is refused by the proxy.
func rejects(code int) bool {
	return code == http.StatusUnauthorized || code == http.StatusBadRequest || code == http.StatusRequestHeaderFieldsTooLarge
}
