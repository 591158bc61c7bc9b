// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// R475: clusters that join count as members since the given time, those that have joined keep
// their age.
func TestSinceIsForClustersThatJoin(t *testing.T) {
	const since = "2024-01-02T03:04:05Z"
	old := func(c *Cluster) { c.Since = since }
	clusters := []Cluster{
		newCluster("east", named("east"), old),
		newCluster("west", named("west"), in("production"), old, func(c *Cluster) { c.JoinedAt = "2026-01-01T00:00:00Z" }),
	}
	recordNone(clusters)
	planned, err := Join("production", clusters, nil)
	if err != nil {
		t.Fatal(err)
	}
	var descriptions []string
	for _, step := range planned.Steps {
		descriptions = append(descriptions, step.Context+": "+step.String())
	}
	if text := strings.Join(descriptions, "\n"); strings.Count(text, "counts as a member since "+since) != 1 || !strings.Contains(text, `east: join ClusterSet "production", of which it counts as a member since `+since) {
		t.Errorf("planned\n%s", text)
	}
	if text := strings.Join(planned.Warnings, "\n"); !strings.Contains(text, `context "west": the cluster is a member since 2026-01-01T00:00:00Z, which --since does not change`) {
		t.Errorf("warnings\n%s", text)
	}
	for _, declaration := range Declare(planned, "production", clusters, nil, time.Now()) {
		claims := declaration.ClusterSetClaims()
		claim := claims[len(claims)-1].(*multiclusterv1.ClusterClaim)
		if want := map[string]string{"east": `{"creationTimestamp":"` + since + `"}`}[declaration.ID]; claim.Annotations[multicluster.MigratedFromAnnotation] != want {
			t.Errorf("%s declares %v", declaration.ID, claim.Annotations)
		}
		for _, member := range declaration.Members {
			if want := map[string]string{"east": since, "west": "2026-01-01T00:00:00Z"}[member.ID]; member.JoinedAt != want {
				t.Errorf("%s declares that %s joined at %s, want %s", declaration.ID, member.ID, member.JoinedAt, want)
			}
		}
	}
}
