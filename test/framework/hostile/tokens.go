// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Tokens are requests for a token with which the importer renews its credential.
const Tokens = "token"

// tokenAttacks are about the tokens that the member issues. They are sent once, because a
// refused token is requested again when another tenth of the lifetime of the current one has
// passed.
func tokenAttacks() []Attack {
	issue := func(name string, token func() string) Attack {
		return Attack{Name: name, Behavior: func(Target) Behavior {
			return Behavior{Tokens: {Handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":%q}}`, token())
			}}}
		}}
	}
	// Each of them is due at once. Requests are a few seconds apart, whatever is issued.
	old := issue("old-tokens", func() string { return token(time.Now().Add(-30*24*time.Hour), 31*24*time.Hour, "") })
	old.Lasts = 5 * time.Second
	return []Attack{
		issue("short-tokens", func() string { return token(time.Now(), 4*time.Second, "") }),
		issue("huge-tokens", func() string { return token(time.Now(), 30*24*time.Hour, strings.Repeat("x", 1<<18)) }),
		old,
	}
}

// token returns a token of a service account, with a signature that nobody verifies.
func token(issued time.Time, life time.Duration, padding string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"system:serviceaccount:mcs-system:peer-importer","iat":%d,"exp":%d,"padding":%q}`,
		issued.Unix(), issued.Add(life).Unix(), padding)) + "." + encode([]byte("signature"))
}

// Expiry returns when a token expires that this package made.
func Expiry(token string) (time.Time, error) {
	var claims struct {
		Expires int64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("not a token of a service account")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	return time.Unix(claims.Expires, 0), err
}

// token returns the token in the member Secret: one that is to be renewed at once if the
// member issues others.
func (c Config) token() string {
	if _, ok := c.Behavior[Tokens]; ok {
		return token(time.Now(), 30*time.Minute, "")
	}
	return "anything"
}
