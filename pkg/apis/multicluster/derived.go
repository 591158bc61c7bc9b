// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// DerivedServiceName returns the name of the derived Service of an import. The
// name is a hash, because the Service with the name of the import may exist in
// the same namespace, and because the name of the import may already have the
// maximum length.
func DerivedServiceName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "derived-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:10]
}
