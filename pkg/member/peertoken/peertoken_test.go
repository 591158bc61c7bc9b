// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peertoken_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
)

const day = 24 * time.Hour

var epoch = membertest.Epoch

func TestParse(t *testing.T) {
	want := peertoken.Token{Namespace: "mcs-system", Account: "peer-a", AccountUID: "2", Issued: epoch, Expires: epoch.Add(30 * day)}
	for _, algorithm := range []string{"RS256", "ES256", "PS512", "EdDSA"} {
		got, err := peertoken.Parse(membertest.JWT(t, algorithm, membertest.TokenClaims(epoch, epoch.Add(30*day))))
		if err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", algorithm, diff)
		}
	}
}

// Other credentials are renewed by their creators.
func TestOtherCredentialsAreNotRenewable(t *testing.T) {
	changed := func(change func(claims map[string]any)) string {
		claims := membertest.TokenClaims(epoch, epoch.Add(day))
		change(claims)
		return membertest.JWT(t, "RS256", claims)
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"a password":         "secret",
		"three parts":        "a.b.c",
		"a line break":       changed(func(map[string]any) {}) + "\n",
		"a break inside":     strings.Replace(changed(func(map[string]any) {}), ".", "\r\n.", 1),
		"a space":            changed(func(map[string]any) {}) + " x",
		"no signature":       strings.TrimSuffix(changed(func(map[string]any) {}), "c2lnbmF0dXJl"),
		"another algorithm":  membertest.JWT(t, "XX256", membertest.TokenClaims(epoch, epoch.Add(day))),
		"without an end":     changed(func(claims map[string]any) { delete(claims, "exp") }),
		"without a start":    changed(func(claims map[string]any) { delete(claims, "iat") }),
		"without a name":     changed(func(claims map[string]any) { delete(claims, "sub") }),
		"a user's":           changed(func(claims map[string]any) { claims["sub"] = "jane" }),
		"a node's":           changed(func(claims map[string]any) { claims["sub"] = "system:node:n1:x" }),
		"an odd name":        changed(func(claims map[string]any) { claims["sub"] = "system:serviceaccount:a:b:c" }),
		"an end that is not": changed(func(claims map[string]any) { claims["exp"] = "tomorrow" }),
	} {
		if got, err := peertoken.Parse(text); !errors.Is(err, peertoken.ErrOther) || got != (peertoken.Token{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// R388: only a credential all of whose tokens have expired has.
func TestExpired(t *testing.T) {
	old, later, valid := membertest.Token(t, epoch, day), membertest.Token(t, epoch, 2*day), membertest.Token(t, epoch, 30*day)
	for _, test := range []struct {
		name   string
		tokens []string
		at     time.Time
	}{
		{"none", nil, time.Time{}},
		{"one", []string{old}, epoch.Add(day)},
		{"the last counts", []string{later, old}, epoch.Add(2 * day)},
		{"one is valid", []string{old, valid}, time.Time{}},
		{"one is unknown", []string{old, "secret"}, time.Time{}},
	} {
		if at, expired := peertoken.Expired(test.tokens, epoch.Add(7*day)); !at.Equal(test.at) || expired == test.at.IsZero() {
			t.Errorf("%s: got %s, %t", test.name, at, expired)
		}
	}
}
