// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var clusters = []string{"east", "north", "west"}

// R326: the same seed gives the same plan, and other seeds give others.
func TestPlanDependsOnTheSeedOnly(t *testing.T) {
	plans := map[string]bool{}
	for seed := range uint64(20) {
		plan := Plan(seed, clusters, 5*time.Minute)
		if again := Plan(seed, clusters, 5*time.Minute); !reflect.DeepEqual(plan, again) {
			t.Errorf("seed %d gives\n%v\nand\n%v", seed, plan, again)
		}
		var text []string
		for _, fault := range plan {
			text = append(text, fault.String())
		}
		plans[strings.Join(text, "\n")] = true
	}
	if len(plans) != 20 {
		t.Errorf("20 seeds give %d plans", len(plans))
	}
}

// Faults can be undone: they end in time, and those of one place do not overlap.
func TestFaultsOfOnePlaceDoNotOverlap(t *testing.T) {
	for seed := range uint64(50) {
		for _, duration := range []time.Duration{time.Minute, 5 * time.Minute} {
			ends := map[string]time.Duration{}
			last := time.Duration(0)
			for _, fault := range Plan(seed, clusters, duration) {
				where := strings.Join(slices.Sorted(slices.Values(fault.Clusters)), " ")
				if fault.At < last || fault.At < ends[where] || fault.At+fault.Duration > duration {
					t.Errorf("seed %d: %s begins at %s; what failed before ends at %s", seed, fault, fault.At, ends[where])
				}
				if len(fault.Clusters) == 2 && fault.Clusters[0] == fault.Clusters[1] || len(fault.Clusters) > 2 {
					t.Errorf("seed %d: %s", seed, fault)
				}
				last, ends[where] = fault.At, fault.At+fault.Duration
			}
		}
	}
}

// R326, R357, R360, R361: all kinds of faults are planned, of all processes and all clusters;
// those of links in one direction and in both; and cuts and outages of APIs that are shorter and
// longer than the TTL.
func TestAllFaultsArePlanned(t *testing.T) {
	seen := map[string]bool{}
	want := []string{
		"cut one way", "loss one way", "clock-jump mcs-apiserver", "clock-jump mcs-controller", "expired-certificate kube-apiserver",
		"expired-certificate mcs-apiserver", "clock-jump ahead", "clock-jump behind", "long kill etcd", "long kill kube-apiserver",
	}
	for _, kind := range []Kind{Cut, ExpiredToken, ScaledDown} {
		want = append(want, "long "+string(kind)+" ", "short "+string(kind)+" ")
	}
	for _, kind := range kinds {
		want = append(want, string(kind))
	}
	for _, kind := range []Kind{Kill, Pause, Restart} {
		for _, program := range []string{etcd, kubeAPIServer, mcsAPIServer, mcsController} {
			want = append(want, string(kind)+" "+program)
		}
	}
	for seed := range uint64(50) {
		for _, fault := range Plan(seed, clusters, 5*time.Minute) {
			seen[string(fault.Kind)] = true
			seen[string(fault.Kind)+" "+fault.Program] = true
			if fault.OneWay {
				seen[string(fault.Kind)+" one way"] = true
			}
			seen[map[bool]string{true: "long ", false: "short "}[fault.Duration > time.Minute]+string(fault.Kind)+" "+fault.Program] = true
			if fault.Kind == ClockJump {
				seen[map[bool]string{true: "clock-jump ahead", false: "clock-jump behind"}[fault.By > 0]] = true
			}
		}
	}
	for _, fault := range want {
		if !seen[fault] {
			t.Errorf("no plan has %s", fault)
		}
	}
	if n := len(Plan(1, clusters, 5*time.Minute)); n < 10 {
		t.Errorf("only %d faults in 5 minutes", n)
	}
}
