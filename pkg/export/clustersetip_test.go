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

// R126: the annotation decides, ours before Submariner's, and else the flag.
func TestExportAsksForOneIPByAnnotationOrByDefault(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		byDefault   bool
		headless    bool
		want        bool
	}{
		{name: "nothing"},
		{name: "by default", byDefault: true, want: true},
		{name: "by annotation", annotations: map[string]string{wish: "true"}, want: true},
		{name: "not, by annotation", annotations: map[string]string{wish: "false"}, byDefault: true},
		{name: "by Submariner's", annotations: map[string]string{lighthouse: "true"}, want: true},
		{name: "not, by Submariner's", annotations: map[string]string{lighthouse: "false"}, byDefault: true},
		{name: "ours counts more", annotations: map[string]string{wish: "false", lighthouse: "true"}},
		{name: "what Submariner would not understand", annotations: map[string]string{lighthouse: "yes"}, byDefault: true, want: true},
		{name: "headless", annotations: map[string]string{wish: "true"}, byDefault: true, headless: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			written, exported := serviceExport(), service()
			written.Annotations = test.annotations
			if test.headless {
				exported.Spec.ClusterIP = corev1.ClusterIPNone
			}
			if got := Service(Origin{ID: "east", UseClusterSetIP: test.byDefault}, written, exported).Spec.UseClusterSetIP; got != test.want {
				t.Errorf("it asks for one: %t", got)
			}
		})
	}
}

func TestExportTakesEffectWhenItsClusterIsAMember(t *testing.T) {
	for name, joined := range map[string]time.Duration{"before": -time.Hour, "after": time.Hour} {
		at := created.Add(joined)
		want := created
		if joined > 0 {
			want = metav1.NewTime(at)
		}
		if got := Service(Origin{ID: "east", JoinedAt: at}, serviceExport(), service()).Spec.EffectiveAt; !got.Equal(&want) {
			t.Errorf("joined %s it was made: it took effect at %s, want %s", name, got, want)
		}
	}
}

// R128: what was decided is remembered, for one membership.
func TestDecisionIsRememberedForOneMembership(t *testing.T) {
	joined := created.Time
	decision := &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "west", Since: created}
	written := serviceExport()
	if RecordedDecision(written, joined) != nil {
		t.Fatal("a new export has decided something")
	}
	if !RecordDecision(written, decision, joined) || RecordDecision(written, decision, joined) {
		t.Error("what is written is not what has changed")
	}
	if diff := cmp.Diff(decision, RecordedDecision(written, joined)); diff != "" {
		t.Errorf("remembered: %s", diff)
	}
	if diff := cmp.Diff(decision, Service(Origin{ID: "east", JoinedAt: joined}, written, service()).Spec.ClusterSetIP); diff != "" {
		t.Errorf("told to others: %s", diff)
	}
	if got := RecordedDecision(written, joined.Add(time.Hour)); got != nil {
		t.Errorf("in its next membership it still holds to %v", got)
	}
	if !RecordDecision(written, nil, joined) || RecordDecision(written, nil, joined) || RecordedDecision(written, joined) != nil {
		t.Error("it cannot be forgotten")
	}
	written.Annotations = map[string]string{"clusterset.mcs-apiserver.io/clusterset-ip-decision": "243.1.0.1"}
	if got := RecordedDecision(written, joined); got != nil {
		t.Errorf("what is no decision was taken for %v", got)
	}
}
