// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R346: a cluster reports its own version to the others, and shows those that they report.
func TestVersionsOfAllClustersAreShown(t *testing.T) {
	w := newFixture(t, nil)
	w.config.Version = "v1.1.0"
	b := w.join("b")
	if version := w.Entry("b").Status.Version; version != "" {
		t.Errorf("the version of b is %q before b reported it", version)
	}
	w.probe(b, ownEntry("b", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.Version = "v1.0.0" }))
	if version := w.Entry("b").Status.Version; version != "v1.0.0" {
		t.Errorf("the version of b is %q", version)
	}
	if version := w.Entry("a").Status.Version; version != "v1.1.0" {
		t.Errorf("the version of this cluster is %q", version)
	}
}
