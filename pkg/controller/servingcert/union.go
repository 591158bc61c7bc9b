// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// maxAuthorities bounds the CAs of a union. A CA is trusted by the kube-apiserver and by
// mcs-controller of all replicas, which learn of it at different times.
const maxAuthorities = 8

// Union returns the CA bundle to trust where others issue the serving certificate: their
// present CAs, and those that are known already and have not expired, the newest first. Pods
// get certificates of a new CA one after another, so that both are in use for a while. A known
// bundle that has all of this is returned as it is: replicas whose present CAs differ agree.
func Union(now time.Time, present, known []byte) []byte {
	needed, err := cert.ParseCertsPEM(present)
	if err != nil {
		return present
	}
	before, err := cert.ParseCertsPEM(known)
	if err != nil {
		before = nil
	}
	union := slices.DeleteFunc(slices.Clone(needed), func(c *x509.Certificate) bool { return slices.ContainsFunc(before, c.Equal) })
	if len(union) == 0 && len(before) <= maxAuthorities && !slices.ContainsFunc(before, func(c *x509.Certificate) bool { return now.After(c.NotAfter) }) {
		return known
	}
	for _, certificate := range before {
		if slices.ContainsFunc(needed, certificate.Equal) || now.Before(certificate.NotAfter) && len(union) < maxAuthorities {
			union = append(union, certificate)
		}
	}
	bundle, err := cert.EncodeCertificates(union...)
	if err != nil {
		return present
	}
	return bundle
}
