// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// R371: certificates of a CA that was replaced are trusted while it is valid.
func TestUnionTrustsCAsOfBothCertificates(t *testing.T) {
	before, _ := renew(t, Bundle{}, start, names)
	after, _ := renew(t, Bundle{}, start, names)
	both := Union(start, after.CA, before.CA)
	for name, server := range map[string]Bundle{"before": before, "after": after} {
		if err := verifies(t, Bundle{CA: both}, server, start); err != nil {
			t.Errorf("certificate from %s is not accepted: %v", name, err)
		}
	}
	if again := Union(start, before.CA, both); !bytes.Equal(again, both) {
		t.Error("replicas with different CAs do not agree")
	}
	later := start.Add(2 * authorityLifetime)
	renewed, _ := renew(t, Bundle{}, later, names)
	if got := Union(later, renewed.CA, both); !bytes.Equal(got, renewed.CA) {
		t.Errorf("expired CAs are trusted: %s", got)
	}
	if got := Union(later, after.CA, both); !bytes.Equal(got, after.CA) {
		t.Errorf("expired CA of before is trusted, or that of the file is not: %s", got)
	}
}

// A CA that changes all the time does not make the bundle larger and larger.
func TestUnionIsBounded(t *testing.T) {
	var known []byte
	var newest, oldest Bundle
	for i := range maxAuthorities + 3 {
		newest, _ = renew(t, Bundle{}, start.Add(time.Duration(i)*time.Hour), names)
		if i == 0 {
			oldest = newest
		}
		known = Union(start, newest.CA, known)
	}
	authorities, err := cert.ParseCertsPEM(known)
	if err != nil || len(authorities) != maxAuthorities {
		t.Errorf("%d CAs are trusted (%v), want %d", len(authorities), err, maxAuthorities)
	}
	if verifies(t, Bundle{CA: known}, newest, start.Add(24*time.Hour)) != nil || verifies(t, Bundle{CA: known}, oldest, start.Add(24*time.Hour)) == nil {
		t.Error("newest CA is not trusted, or the oldest one is")
	}
}

func TestUnionOfWhatIsNoBundle(t *testing.T) {
	bundle, _ := renew(t, Bundle{}, start, names)
	for _, known := range [][]byte{nil, []byte("garbage")} {
		if got := Union(start, bundle.CA, known); !bytes.Equal(got, bundle.CA) {
			t.Errorf("got %s", got)
		}
	}
	if got := Union(start, []byte("garbage"), bundle.CA); string(got) != "garbage" {
		t.Errorf("got %s", got)
	}
}
