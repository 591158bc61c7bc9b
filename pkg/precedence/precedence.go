// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package precedence defines which of several clusters prevails when they
// disagree about a Service. Every cluster must apply the same order, or the
// clusters would end up with different results.
package precedence

import (
	"cmp"
	"time"
)

// Rank is what the precedence of an export or of a decision depends on.
type Rank struct {
	// Since is when the export or the decision took effect.
	Since time.Time
	// Created is when the export was created, which may be before its cluster
	// joined the ClusterSet and the export took effect. It is zero for decisions.
	Created time.Time
	// Cluster is the ID of the cluster that made it.
	Cluster string
}

// Compare returns a negative number if a takes precedence over b: the one that
// took effect earlier does, of two that took effect at the same time the one that
// was created earlier, and then the one with the lower cluster ID.
func Compare(a, b Rank) int {
	return cmp.Or(a.Since.Compare(b.Since), a.Created.Compare(b.Created), cmp.Compare(a.Cluster, b.Cluster))
}
