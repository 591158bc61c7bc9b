// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of a test control plane.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const lifetime = 30 * 24 * time.Hour

// Pair is a certificate and its key in PEM.
type Pair struct {
	Cert, Key []byte
}

// Write writes the pair to the files <name>.crt and <name>.key of a directory.
func (p Pair) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}

// Authority is a certificate authority.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority creates a self-signed certificate authority.
func NewAuthority(name string) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	certificate, key, pair, err := issue(template, nil, nil)
	return &Authority{Pair: pair, certificate: certificate, key: key}, err
}

// LoadAuthority reads an authority that was written with Write.
func LoadAuthority(dir, name string) (*Authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key of certificate authority %s cannot sign", name)
	}
	return &Authority{Pair: Pair{Cert: certPEM, Key: keyPEM}, certificate: pair.Leaf, key: key}, nil
}

// Subject is the subject of a certificate: a user and its groups, or a server and its names.
type Subject struct {
	Name   string
	Groups []string
	DNS    []string
	IPs    []net.IP
	// Expired makes a certificate that is not valid any more.
	Expired bool
}

// Issue issues a certificate for clients and servers.
func (a *Authority) Issue(subject Subject) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: subject.Name, Organization: subject.Groups},
		DNSNames:    subject.DNS,
		IPAddresses: subject.IPs,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if subject.Expired {
		template.NotBefore, template.NotAfter = time.Now().Add(-lifetime), time.Now().Add(-time.Minute)
	}
	_, _, pair, err := issue(template, a.certificate, a.key)
	return pair, err
}

func issue(template, parent *x509.Certificate, parentKey crypto.Signer) (*x509.Certificate, crypto.Signer, Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, Pair{}, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, Pair{}, err
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(lifetime)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, Pair{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, Pair{}, err
	}
	certPEM, err := cert.EncodeCertificates(certificate)
	return certificate, key, Pair{Cert: certPEM, Key: keyPEM}, err
}
