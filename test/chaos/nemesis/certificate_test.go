// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
)

// R361: nothing but the time is wrong with a certificate that has expired.
func TestExpiredCertificateIsRightOtherwise(t *testing.T) {
	authority, err := pki.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	valid, err := authority.Issue(pki.Subject{Name: "server", DNS: []string{"server.example"}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := tls.X509KeyPair(authority.Cert, authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	expired, err := expiredCertificate(valid.Cert, signer, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(expired, valid.Key); err != nil {
		t.Errorf("the key does not fit: %v", err)
	}
	certificates, err := cert.ParseCertsPEM(expired)
	if err != nil {
		t.Fatal(err)
	}
	options := x509.VerifyOptions{DNSName: "server.example", Roots: x509.NewCertPool(), CurrentTime: now}
	options.Roots.AppendCertsFromPEM(authority.Cert)
	var invalid x509.CertificateInvalidError
	if _, err := certificates[0].Verify(options); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("%v, want that it has expired", err)
	}
}
