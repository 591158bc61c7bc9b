// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	wish       = "clusterset.mcs-apiserver.io/use-clusterset-ip"
	lighthouse = "lighthouse.submariner.io/use-clusterset-ip"
)

// R126: our annotation takes precedence over that of Submariner, and both over the
// flag.
func TestExportRequestsASharedIPByAnnotationOrByDefault(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		byDefault   bool
		headless    bool
		want        bool
	}{
		{name: "neither annotation nor default"},
		{name: "by default", byDefault: true, want: true},
		{name: "by annotation", annotations: map[string]string{wish: "true"}, want: true},
		{name: "disabled by annotation", annotations: map[string]string{wish: "false"}, byDefault: true},
		{name: "by Submariner annotation", annotations: map[string]string{lighthouse: "true"}, want: true},
		{name: "disabled by Submariner annotation", annotations: map[string]string{lighthouse: "false"}, byDefault: true},
		{name: "our annotation takes precedence", annotations: map[string]string{wish: "false", lighthouse: "true"}},
		{name: "invalid Submariner annotation", annotations: map[string]string{lighthouse: "yes"}, byDefault: true, want: true},
		{name: "exported to some clusters", annotations: map[string]string{wish: "true", "clusterset.mcs-apiserver.io/export-to": "west"}, byDefault: true},
		{name: "headless", annotations: map[string]string{wish: "true"}, byDefault: true, headless: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			written, exported := serviceExport(), service()
			written.Annotations = test.annotations
			if test.headless {
				exported.Spec.ClusterIP = corev1.ClusterIPNone
			}
			if got := Service(Origin{ID: "east", UseClusterSetIP: test.byDefault}, written, exported).Spec.UseClusterSetIP; got != test.want {
				t.Errorf("the export requests a shared IP: %t, want %t", got, test.want)
			}
		})
	}
}

func TestExportTakesEffectWhenItsClusterHasJoined(t *testing.T) {
	for name, joined := range map[string]time.Duration{"before": -time.Hour, "after": time.Hour} {
		at := created.Add(joined)
		want := created
		if joined > 0 {
			want = metav1.NewTime(at)
		}
		if got := Service(Origin{ID: "east", JoinedAt: at}, serviceExport(), service()).Spec.EffectiveAt; !got.Equal(&want) {
			t.Errorf("cluster joined %s the export was created: effective at %s, want %s", name, got, want)
		}
	}
}

// R128: a decision is recorded for one membership.
func TestDecisionIsRecordedForOneMembership(t *testing.T) {
	joined := created.Time
	decision := &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "west", Since: created, AdoptedFrom: []string{"north"}}
	written := serviceExport()
	if RecordedDecision(written, joined) != nil {
		t.Fatal("a new export has a recorded decision")
	}
	if !RecordDecision(written, decision, joined) || RecordDecision(written, decision, joined) {
		t.Error("RecordDecision does not report changes correctly")
	}
	if diff := cmp.Diff(decision, RecordedDecision(written, joined)); diff != "" {
		t.Errorf("recorded decision: %s", diff)
	}
	if diff := cmp.Diff(decision, Service(Origin{ID: "east", JoinedAt: joined}, written, service()).Spec.ClusterSetIP); diff != "" {
		t.Errorf("exported decision: %s", diff)
	}
	for cluster, want := range map[string]bool{"west": true, "north": true, "east": false} {
		if got := DependsOn(written, cluster); got != want {
			t.Errorf("decision depends on %s: %t, want %t", cluster, got, want)
		}
	}
	if got := RecordedDecision(written, joined.Add(time.Hour)); got != nil {
		t.Errorf("the decision %v still applies in the next membership", got)
	}
	if !RecordDecision(written, nil, joined) || RecordDecision(written, nil, joined) || RecordedDecision(written, joined) != nil {
		t.Error("the decision is not removed")
	}
	written.Annotations = map[string]string{"clusterset.mcs-apiserver.io/clusterset-ip-decision": "243.1.0.1"}
	if got := RecordedDecision(written, joined); got != nil {
		t.Errorf("an invalid annotation is read as %v", got)
	}
}
