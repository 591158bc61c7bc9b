// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"k8s.io/component-base/metrics/testutil"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// R309: metrics tell how many members are in which state, and for how long each has been
// silent.
func TestStatesAndSilenceAreMeasured(t *testing.T) {
	w, b := exporting(t, nil)
	w.join("c")
	expect := func(state clusterset.MemberState, want float64) {
		t.Helper()
		if got, err := testutil.GetGaugeMetricValue(memberStates.WithLabelValues(string(state))); err != nil || got != want {
			t.Errorf("%v members are %s, want %v: %v", got, state, want, err)
		}
	}
	w.tick()
	expect(clusterset.MemberConnected, 2)
	expect(clusterset.MemberLost, 0)
	w.silence(b, liveness.DefaultTTL, nil)
	expect(clusterset.MemberConnected, 0)
	expect(clusterset.MemberLost, 2)
	if got, err := testutil.GetGaugeMetricValue(silence.WithLabelValues("b")); err != nil || got != liveness.DefaultTTL.Seconds() {
		t.Errorf("b has been silent for %v s: %v", got, err)
	}
	w.removeSecret(t.Context(), secretFor("b", ""))
	w.tick()
	expect(clusterset.MemberLost, 1)
	if w.roster.measured.Has("b") {
		t.Error("the silence of a former member is measured")
	}
}
