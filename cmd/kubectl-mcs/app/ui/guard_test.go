// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	testToken = "THETOKEN"
	testHost  = "page.localhost:8001"
)

// newRequest returns a request of the page, as a browser sends it.
func newRequest(method, path string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = testHost
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	return r
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func navigating(site string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
		r.Header.Del("Authorization")
	}
}

// R583: only the page itself, with the token, has access.
func TestOnlyThePageHasAccess(t *testing.T) {
	json := with("Content-Type", "application/json")
	for _, test := range []struct {
		name         string
		method, path string
		change       func(*http.Request)
		want         int
	}{
		{"the page", "GET", "/api/events", nil, http.StatusOK},
		{"a client that is no browser", "GET", "/api/events", func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, http.StatusOK},
		{"its own origin", "POST", doctorPath, func(r *http.Request) { json(r); r.Header.Set("Origin", "http://"+testHost) }, http.StatusOK},
		{"files without the token", "GET", "/app.js", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusOK},
		{"the user opens the URL", "GET", "/", navigating("none"), http.StatusOK},
		{"a link elsewhere opens the page", "GET", "/", navigating("cross-site"), http.StatusOK},

		{"no token", "GET", "/api/events", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"another token", "GET", "/api/events", with("Authorization", "Bearer THETOKEX"), http.StatusUnauthorized},
		{"the beginning of the token", "GET", "/api/events", with("Authorization", "Bearer THE"), http.StatusUnauthorized},
		{"more than the token", "GET", "/api/events", with("Authorization", "Bearer "+testToken+"X"), http.StatusUnauthorized},
		{"an empty token", "GET", "/api/events", with("Authorization", "Bearer "), http.StatusUnauthorized},
		{"the token in the URL", "GET", "/api/events?token=" + testToken, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"the token as a cookie", "GET", "/api/service", func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("Cookie", "token="+testToken) }, http.StatusUnauthorized},
		{"DNS rebinding", "GET", "/api/events", func(r *http.Request) { r.Host = "evil.example:8001" }, http.StatusForbidden},
		{"a host that begins alike", "GET", "/api/events", func(r *http.Request) { r.Host = testHost + ".evil.example" }, http.StatusForbidden},
		{"another port", "GET", "/api/events", func(r *http.Request) { r.Host = "page.localhost:8002" }, http.StatusForbidden},
		{"no port", "GET", "/", func(r *http.Request) { r.Host = "page.localhost" }, http.StatusForbidden},
		{"the IP, which another program may have had", "GET", "/api/events", func(r *http.Request) { r.Host = "127.0.0.1:8001" }, http.StatusForbidden},
		{"localhost, which another program may have had", "GET", "/", func(r *http.Request) { r.Host = "localhost:8001" }, http.StatusForbidden},
		{"an earlier page", "GET", "/api/events", func(r *http.Request) { r.Host = "earlier.localhost:8001" }, http.StatusForbidden},
		{"no host", "GET", "/", func(r *http.Request) { r.Host = "" }, http.StatusForbidden},
		{"another origin", "GET", "/api/events", with("Origin", "https://evil.example"), http.StatusForbidden},
		{"another port of this machine", "GET", "/api/events", with("Origin", "http://page.localhost:9999"), http.StatusForbidden},
		{"the IP as origin", "GET", "/api/events", with("Origin", "http://127.0.0.1:8001"), http.StatusForbidden},
		{"an opaque origin", "GET", "/api/events", with("Origin", "null"), http.StatusForbidden},
		{"an empty origin", "GET", "/api/events", with("Origin", ""), http.StatusForbidden},
		{"HTTPS", "GET", "/api/events", with("Origin", "https://"+testHost), http.StatusForbidden},
		{"a script of another site", "GET", "/api/events", with("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"a script of another port", "GET", "/api/events", with("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"files for another page", "GET", "/app.js", with("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"a link to the API", "GET", "/api/doctor", navigating("cross-site"), http.StatusForbidden},
		{"a frame in another page", "GET", "/", func(r *http.Request) { navigating("cross-site")(r); r.Header.Set("Sec-Fetch-Dest", "iframe") }, http.StatusForbidden},
		{"POST elsewhere", "POST", "/api/service", json, http.StatusMethodNotAllowed},
		{"PUT", "PUT", doctorPath, json, http.StatusMethodNotAllowed},
		{"DELETE", "DELETE", "/", nil, http.StatusMethodNotAllowed},
		{"OPTIONS", "OPTIONS", "/api/events", nil, http.StatusMethodNotAllowed},
		{"HEAD", "HEAD", "/", nil, http.StatusMethodNotAllowed},
		{"a form", "POST", doctorPath, with("Content-Type", "application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType},
		{"text", "POST", doctorPath, with("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		{"no content type", "POST", doctorPath, nil, http.StatusUnsupportedMediaType},
	} {
		t.Run(test.name, func(t *testing.T) {
			reached := false
			g := newGuard(testToken, []string{testHost}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
			recorded := httptest.NewRecorder()
			g.ServeHTTP(recorded, newRequest(test.method, test.path, test.change))
			if recorded.Code != test.want || reached != (test.want == http.StatusOK) {
				t.Errorf("got status %d, want %d; reached %t: %s", recorded.Code, test.want, reached, recorded.Body)
			}
			if strings.Contains(recorded.Body.String(), testToken) {
				t.Errorf("the answer contains the token: %s", recorded.Body)
			}
			for name := range headers {
				if recorded.Header().Get(name) == "" {
					t.Errorf("the answer lacks the header %s", name)
				}
			}
			if recorded.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("other origins may read the answer")
			}
		})
	}
}

// R583: the server proves that it knows the token, without telling it.
func TestServerProvesThatItKnowsTheToken(t *testing.T) {
	g := newGuard(testToken, []string{testHost}, http.NotFoundHandler())
	prove := func(challenge string, change func(*http.Request)) (code int, body string) {
		recorded := httptest.NewRecorder()
		g.ServeHTTP(recorded, newRequest("GET", proofPath+"?challenge="+challenge, change))
		return recorded.Code, recorded.Body.String()
	}
	noToken := func(r *http.Request) { r.Header.Del("Authorization") }
	code, body := prove("0123456789abcdef", noToken)
	// echo -n 0123456789abcdef | openssl dgst -sha256 -hmac THETOKEN
	if code != http.StatusOK || !strings.Contains(body, `"db1d95c536e3a91cc186d78dbb92137a9f52fe72bc672028199f56b51f06dede"`) || strings.Contains(body, testToken) {
		t.Errorf("got status %d: %s", code, body)
	}
	if _, other := prove("0123456789abcdeX", noToken); other == body {
		t.Error("another challenge has the same proof")
	}
	for _, challenge := range []string{"", "short", strings.Repeat("x", 65)} {
		if code, body := prove(challenge, noToken); code != http.StatusBadRequest {
			t.Errorf("got status %d for challenge %q: %s", code, challenge, body)
		}
	}
	if code, _ := prove("0123456789abcdef", with("Origin", "https://evil.example")); code != http.StatusForbidden {
		t.Errorf("got status %d for another page", code)
	}
}

// R583: a service worker that another program left behind is replaced by one that ends, for any host.
func TestServiceWorkersAreRetired(t *testing.T) {
	g := newGuard(testToken, []string{testHost}, http.NotFoundHandler())
	recorded := httptest.NewRecorder()
	g.ServeHTTP(recorded, newRequest("GET", "/worker.js", func(r *http.Request) {
		r.Host = "127.0.0.1:8001"
		r.Header.Del("Authorization")
		r.Header.Set("Service-Worker", "script")
	}))
	if recorded.Code != http.StatusOK || !strings.Contains(recorded.Body.String(), "unregister()") || !strings.HasPrefix(recorded.Header().Get("Content-Type"), "text/javascript") {
		t.Errorf("got status %d, %s: %s", recorded.Code, recorded.Header().Get("Content-Type"), recorded.Body)
	}
}

// R583: nobody can guess the token.
func TestTokensDiffer(t *testing.T) {
	if one, other := newToken(), newToken(); one == other || len(one) < 50 {
		t.Errorf("got %s and %s", one, other)
	}
}
