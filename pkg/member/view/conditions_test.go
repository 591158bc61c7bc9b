// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// R270: text of a member cannot control the terminal of who reads its conditions.
func TestMessagesHaveNoControlCharacters(t *testing.T) {
	var conditions []metav1.Condition
	setCondition(&conditions, time.Unix(0, 0), metav1.Condition{Type: "Synced", Status: metav1.ConditionFalse, Message: "one\ntwo \x1b[2J\x00 \u202eevil \u00e9"})
	if got, want := conditions[0].Message, "one two \ufffd[2J\ufffd \ufffdevil \u00e9"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
