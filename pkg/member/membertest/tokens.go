// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membertest

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

// JWT returns a token with these claims. Its signature is not valid.
func JWT(t *testing.T, algorithm string, claims map[string]any) string {
	t.Helper()
	part := func(content map[string]any) string {
		text, err := json.Marshal(content)
		Must(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]any{"alg": algorithm, "kid": "key"}) + "." + part(claims) + "." + base64.RawURLEncoding.EncodeToString([]byte("signature"))
}

// TokenClaims returns the claims of a kube-apiserver token for the account peer-a.
func TokenClaims(issued, expires time.Time) map[string]any {
	return map[string]any{
		"iss": "https://kubernetes.default.svc", "aud": []string{"https://kubernetes.default.svc"}, "sub": "system:serviceaccount:mcs-system:peer-a", "jti": "1",
		"iat": issued.Unix(), "nbf": issued.Unix(), "exp": expires.Unix(),
		"kubernetes.io": map[string]any{"namespace": "mcs-system", "serviceaccount": map[string]string{"name": "peer-a", "uid": "2"}},
	}
}

// Token returns a token of the account peer-a.
func Token(t *testing.T, issued time.Time, life time.Duration) string {
	t.Helper()
	return JWT(t, "RS256", TokenClaims(issued, issued.Add(life)))
}
