// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// describe returns a decision as text.
func describe(decision Decision) string {
	var parts []string
	if decision.Show != nil {
		parts = append(parts, fmt.Sprintf("show %d of %s", decision.Show.Life, decision.Show.Scope.MembershipUID))
	}
	if decision.Delete {
		parts = append(parts, "delete")
	}
	if decision.End != nil {
		parts = append(parts, fmt.Sprintf("end %d", *decision.End))
	}
	if decision.Again > 0 {
		parts = append(parts, fmt.Sprintf("again in %s", decision.Again))
	}
	return strings.Join(parts, ", ")
}

// R160, R161, R162, R163: what one replica does about what it hears.
func TestLifecycle(t *testing.T) {
	const exported, withdrawn = true, false
	life := func(number int64) *Identity {
		identity := scope.Identity("web", Life{Number: number})
		return &identity
	}
	rejoined := Scope{NamespaceUID: "namespace", MembershipUID: "next claim", Since: epoch}.Identity("web", Life{})
	type step struct {
		at       time.Duration
		next     *Identity
		exported bool
		want     string
	}
	const first = "show 0 of claim"
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"nothing is exported", []step{{0, life(0), withdrawn, ""}, {0, nil, exported, ""}}},
		{"an end is recorded before the deletion", []step{
			{0, life(0), exported, first}, {0, life(0), withdrawn, "end 0"}, {0, life(0), withdrawn, "end 0"}, {0, life(1), withdrawn, "delete"},
			{0, life(1), withdrawn, ""}, {0, life(1), exported, "show 1 of claim"},
		}},
		{"another replica recorded the end first", []step{
			{0, life(0), exported, first}, {0, life(1), withdrawn, "delete"}, {0, life(1), exported, "show 1 of claim"},
		}},
		{"the record arrives before the withdrawal", []step{
			{0, life(0), exported, first}, {0, life(1), exported, first + ", again in 2s"}, {Grace / 2, life(1), exported, first + ", again in 1s"},
			{Grace / 2, life(1), withdrawn, "delete"},
		}},
		{"the withdrawal is not noticed", []step{
			{0, life(0), exported, first}, {0, life(1), exported, first + ", again in 2s"}, {Grace, life(1), exported, "show 1 of claim"},
			{Grace, life(1), exported, "show 1 of claim"}, {Grace, life(1), withdrawn, "end 1"},
		}},
		{"further records do not extend the grace period", []step{
			{0, life(0), exported, first}, {0, life(1), exported, first + ", again in 2s"}, {Grace / 2, life(2), exported, first + ", again in 1s"},
			{Grace, life(2), exported, "show 2 of claim"},
		}},
		{"exported again before the end is recorded", []step{
			{0, life(0), exported, first}, {0, life(0), withdrawn, "end 0"}, {0, life(0), exported, first}, {0, life(1), exported, "show 1 of claim"},
		}},
		{"the namespace is deleted, or the cluster leaves the ClusterSet", []step{
			{0, life(0), exported, first}, {0, nil, exported, "delete"}, {0, &rejoined, exported, "show 0 of next claim"},
		}},
		{"the cluster leaves and joins at once", []step{
			{0, life(0), exported, first}, {0, &rejoined, exported, "show 0 of next claim"}, {0, nil, withdrawn, "delete"},
		}},
		{"withdrawn while the cluster leaves and joins", []step{
			{0, life(0), exported, first}, {0, &rejoined, withdrawn, "delete"},
		}},
		{"a life is unknown again", []step{
			{0, life(3), exported, "show 3 of claim"}, {0, life(0), exported, "show 3 of claim"}, {0, life(0), withdrawn, "end 3"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lifecycle Lifecycle
			for i, step := range test.steps {
				if got := describe(lifecycle.Decide(step.next, false, step.exported, epoch.Add(step.at))); got != step.want {
					t.Fatalf("step %d: got %q, want %q", i, got, step.want)
				}
			}
		})
	}
}

// R163: an import whose end is being recorded since the start of the server is not
// shown before that.
func TestImportIsNotShownWhileItsEndIsBeingRecorded(t *testing.T) {
	var lifecycle Lifecycle
	first, second := scope.Identity("web", Life{}), scope.Identity("web", Life{Number: 1})
	if got := describe(lifecycle.Decide(&first, true, true, epoch)); got != "" {
		t.Errorf("got %q", got)
	}
	if got := describe(lifecycle.Decide(&second, false, true, epoch)); got != "show 1 of claim" {
		t.Errorf("got %q", got)
	}
}
