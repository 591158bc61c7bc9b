// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// R322: while a cluster fails, an import may not have an IP yet, and DNS no answer. Otherwise it
// must have.
func TestNameMayHaveNoAnswerWithoutIP(t *testing.T) {
	for _, failing := range []bool{true, false} {
		bed := calm(0)
		of, cluster := bed.source.Services()[1], bed.clusters[0]
		bed.objects(cluster, history.Imports, bed.entries[0].At, bed.end().Add(time.Second), func(object *history.Object) {
			if keyOf(*object) == (key{of.Namespace, of.Name}) {
				stripped := *object.Import
				stripped.IPs, stripped.Headless = nil, false
				object.Import = &stripped
			}
		})
		var hidden bool
		for _, entry := range bed.entries {
			if l := entry.Lookup; l != nil && l.Cluster == cluster && l.Service == of && len(l.Answers) > 0 {
				l.Answers, l.NotFound, hidden = nil, true, true
			}
		}
		if failing {
			bed.insert(bed.entries[0].At.Add(time.Nanosecond), history.Entry{Fault: &history.Fault{ID: -1, Kind: "kill", Clusters: []string{"west"}}})
		}
		found := violationsOf(t, bed.history())
		vanished := slices.ContainsFunc(found, func(v Violation) bool { return v.Kind == Vanished })
		if !hidden || vanished == failing {
			t.Errorf("failing %t, hidden %t: %v", failing, hidden, found)
		}
	}
}
