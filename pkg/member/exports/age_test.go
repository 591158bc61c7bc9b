// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// R230
func TestExportIsNotOlderThanTheMembership(t *testing.T) {
	long, joined, later := membertest.Epoch.AddDate(-50, 0, 0), membertest.Epoch, membertest.Epoch.Add(time.Hour)
	for _, test := range []struct {
		name                string
		cluster             string
		exported, effective time.Time
		joinedAt, want      time.Time
	}{
		{"created before the cluster joined", "b", long, long, joined, joined},
		{"of an older release", "b", long, time.Time{}, joined, joined},
		{"created later", "b", later, later, joined, later},
		{"joined again", "b", long, later, joined, later},
		{"reported to have taken effect before it was created", "b", later, long, joined, later},
		{"unknown time of joining", "b", long, joined, time.Time{}, joined},
		{"unknown time of joining, of an older release", "b", long, time.Time{}, time.Time{}, long},
		{"relayed", "c", long, long, joined, long},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{Self: "a", Member: "b", Relay: route.Scope{All: true}, JoinedAt: test.joinedAt}
			var path []string
			if test.cluster != policy.Member {
				path = []string{test.cluster}
			}
			service := membertest.ExportedService(test.cluster, "web", path...)
			service.Spec.ExportedAt, service.Spec.EffectiveAt = metav1.NewTime(test.exported), metav1.NewTime(test.effective)
			object, err := Decode(service)
			if err != nil {
				t.Fatal(err)
			}
			arrival := policy.Admit(object)
			since := arrival.Object.Object.(*clusterset.ExportedService).Spec.Since()
			if !arrival.Admitted || arrival.Err != nil || !since.Time.Equal(test.want) {
				t.Errorf("it counts from %s (%v), want %s", since, arrival.Err, test.want)
			}
		})
	}
}
