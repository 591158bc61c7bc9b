// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// R494: the end of an import is recorded because of the members that exported it last, not of
// those that withdrew it before. A hub counts for all clusters that it relays.
func TestEndsAreAttributedToTheLastExporters(t *testing.T) {
	export := func(cluster string, path ...string) member.Export {
		return member.Export{Export: clusterset.Export{Service: &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{Cluster: cluster, Path: path}}}}
	}
	all := exporters([]member.Export{export("a"), export("west", "west"), export("x", "x", "hub"), export("y", "y", "z", "hub")})
	if !slices.Equal(all, []string{"a", "hub", "west"}) {
		t.Errorf("exported by %v", all)
	}
	shown := lifecycles{byNamespace: map[string]map[string]*lifecycle{}}
	for i, step := range []struct {
		members, want []string
		end           bool
	}{
		{all, all, false},
		{[]string{"hub"}, []string{"hub"}, false},
		{nil, []string{"hub"}, true},
		{nil, []string{"hub"}, true}, // it is not recorded yet
	} {
		decision, got := shown.decide(web, &identified, false, len(step.members) > 0, step.members, epoch)
		if (decision.End != nil) != step.end || !slices.Equal(got, step.want) {
			t.Errorf("step %d: decision %+v because of %v, want %v", i, decision, got, step.want)
		}
	}
}
