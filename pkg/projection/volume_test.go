// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

// published are publications whose exports take turns.
type published struct {
	publications
	t *testing.T
	c *cluster
	// waiting are the exports that are computed again, and from when on.
	waiting map[exports.Ref]time.Time
	// exported is what clusters export now.
	exported map[types.NamespacedName]map[string]member.Export
	bytes    map[string]int
}

// newPublished returns publications with limits, zero for the usual ones.
func newPublished(t *testing.T, perSecond, burst int) *published {
	t.Helper()
	c := newCluster(t)
	p := &published{
		publications: newPublications(c.stores, func(_, _ exports.Share) {}, func(string, time.Time) {}), t: t, c: c,
		waiting: map[exports.Ref]time.Time{}, exported: map[types.NamespacedName]map[string]member.Export{}, bytes: map[string]int{},
	}
	p.volume = newVolume(c.clock, c.stores, func(ref exports.Ref, wait time.Duration) { p.waiting[ref] = c.clock.Now().Add(wait) })
	if burst > 0 {
		p.volume.turns = pace.NewTurns[exports.Ref](c.clock, perSecond, burst)
	}
	return p
}

// export lets a cluster export a service with many endpoints, which begin with a prefix.
func (p *published) export(service, cluster, prefix string, endpoints int, path ...string) {
	p.t.Helper()
	p.compute(p.change(service, cluster, prefix, endpoints, path))
}

// exportFor lets cluster east export service-0 with many endpoints for an audience.
func (p *published) exportFor(prefix string, audience *clusterset.Audience) {
	p.t.Helper()
	name := p.change("service-0", "east", prefix, 20, nil)
	p.exported[name]["east"].Service.Spec.Audience = audience
	p.compute(name)
}

// change changes what a cluster exports, and returns the name of the service.
func (p *published) change(service, cluster, prefix string, endpoints int, path []string) types.NamespacedName {
	p.t.Helper()
	name := types.NamespacedName{Namespace: "ns", Name: service}
	if p.exported[name] == nil {
		p.exported[name] = map[string]member.Export{}
	}
	object := metav1.ObjectMeta{Namespace: name.Namespace, Name: service + "-" + cluster, UID: types.UID(service + cluster)}
	slice := &clusterset.ExportedEndpointSlice{ObjectMeta: object, Spec: clusterset.ExportedEndpointSliceSpec{Cluster: cluster, Service: service, Path: path}}
	for number := range endpoints {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("%s.%d.%d", prefix, number>>8, number&0xff)}})
	}
	p.exported[name][cluster] = member.Export{State: clusterset.MemberConnected, Export: clusterset.Export{
		Service: &clusterset.ExportedService{ObjectMeta: object, Spec: clusterset.ExportedServiceSpec{Cluster: cluster, Path: path}}, Slices: []*clusterset.ExportedEndpointSlice{slice},
	}}
	return name
}

func (p *published) compute(name types.NamespacedName) {
	var exports []member.Export
	for cluster, export := range p.exported[name] {
		exports = append(exports, export)
		before := p.shown(name.Name, cluster)
		defer func() {
			if p.shown(name.Name, cluster) != before {
				p.bytes[cluster] += metadata + len(export.Slices[0].Spec.Endpoints)*export.Slices[0].Spec.Endpoints[0].Size()
			}
		}()
	}
	p.publish(name, exports)
}

// pass lets time pass, in which exports are computed whose turn comes.
func (p *published) pass(duration time.Duration) {
	for end := p.c.clock.Now().Add(duration); p.c.clock.Now().Before(end); {
		p.c.clock.SetTime(p.c.clock.Now().Add(10 * time.Millisecond))
		for ref, from := range p.waiting {
			if !from.After(p.c.clock.Now()) {
				delete(p.waiting, ref)
				p.compute(ref.Service)
			}
		}
	}
}

// shown returns the first address that is published of a service of a cluster.
func (p *published) shown(service, cluster string) string {
	slice, ok := p.c.stores.exportedEndpointSlices.Get("ns", service+"-"+cluster)
	if !ok {
		return ""
	}
	return slice.(*clusterset.ExportedEndpointSlice).Spec.Endpoints[0].Addresses[0]
}

// R507: what members publish is limited, for a hub together with the clusters behind it. What
// others export, also of the same service, is not delayed, and the last state is published.
func TestBytesPublishedBecauseOfAMemberAreLimited(t *testing.T) {
	const services, endpoints, rounds, perSecond, burst = 10, 50, 30, 4 << 10, 32 << 10
	p := newPublished(t, perSecond, burst)
	for round := range rounds {
		for service := range services {
			cluster, path := "hostile", []string(nil)
			if service%2 == 0 {
				cluster, path = "behind", []string{"behind", "hostile"}
			}
			p.export(fmt.Sprintf("service-%d", service), cluster, fmt.Sprintf("10.%d", round), endpoints, path...)
		}
		p.export("service-0", "honest", fmt.Sprintf("11.%d", round), 1)
		if got, want := p.shown("service-0", "honest"), fmt.Sprintf("11.%d.0.0", round); got != want {
			t.Fatalf("the honest member exports %s, but %q is published", want, got)
		}
		p.pass(time.Second)
	}
	if got, most := p.bytes["hostile"]+p.bytes["behind"], burst+rounds*perSecond; got > most || got < most/2 {
		t.Errorf("%d bytes were published, want about %d", got, most)
	}
	p.pass(time.Minute)
	for service := range services {
		cluster := map[bool]string{true: "behind", false: "hostile"}[service%2 == 0]
		if got, want := p.shown(fmt.Sprintf("service-%d", service), cluster), fmt.Sprintf("10.%d.0.0", rounds-1); got != want {
			t.Errorf("service-%d has %q in the end, want %s", service, got, want)
		}
	}
}

// R507: what a member does not export any more is withdrawn at once, also if a change of it
// waits, and what waits stays as it was before.
func TestWithdrawalsAreNotLimited(t *testing.T) {
	p := newPublished(t, 1, 2500)
	p.export("service-0", "hostile", "10.1", 20)
	p.export("service-0", "hostile", "10.2", 20)
	p.export("service-0", "hostile", "10.3", 20)
	if got := p.shown("service-0", "hostile"); got != "10.2.0.0" || len(p.waiting) != 1 {
		t.Fatalf("%q is published, and %d exports wait", got, len(p.waiting))
	}
	p.publish(types.NamespacedName{Namespace: "ns", Name: "service-0"}, nil)
	if got := p.shown("service-0", "hostile"); got != "" {
		t.Errorf("%s is published", got)
	}
}

// readers returns who may read what is published of service-0 of cluster east.
func (p *published) readers() string {
	p.t.Helper()
	held, _ := p.c.stores.exportedServices.Get("ns", "service-0-east")
	slice, _ := p.c.stores.exportedEndpointSlices.Get("ns", "service-0-east")
	audience := clusterset.AudienceOf(held)
	switch {
	case !audience.Same(clusterset.AudienceOf(slice)):
		p.t.Fatalf("the Service is for %v, and the endpoints for %v", audience, clusterset.AudienceOf(slice))
	case audience == nil:
		return "all"
	}
	return strings.Join(audience.Clusters(), ",")
}

// R507: what is not for some cluster any more is not shown to it any longer, also if a change of it
// waits. All else waits, also what it is for in addition.
func TestNarrowingIsNotLimited(t *testing.T) {
	for _, test := range []struct {
		name        string
		before, now *clusterset.Audience
		want        string
	}{
		{"for all as before", nil, nil, "all"},
		{"for some", nil, clusterset.NewAudience("hub"), "hub"},
		{"for none", clusterset.NewAudience("hub"), clusterset.NewAudience(), ""},
		{"for fewer", clusterset.NewAudience("hub", "north"), clusterset.NewAudience("hub"), "hub"},
		{"for another", clusterset.NewAudience("north"), clusterset.NewAudience("south"), ""},
		{"for one and another", clusterset.NewAudience("hub", "north"), clusterset.NewAudience("hub", "south"), "hub"},
		{"for the same", clusterset.NewAudience("north"), clusterset.NewAudience("north"), "north"},
		{"for more", clusterset.NewAudience("north"), clusterset.NewAudience("hub", "north"), "north"},
		{"for all now", clusterset.NewAudience("north"), nil, "north"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPublished(t, 1000, 2500)
			p.exportFor("10.1", test.before)
			p.exportFor("10.2", test.before)
			p.exportFor("10.3", test.now)
			if got := p.readers(); got != test.want || p.shown("service-0", "east") != "10.2.0.0" || len(p.waiting) != 1 {
				t.Errorf("%s is published for %q, want 10.2.0.0 for %q", p.shown("service-0", "east"), got, test.want)
			}
			p.pass(time.Minute)
			want := "all"
			if test.now != nil {
				want = strings.Join(test.now.Clusters(), ",")
			}
			if got := p.readers(); got != want || p.shown("service-0", "east") != "10.3.0.0" {
				t.Errorf("%s is published for %q in the end, want 10.3.0.0 for %q", p.shown("service-0", "east"), got, want)
			}
		})
	}
}

// R507: what is hidden at once counts.
func TestNarrowingCounts(t *testing.T) {
	wait := func(audience *clusterset.Audience) time.Duration {
		p := newPublished(t, 1000, 2500)
		for _, prefix := range []string{"10.1", "10.2"} {
			p.exportFor(prefix, nil)
		}
		p.exportFor("10.3", audience)
		p.export("service-1", "east", "10.1", 20)
		ref := exports.Ref{Cluster: "east", Service: types.NamespacedName{Namespace: "ns", Name: "service-1"}}
		return p.waiting[ref].Sub(p.c.clock.Now())
	}
	if all, none := wait(nil), wait(clusterset.NewAudience()); none < all+time.Second {
		t.Errorf("the next change waits for %s after a change that is for all, and for %s after one that is for none", all, none)
	}
}

// R622, R507: endpoints that moved to another Service are for its audience, whatever happens to the
// Service that they were of while that waits.
func TestMovedEndpointsKeepTheAudienceOfTheirService(t *testing.T) {
	p := newPublished(t, 1000, 2500)
	p.exportFor("10.1", nil)
	p.exportFor("10.2", nil)
	from, to := types.NamespacedName{Namespace: "ns", Name: "service-0"}, types.NamespacedName{Namespace: "ns", Name: "service-1"}
	p.change("service-1", "east", "10.2", 20, nil)
	moved, other := p.exported[from]["east"].Slices[0], p.exported[to]["east"]
	slice := *moved
	slice.Spec.Service = "service-1"
	other.Service.Spec.Audience, other.Slices = clusterset.NewAudience("north"), []*clusterset.ExportedEndpointSlice{&slice}
	p.volume = nil // it is its turn
	p.publish(to, []member.Export{other})
	p.volume = newVolume(p.c.clock, p.c.stores, func(exports.Ref, time.Duration) {})
	p.volume.turns = pace.NewTurns[exports.Ref](p.c.clock, 1, 1)
	p.volume.turns.Charge([]string{"east"}, 1000)
	without := p.exported[from]["east"]
	without.Service.Spec.Audience, without.Slices = clusterset.NewAudience("west"), nil
	p.publish(from, []member.Export{without})
	held, ok := p.c.stores.exportedEndpointSlices.Get("ns", moved.Name)
	service, _ := p.c.stores.exportedServices.Get("ns", "service-0-east")
	if !ok || !clusterset.AudienceOf(held).Same(clusterset.NewAudience("north")) || held.(*clusterset.ExportedEndpointSlice).Spec.Service != "service-1" {
		t.Errorf("the endpoints of service-1 are %+v", held)
	}
	if !clusterset.AudienceOf(service).Same(clusterset.NewAudience("west")) {
		t.Errorf("service-0 is for %+v, want west", clusterset.AudienceOf(service))
	}
}

// R507: a member cannot have more published by changing over and over which clusters an export is
// for, be it between two lists or from a list that becomes shorter and shorter.
func TestChangingAudiencesAreLimited(t *testing.T) {
	shrinking := func(round int) *clusterset.Audience {
		var clusters []string
		for i := range 100 - round {
			clusters = append(clusters, fmt.Sprintf("c-%03d", i))
		}
		return clusterset.NewAudience(clusters...)
	}
	alternating := func(round int) *clusterset.Audience {
		return clusterset.NewAudience([]string{"a", "b"}[round%2], "c")
	}
	for name, audience := range map[string]func(int) *clusterset.Audience{"shrinking": shrinking, "alternating": alternating} {
		t.Run(name, func(t *testing.T) {
			p := newPublished(t, 10, 4000)
			p.exportFor("10.1", audience(0))
			before, writes := p.readers(), 0
			for round := range 90 {
				now := audience(round)
				p.exportFor("10.1", now)
				readers := p.readers()
				for reader := range strings.SplitSeq(readers, ",") {
					if readers != "" && !now.Includes(reader) {
						t.Fatalf("round %d: %s may still read it, and the export is for %v", round, reader, now)
					}
				}
				if readers != before {
					before, writes = readers, writes+1
				}
			}
			if writes > 5 {
				t.Errorf("%d of 90 changes were published at once", writes)
			}
			p.pass(10 * time.Minute)
			if got, want := p.readers(), strings.Join(audience(89).Clusters(), ","); got != want {
				t.Errorf("it is published for %q in the end, want %q", got, want)
			}
		})
	}
}

// R507: an audience counts as much as it is long, and slices are for the clusters that their
// Service is for.
func TestAudiencesCountAsVolume(t *testing.T) {
	p := newPublished(t, 0, 0)
	name := types.NamespacedName{Namespace: "ns", Name: "web"}
	p.export("web", "east", "10.0", 1)
	export := p.exported[name]["east"]
	var clusters []string
	length := 0
	for i := range clusterset.MaxAudience {
		clusters = append(clusters, fmt.Sprintf("%s%03d", strings.Repeat("c", 60), i))
		length += len(clusters[i])
	}
	service, slice := *export.Service, *export.Slices[0]
	export.Service, export.Slices = &service, []*clusterset.ExportedEndpointSlice{&slice}
	service.Spec.Audience = clusterset.NewAudience(clusters...)
	if got := p.volume.changed(export); got < length+2*metadata {
		t.Errorf("a Service with an audience of %d bytes and its slice count as %d bytes", length, got)
	}
	p.publish(name, []member.Export{export})
	if got := p.volume.changed(export); got != 0 {
		t.Errorf("%d bytes count as changed after they were published", got)
	}
}

// R507: all that a member may export by default is published at once.
func TestAllThatMembersExportIsPublishedAtOnce(t *testing.T) {
	p := newPublished(t, 0, 0)
	for service := range 10_000 {
		p.export(fmt.Sprintf("service-%d", service), "west", "10.1", 5)
	}
	if len(p.waiting) > 0 {
		t.Errorf("%d of 10,000 services wait", len(p.waiting))
	}
}
