// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProblemsPreferFailedConditions(t *testing.T) {
	succeeded := metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "Fine"}
	failed := metav1.Condition{Type: "B", Status: metav1.ConditionFalse, Reason: "Broken", Message: "fix it"}
	unknown := metav1.Condition{Type: "C", Status: metav1.ConditionUnknown, Reason: "Waiting", Message: "not read yet"}
	for _, test := range []struct {
		name       string
		conditions []metav1.Condition
		want       []string
	}{
		{"all True", []metav1.Condition{succeeded}, nil},
		{"False hides Unknown", []metav1.Condition{unknown, failed, succeeded}, []string{"Broken: fix it"}},
		{"the same twice", []metav1.Condition{failed, {Type: "D", Status: metav1.ConditionFalse, Reason: "Broken", Message: "fix it"}}, []string{"Broken: fix it"}},
		{"the same reason twice", []metav1.Condition{failed, {Type: "D", Status: metav1.ConditionFalse, Reason: "Broken", Message: "fix that"}}, []string{"Broken: fix it", "Broken: fix that"}},
		{"only Unknown", []metav1.Condition{unknown, succeeded}, []string{"Waiting: not read yet"}},
	} {
		if diff := cmp.Diff(test.want, Problems(test.conditions)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestUnmetComparesWithTheExpectedStatus(t *testing.T) {
	conditions := []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Pending"},
		{Type: "Conflict", Status: metav1.ConditionFalse, Reason: "NoConflict"},
		{Type: "Other", Status: metav1.ConditionFalse, Reason: "Ignored"},
	}
	expected := map[string]metav1.ConditionStatus{"Ready": metav1.ConditionTrue, "Conflict": metav1.ConditionFalse}
	got := Unmet(conditions, func(conditionType string) (metav1.ConditionStatus, bool) {
		status, ok := expected[conditionType]
		return status, ok
	})
	if diff := cmp.Diff([]string{"Pending"}, got); diff != "" {
		t.Error(diff)
	}
}
