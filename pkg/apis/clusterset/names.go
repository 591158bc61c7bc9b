// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// ObjectName is the name under which a cluster's object is known in the others.
// A name that would be too long is cut, and told apart by a hash of the whole.
// The cluster must be a valid id.
func ObjectName(name, cluster string) string {
	full := name + "." + cluster
	if len(full) <= validation.DNS1123SubdomainMaxLength {
		return full
	}
	sum := sha256.Sum256([]byte(name))
	const hashed = 16
	keep := validation.DNS1123SubdomainMaxLength - len(cluster) - hashed - len("x.") - len(".")
	return name[:keep] + "x." + hex.EncodeToString(sum[:])[:hashed] + "." + cluster
}

// SourceLabels are those of everything that a cluster exports of a service.
func SourceLabels(cluster, service string) map[string]string {
	return map[string]string{multicluster.SourceClusterLabel: cluster, multicluster.ServiceNameLabel: service}
}
