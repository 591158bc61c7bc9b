// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"strings"
	"testing"
)

func TestProbesReportWhyTheAPIIsNotRegistered(t *testing.T) {
	for _, test := range []struct {
		name  string
		state state
		ready bool
		want  string
	}{
		{"registered", registeredState(nil, nil, true), true, "ok"},
		{"not registered yet", registeredState(nil, nil, false), true, "ok"},
		{"refused", registeredState([]string{"CRD a", "CRD b"}, nil, false), false, "registration refused: CRD a; CRD b"},
		{"partly refused", registeredState([]string{"CRD a"}, nil, true), true, "ok"},
		{"left to others", registeredState(nil, []string{"CRD a"}, false), true, "ok"},                                                                           // R467
		{"being migrated", migratingState("mcs-system", []string{"multicluster.x-k8s.io/v1alpha1"}), true, "multicluster.x-k8s.io/v1alpha1 is served by others"}, // R472
		{"detached", detachedState("mcs-system"), true, "kubectl mcs attach"},                                                                                    // R181
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := test.state.probe()
			if err != nil {
				text = err.Error()
			}
			if (err == nil) != test.ready || !strings.Contains(text, test.want) {
				t.Errorf("got ready %t and %q, want %t and %q", err == nil, text, test.ready, test.want)
			}
		})
	}
}
