// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions holds the rules that all status conditions follow,
// whichever resource they belong to.
package conditions

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Problems returns reason and message of every condition that is False, for
// resources whose conditions are True when all is well. Unknown conditions are
// returned only if none is False: they usually are the consequence of one that is.
func Problems(conditions []metav1.Condition) []string {
	var failed, unknown []string
	for _, condition := range conditions {
		text := fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		if slices.Contains(failed, text) || slices.Contains(unknown, text) {
			continue
		}
		switch condition.Status {
		case metav1.ConditionFalse:
			failed = append(failed, text)
		case metav1.ConditionUnknown:
			unknown = append(unknown, text)
		}
	}
	if len(failed) == 0 {
		return unknown
	}
	return failed
}

// Unmet returns the reasons of all conditions whose status differs from the
// expected one. Conditions without an expectation are ignored.
func Unmet(conditions []metav1.Condition, expected func(conditionType string) (metav1.ConditionStatus, bool)) []string {
	var reasons []string
	for _, condition := range conditions {
		if status, ok := expected(condition.Type); ok && condition.Status != status {
			reasons = append(reasons, condition.Reason)
		}
	}
	return reasons
}
