// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// answerTimeout limits how long it may take to send an answer.
const answerTimeout = 10 * time.Second

// proofPath is where the server proves that it is the one that printed the URL.
const proofPath = "/proof"

// retiringWorker is the next version of every service worker that another program at the port left behind
// in the browser. The page has none.
const retiringWorker = `self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.registration.unregister()));
`

// headers are those of all responses. The page loads nothing from elsewhere, runs nothing but its own
// files, and is neither embedded nor cached.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// guard protects the page from other users of the machine, who do not know the token, and from other
// pages in the browser, which are of another origin.
type guard struct {
	token string
	hosts []string
	next  http.Handler
}

// newToken returns a token that cannot be guessed.
func newToken() string { return rand.Text() + rand.Text() }

// newGuard returns a guard of a page whose URLs have one of these hosts.
func newGuard(token string, hosts []string, next http.Handler) *guard {
	return &guard{token: token, hosts: hosts, next: next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // tests have no connection
	if r.Header.Get("Service-Worker") == "script" {                                   // the browser asks whether there is another version, for any host
		w.Header().Set("Content-Type", contentTypes[".js"])
		_, _ = io.WriteString(w, retiringWorker) // the browser is gone
		return
	}
	if code, why := g.check(r); code != http.StatusOK {
		refuse(w, code, why)
		return
	}
	if r.URL.Path == proofPath {
		g.prove(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// prove proves that the server knows the token without telling it. A page asks before it sends the token:
// after the command has ended, somebody else may listen at its port.
func (g *guard) prove(w http.ResponseWriter, r *http.Request) {
	challenge := r.URL.Query().Get("challenge")
	if len(challenge) < 16 || len(challenge) > 64 {
		refuse(w, http.StatusBadRequest, "the challenge must have 16 to 64 characters")
		return
	}
	proof := hmac.New(sha256.New, []byte(g.token))
	proof.Write([]byte(challenge))
	answerJSON(w, http.StatusOK, map[string]string{"proof": hex.EncodeToString(proof.Sum(nil))})
}

// check returns http.StatusOK for requests of the page, or why a request is refused.
func (g *guard) check(r *http.Request) (code int, why string) {
	api := strings.HasPrefix(r.URL.Path, "/api/")
	switch {
	case !slices.Contains(g.hosts, r.Host): // a name that an attacker lets resolve to this machine
		return http.StatusForbidden, "the request is for another host: use the URL that kubectl mcs ui prints"
	case !g.sameOrigin(r):
		return http.StatusForbidden, "the request is from another page"
	case r.Method != http.MethodGet && (r.Method != http.MethodPost || r.URL.Path != doctorPath):
		return http.StatusMethodNotAllowed, "only GET is allowed"
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
		return http.StatusUnsupportedMediaType, "only application/json is allowed"
	case api && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+g.token)) != 1:
		return http.StatusUnauthorized, "the token is missing or wrong: open the URL that kubectl mcs ui prints"
	}
	return http.StatusOK, ""
}

// sameOrigin reports whether a request is from the page, or from the user. A link elsewhere may open the
// page, which has no data without the token.
func (g *guard) sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); len(r.Header.Values("Origin")) > 0 && !slices.ContainsFunc(g.hosts, func(host string) bool { return origin == "http://"+host }) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none", "":
		return true
	}
	return r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// refuse writes an error.
func refuse(w http.ResponseWriter, code int, why string) {
	answerJSON(w, code, map[string]string{"error": why})
}

func answerJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the page is gone
}
