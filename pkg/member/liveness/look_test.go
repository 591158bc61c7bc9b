// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// R300, R301: a member that has been silent for its TTL is lost only if its endpoints do
// not answer either, and Unavailable if its Kubernetes API responds.
func TestShownStateDependsOnTheEndpoints(t *testing.T) {
	const connected, unavailable, stale, lost = clusterset.MemberConnected, clusterset.MemberUnavailable, clusterset.MemberStale, clusterset.MemberLost
	for _, test := range []struct {
		name        string
		state       clusterset.MemberState
		unavailable bool
		look        *Look
		want        clusterset.MemberState
	}{
		{"responds", connected, false, nil, connected},
		{"one failed probe", connected, true, nil, connected},
		{"silent", stale, false, nil, stale},
		{"API unavailable", stale, true, nil, unavailable},
		{"never looked", lost, false, nil, lost},
		{"API unavailable, never looked", lost, true, nil, lost},
		{"some answer", lost, false, &Look{Answers: 1, Silent: 2}, stale},
		{"some answer, API unavailable", lost, true, &Look{Answers: 1}, unavailable},
		{"being asked", lost, false, &Look{Pending: 1, Silent: 9}, stale},
		{"none answers", lost, false, &Look{Silent: 9}, lost},
		{"none can be asked", lost, true, &Look{Unaskable: 9, Problem: NoAllowedCIDRs}, lost},
		{"this cluster is the problem", lost, false, &Look{Silent: 9, Problem: NoVantagePoint}, stale},
		{"refused", clusterset.MemberRefused, true, &Look{Answers: 1}, clusterset.MemberRefused},
	} {
		if got := Shown(test.state, test.unavailable, test.look); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// R301: the endpoints decide service by service. What is not known counts as kept.
func TestShownStateOfAServiceDependsOnItsEndpoints(t *testing.T) {
	const stale, lost = clusterset.MemberStale, clusterset.MemberLost
	for _, test := range []struct {
		name  string
		state clusterset.MemberState
		look  *Look
		want  clusterset.MemberState
	}{
		{"not expired", stale, &Look{Answers: 1, Services: []string{"shop/other"}}, stale},
		{"never looked", lost, nil, lost},
		{"answers", lost, &Look{Answers: 2, Services: []string{"shop/api", "shop/web"}}, stale},
		{"another answers", lost, &Look{Answers: 1, Silent: 1, Services: []string{"shop/api"}}, lost},
		{"not all are asked", lost, &Look{Answers: 1, Pending: 1, Services: []string{"shop/api"}}, stale},
		{"not all are listed", lost, &Look{Answers: 2, Services: []string{"shop/api"}}, stale},
		{"this cluster is the problem", lost, &Look{Silent: 1, Problem: NoVantagePoint}, stale},
		{"none answers", lost, &Look{Silent: 2}, lost},
	} {
		if got := ShownFor("shop/web", test.state, test.look); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// R302: only a look at the present silence counts, and endpoints are kept for an hour after
// the TTL.
func TestLookCountsForOneSilence(t *testing.T) {
	for name, test := range map[string]struct {
		look *Look
		want bool
	}{
		"none":                             {nil, false},
		"in this silence":                  {&Look{}, true},
		"before the member was seen again": {&Look{Past: true}, false},
		"while the member responded":       {&Look{Sample: true}, false},
	} {
		if got := test.look.IsPresent(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	const ttl = time.Minute
	for silent, want := range map[time.Duration]bool{ttl: false, ttl + MaxStale - 1: false, ttl + MaxStale: true} {
		if got := Overdue(epoch, epoch.Add(-silent), ttl); got != want {
			t.Errorf("silent for %s: overdue %t", silent, got)
		}
	}
}

func TestLooksAreComparedWithoutTheirTime(t *testing.T) {
	look := &Look{At: epoch, Answers: 1, Services: []string{"shop/web"}}
	later := &Look{At: epoch.Add(time.Hour), Answers: 1, Services: []string{"shop/web"}}
	if !look.Same(later) || look.Same(nil) || look.Same(&Look{At: epoch, Answers: 1}) {
		t.Error("looks are not compared by what they found")
	}
	if later.Past = true; look.Same(later) {
		t.Error("a look at another silence found the same")
	}
	if none := (*Look)(nil); !none.Same(nil) {
		t.Error("no look differs from no look")
	}
}
