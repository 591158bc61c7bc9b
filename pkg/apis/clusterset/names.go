// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// ObjectName returns the name of an object of a cluster in the other clusters:
// name and cluster ID, joined by a dot. A name that would be too long is
// truncated and made unique by a hash. The cluster ID must be valid.
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

// SourceLabels returns the labels of all objects that a cluster exports for a
// service.
func SourceLabels(cluster, service string) map[string]string {
	return map[string]string{multicluster.SourceClusterLabel: cluster, multicluster.ServiceNameLabel: service}
}
