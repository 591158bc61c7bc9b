// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	servingLifetime   = 365 * 24 * time.Hour
	// backdate tolerates clocks that are behind.
	backdate = 5 * time.Minute
)

// Bundle is a serving certificate, its key and the CA that verifies it, in PEM. The first
// certificate of CA signs the next serving certificate; the others are its predecessors,
// which are trusted until they expire, since they may have signed the present one.
type Bundle struct {
	CA, CAKey, Cert, Key []byte
}

// Renew returns the bundle to use and when the next renewal is due. The bundle is
// unchanged while it is valid for the given names and has used less than two thirds of
// its lifetime. What is missing, invalid or for other names is created again.
//
// A new CA signs nothing before clients can know it: the predecessor signs the serving
// certificate once more if that is due, too.
func (b Bundle) Renew(now time.Time, names []string) (Bundle, time.Time, error) {
	authority, authorityKey, err := b.authority()
	if err != nil || authority.NotAfter.Before(now.Add(servingLifetime)) {
		if b, authority, authorityKey, err = b.withNewAuthority(now); err != nil {
			return Bundle{}, time.Time{}, err
		}
	}
	serving, err := b.serving()
	if err != nil || !now.Before(dueAt(serving)) || !b.trusts(serving, now) || !slices.Equal(serving.DNSNames, names) {
		if b, serving, err = b.withNewServing(now, names, authority, authorityKey); err != nil {
			return Bundle{}, time.Time{}, err
		}
	}
	if !now.Before(dueAt(authority)) {
		if b, authority, _, err = b.withNewAuthority(now); err != nil {
			return Bundle{}, time.Time{}, err
		}
	}
	next := dueAt(serving)
	if due := dueAt(authority); due.Before(next) {
		next = due
	}
	return b, next, nil
}

// trusts reports whether clients that know the bundle accept a certificate.
func (b Bundle) trusts(serving *x509.Certificate, now time.Time) bool {
	authorities, err := cert.ParseCertsPEM(b.CA)
	return err == nil && slices.ContainsFunc(authorities, func(authority *x509.Certificate) bool {
		return now.Before(authority.NotAfter) && serving.CheckSignatureFrom(authority) == nil
	})
}

// Equal reports whether two bundles are identical.
func (b Bundle) Equal(other Bundle) bool {
	return bytes.Equal(b.CA, other.CA) && bytes.Equal(b.CAKey, other.CAKey) && bytes.Equal(b.Cert, other.Cert) && bytes.Equal(b.Key, other.Key)
}

// dueAt returns when a certificate is renewed: after two thirds of its lifetime.
func dueAt(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(life / 3 * 2)
}

func (b Bundle) authority() (*x509.Certificate, crypto.Signer, error) {
	certificate, err := first(b.CA)
	if err != nil {
		return nil, nil, err
	}
	key, err := signer(b.CAKey, certificate)
	return certificate, key, err
}

func (b Bundle) serving() (*x509.Certificate, error) {
	certificate, err := first(b.Cert)
	if err != nil {
		return nil, err
	}
	_, err = signer(b.Key, certificate)
	return certificate, err
}

func first(data []byte) (*x509.Certificate, error) {
	certificates, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, err
	}
	return certificates[0], nil
}

// signer parses a private key and checks that it belongs to the certificate.
func signer(data []byte, certificate *x509.Certificate) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key of type %T cannot sign", parsed)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificate.PublicKey) {
		return nil, errors.New("private key does not match the certificate")
	}
	return key, nil
}

func (b Bundle) withNewAuthority(now time.Time) (Bundle, *x509.Certificate, crypto.Signer, error) {
	template := &x509.Certificate{
		// The year distinguishes CAs for a person who reads the bundle.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("mcs-apiserver-ca-%d", now.Year())},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return Bundle{}, nil, nil, err
	}
	certificate, err := sign(template, template, key.Public(), key)
	if err != nil {
		return Bundle{}, nil, nil, err
	}
	trusted := []*x509.Certificate{certificate}
	if predecessors, err := cert.ParseCertsPEM(b.CA); err == nil {
		for _, predecessor := range predecessors {
			if now.Before(predecessor.NotAfter) {
				trusted = append(trusted, predecessor)
			}
		}
	}
	if b.CA, err = cert.EncodeCertificates(trusted...); err != nil {
		return Bundle{}, nil, nil, err
	}
	b.CAKey = keyPEM
	return b, certificate, key, nil
}

func (b Bundle) withNewServing(now time.Time, names []string, authority *x509.Certificate, authorityKey crypto.Signer) (Bundle, *x509.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(servingLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return Bundle{}, nil, err
	}
	certificate, err := sign(template, authority, key.Public(), authorityKey)
	if err != nil {
		return Bundle{}, nil, err
	}
	if b.Cert, err = cert.EncodeCertificates(certificate); err != nil {
		return Bundle{}, nil, err
	}
	b.Key = keyPEM
	return b, certificate, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, data, err
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	data, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(data)
}
