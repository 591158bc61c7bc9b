// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// DerivedServiceName is the name of the Service that stands for an import in
// its cluster. It says nothing of the import's name, because both may be in
// the same namespace and the import's name may have any length a name can have.
func DerivedServiceName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "derived-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:10]
}
