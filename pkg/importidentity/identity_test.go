// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scope = Scope{NamespaceUID: "namespace", MembershipUID: "claim", Since: epoch}
)

// R160: the UID depends on everything that distinguishes imports, and on nothing
// else.
func TestUIDDependsOnNamespaceNameMembershipAndLife(t *testing.T) {
	first := scope.Identity("web", Life{})
	// All imports would get other UIDs if this one changed.
	if want := types.UID("6a9e7fd6-7897-5ec1-b4d2-474633f65120"); first.UID != want {
		t.Errorf("UID is %s, want %s", first.UID, want)
	}
	later := scope
	later.Since = epoch.Add(time.Hour)
	if got := later.Identity("web", Life{0, 1}).UID; got != first.UID {
		t.Errorf("UID depends on a time: %s and %s", first.UID, got)
	}
	seen := map[types.UID]string{first.UID: "first"}
	for what, other := range map[string]Identity{
		"namespace":  Scope{NamespaceUID: "other", MembershipUID: "claim"}.Identity("web", Life{}),
		"membership": Scope{NamespaceUID: "namespace", MembershipUID: "other"}.Identity("web", Life{}),
		"name":       scope.Identity("api", Life{}),
		"life":       scope.Identity("web", Life{Number: 1}),
		"exchanged":  Scope{NamespaceUID: "claim", MembershipUID: "namespace"}.Identity("web", Life{}),
	} {
		if same, found := seen[other.UID]; found {
			t.Errorf("another %s has the UID of %s", what, same)
		}
		seen[other.UID] = what
	}
}

func TestCreationTimeIsThatOfTheLatestPrerequisite(t *testing.T) {
	for _, test := range []struct {
		name string
		life Life
		want time.Time
	}{
		{"first life", Life{}, epoch},
		{"previous life ended later", Life{1, epoch.Add(time.Hour).Unix()}, epoch.Add(time.Hour)},
		{"joined later", Life{1, epoch.Add(-time.Hour).Unix()}, epoch},
	} {
		if got := scope.Identity("web", test.life).Created; !got.Time.Equal(test.want) {
			t.Errorf("%s: created at %s, want %s", test.name, got, test.want)
		}
	}
}

func TestMarkOfAnotherNamespaceDoesNotCount(t *testing.T) {
	if mark := scope.Identity("web", Life{}).Mark(); mark != "" {
		t.Errorf("the first life has mark %q", mark)
	}
	mark := scope.Identity("web", Life{Number: 3}).Mark()
	for _, test := range []struct {
		mark      string
		namespace types.UID
		want      int64
	}{
		{mark, "namespace", 3}, {mark, "other", 0}, {"", "namespace", 0}, {"", "", 0}, {"3", "namespace", 0}, {"x/namespace", "namespace", 0},
	} {
		if got := Marked(test.mark, test.namespace); got != test.want {
			t.Errorf("mark %q in namespace %q is life %d, want %d", test.mark, test.namespace, got, test.want)
		}
	}
}
