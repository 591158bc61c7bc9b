// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// R248: no decision of an expelled cluster is used or published, in whichever cluster it is recorded.
func TestDecisionsOfExpelledClustersAreIgnored(t *testing.T) {
	exported := func(decision *clusterset.ClusterSetIPDecision) member.Export {
		return member.Export{Export: clusterset.Export{Service: &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{Cluster: "east", ClusterSetIP: decision}}}}
	}
	expelled := sets.New("mallory")
	for by, kept := range map[string]bool{"mallory": false, "west": true, "west, through mallory": false, "west, through north": true} {
		decision := &clusterset.ClusterSetIPDecision{DecidedBy: by, IPs: []string{"243.1.0.1"}}
		if author, through, ok := strings.Cut(by, ", through "); ok {
			decision.DecidedBy, decision.AdoptedFrom = author, []string{"east", through}
		}
		export := exported(decision)
		if got := withoutDecisionOf(expelled, export); (got.Service.Spec.ClusterSetIP != nil) != kept {
			t.Errorf("decision of %s: got %+v, want kept %t", by, got.Service.Spec.ClusterSetIP, kept)
		}
		if export.Service.Spec.ClusterSetIP != decision {
			t.Errorf("the export, which is shared, was modified")
		}
	}
	if got := withoutDecisionOf(expelled, exported(nil)); got.Service.Spec.ClusterSetIP != nil {
		t.Errorf("got decision %+v, want none", got.Service.Spec.ClusterSetIP)
	}
}
