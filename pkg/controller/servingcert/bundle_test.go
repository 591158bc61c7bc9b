// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"mcs-apiserver.mcs-system.svc", "localhost"}
)

func renew(t *testing.T, b Bundle, now time.Time, names []string) (Bundle, time.Time) {
	t.Helper()
	renewed, next, err := b.Renew(now, names)
	if err != nil {
		t.Fatalf("renew at %s: %v", now, err)
	}
	if !next.After(now) {
		t.Fatalf("renewed at %s, but due again at %s already", now, next)
	}
	return renewed, next
}

// verifies checks whether a client that trusts one bundle accepts the certificate of another.
func verifies(t *testing.T, client, server Bundle, now time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatalf("the serving certificate does not load: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(client.CA)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: names[0], CurrentTime: now})
	return err
}

func TestNewBundleServesTheNames(t *testing.T) {
	bundle, _ := renew(t, Bundle{}, start, names)
	for _, now := range []time.Time{start.Add(-time.Minute), start, start.Add(servingLifetime / 2)} {
		if err := verifies(t, bundle, bundle, now); err != nil {
			t.Errorf("at %s: %v", now, err)
		}
	}
}

func TestValidBundleIsKept(t *testing.T) {
	bundle, due := renew(t, Bundle{}, start, names)
	if same, _ := renew(t, bundle, due.Add(-time.Second), names); !same.Equal(bundle) {
		t.Error("a bundle that is not due was renewed")
	}
}

func TestServingCertificateIsRenewedBeforeItExpires(t *testing.T) {
	bundle, due := renew(t, Bundle{}, start, names)
	renewed, _ := renew(t, bundle, due, names)
	if string(renewed.CA) != string(bundle.CA) || string(renewed.CAKey) != string(bundle.CAKey) {
		t.Error("the CA was replaced although only the serving certificate was due")
	}
	if string(renewed.Cert) == string(bundle.Cert) {
		t.Error("the serving certificate was kept after it was due")
	}
	if !due.Before(start.Add(servingLifetime * 3 / 4)) {
		t.Errorf("due at %s, which is too close to the expiry", due)
	}
	if err := verifies(t, bundle, renewed, due); err != nil {
		t.Errorf("clients of the old bundle do not accept the new certificate: %v", err)
	}
}

func TestOldCAIsTrustedUntilItExpires(t *testing.T) {
	bundle, _ := renew(t, Bundle{}, start, names)
	later := start.Add(authorityLifetime * 2 / 3)
	bundle, _ = renew(t, bundle, later.Add(-time.Hour), names) // a new serving certificate of the old CA
	renewed, _ := renew(t, bundle, later, names)
	if string(renewed.CAKey) == string(bundle.CAKey) {
		t.Fatal("the authority was kept past its time")
	}
	for name, server := range map[string]Bundle{"old": bundle, "new": renewed} {
		if err := verifies(t, renewed, server, later); err != nil {
			t.Errorf("the %s certificate is not accepted: %v", name, err)
		}
	}
	final, _ := renew(t, renewed, start.Add(2*authorityLifetime), names)
	if authorities, err := cert.ParseCertsPEM(final.CA); err != nil || len(authorities) != 1 {
		t.Errorf("%d CAs are trusted (%v), want the expired ones removed", len(authorities), err)
	}
}

// R371: clients that trust the bundle from before a renewal accept the certificate after it, also
// if the CA is renewed: the kube-apiserver learns of another CA later.
func TestNoRenewalNeedsClientsToKnowTheNewCA(t *testing.T) {
	for name, after := range map[string]func(now, next time.Time) time.Time{
		"in time":     func(_, next time.Time) time.Time { return next },
		"every month": func(now, _ time.Time) time.Time { return now.Add(30 * 24 * time.Hour) },
		"every year":  func(now, _ time.Time) time.Time { return now.Add(servingLifetime) },
	} {
		bundle, now := renew(t, Bundle{}, start, names)
		authorities := 1
		for now.Before(start.Add(2 * authorityLifetime)) {
			renewed, next := renew(t, bundle, now, names)
			if string(renewed.CAKey) != string(bundle.CAKey) {
				authorities++
			}
			if err := verifies(t, bundle, renewed, now); err != nil {
				t.Fatalf("renewed %s, at %s: %v", name, now, err)
			}
			bundle, now = renewed, after(now, next)
		}
		if authorities < 3 {
			t.Errorf("renewed %s: %d CAs in 20 years", name, authorities)
		}
	}
}

func TestInvalidBundleIsReplaced(t *testing.T) {
	good, _ := renew(t, Bundle{}, start, names)
	other, _ := renew(t, Bundle{}, start, names)
	for name, bad := range map[string]Bundle{
		"the certificate is garbage": {CA: good.CA, CAKey: good.CAKey, Cert: []byte("garbage"), Key: good.Key},
		"the key is missing":         {CA: good.CA, CAKey: good.CAKey, Cert: good.Cert},
		"the key does not match":     {CA: good.CA, CAKey: good.CAKey, Cert: good.Cert, Key: other.Key},
		"another CA signed it":       {CA: good.CA, CAKey: good.CAKey, Cert: other.Cert, Key: other.Key},
		"the CA is garbage":          {CA: []byte("garbage"), CAKey: good.CAKey, Cert: good.Cert, Key: good.Key},
	} {
		t.Run(name, func(t *testing.T) {
			renewed, _ := renew(t, bad, start, names)
			if string(renewed.Cert) == string(bad.Cert) {
				t.Error("the serving certificate was kept")
			}
			if err := verifies(t, renewed, renewed, start); err != nil {
				t.Error(err)
			}
		})
	}
	for name, bad := range map[string]Bundle{
		"the CA key does not match": {CA: good.CA, CAKey: other.CAKey, Cert: good.Cert, Key: good.Key},
		"the CA key is missing":     {CA: good.CA, Cert: good.Cert, Key: good.Key},
	} {
		t.Run(name, func(t *testing.T) {
			renewed, _ := renew(t, bad, start, names)
			if string(renewed.CA) == string(good.CA) || string(renewed.Cert) != string(good.Cert) {
				t.Error("want another CA, and the certificate that clients trust")
			}
			if err := verifies(t, renewed, renewed, start); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("the names changed", func(t *testing.T) {
		renewed, _ := renew(t, good, start, append([]string{names[0]}, "new.example"))
		if string(renewed.Cert) == string(good.Cert) || string(renewed.CA) != string(good.CA) {
			t.Error("want a new certificate of the same CA")
		}
	})
}
