// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// doorkeeper accepts one token, and records those that it is shown. It rejects others with a
// status, or 401.
type doorkeeper struct {
	accepts string
	status  int
	shown   []string
}

// RoundTrip implements http.RoundTripper.
func (d *doorkeeper) RoundTrip(request *http.Request) (*http.Response, error) {
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	d.shown = append(d.shown, token)
	if token != d.accepts {
		return &http.Response{StatusCode: cmp.Or(d.status, http.StatusUnauthorized), Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// R387: a request that is rejected is repeated with the next token at once, and later requests
// begin with the one that was accepted.
func TestRequestsUseTheTokenThatIsAccepted(t *testing.T) {
	var tokens Tokens
	member := &doorkeeper{}
	transport := tokens.Over(member)
	expect := func(body string, code int, shown ...string) {
		t.Helper()
		member.shown = nil
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://b.example", nil)
		if body != "" {
			request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, "https://b.example", strings.NewReader(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != code || !slices.Equal(member.shown, shown) {
			t.Errorf("got %d with %q, want %d with %q", response.StatusCode, member.shown, code, shown)
		}
		if request.Header.Get("Authorization") != "" {
			t.Error("the request of the caller was changed")
		}
	}
	expect("", http.StatusOK, "") // a client certificate may do
	tokens.Set("renewed", "declared")
	member.accepts = "renewed"
	expect("", http.StatusOK, "renewed")
	member.accepts = "declared"
	expect("body", http.StatusUnauthorized, "renewed")
	expect("", http.StatusOK, "renewed", "declared")
	expect("", http.StatusOK, "declared")
	member.accepts = "another"
	expect("", http.StatusUnauthorized, "declared", "renewed")
	tokens.Set("another", "declared")
	expect("", http.StatusOK, "another")
	if got := tokens.All(); !slices.Equal(got, []string{"another", "declared"}) {
		t.Errorf("got %q", got)
	}
}

// R387: a proxy may refuse a token that is too large for it. Other errors have other causes.
func TestOnlyRejectedRequestsAreRepeated(t *testing.T) {
	for status, repeated := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusBadRequest: true, http.StatusRequestHeaderFieldsTooLarge: true,
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusTooManyRequests: false, http.StatusServiceUnavailable: false,
	} {
		var tokens Tokens
		tokens.Set("renewed", "declared")
		member := &doorkeeper{accepts: "declared", status: status}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://b.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := tokens.Over(member).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if (response.StatusCode == http.StatusOK) != repeated || (len(member.shown) == 2) != repeated {
			t.Errorf("%d: got %d with %q", status, response.StatusCode, member.shown)
		}
	}
}

// The member is not made to open another connection for each request that it rejects.
func TestRejectedRequestIsRepeatedOverTheSameConnection(t *testing.T) {
	var connections []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections = append(connections, r.RemoteAddr)
		if r.Header.Get("Authorization") != "Bearer declared" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 8<<10)))
	}))
	defer server.Close()
	var tokens Tokens
	tokens.Set("renewed", "declared")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := tokens.Over(server.Client().Transport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || len(connections) != 2 || connections[0] != connections[1] {
		t.Errorf("got %d over %q", response.StatusCode, connections)
	}
}
