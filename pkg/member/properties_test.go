// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// withProperties are given as NAME=VALUE, separated by commas.
func withProperties(properties string) func(*clustersetv1alpha1.MemberStatus) {
	return func(s *clustersetv1alpha1.MemberStatus) {
		for _, property := range strings.FieldsFunc(properties, func(r rune) bool { return r == ',' }) {
			name, value, _ := strings.Cut(property, "=")
			s.Properties = append(s.Properties, clustersetv1alpha1.ClusterProperty{Name: name, Value: value})
		}
	}
}

// properties is a Set that checks that every change of what Properties returns is notified.
type properties struct {
	*fixture
	t        *testing.T
	notified map[string]int
	known    map[string]map[string]string
}

func newProperties(t *testing.T, recorded *host) *properties {
	t.Helper()
	return propertiesOf(t, newFixture(t, recorded))
}

func propertiesOf(t *testing.T, w *fixture) *properties {
	t.Helper()
	p := &properties{fixture: w, t: t, notified: map[string]int{}, known: w.Properties()}
	w.config.PropertiesChanged = func(cluster string) { p.notified[cluster]++ }
	return p
}

// expect expects properties of a cluster after a step, and a notification if that changed them.
func (p *properties) expect(step, cluster, want string) {
	p.t.Helper()
	now := p.Properties()
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(now[cluster])) {
		shown = append(shown, name+"="+now[cluster][name])
	}
	if got := strings.Join(shown, ","); got != want {
		p.t.Errorf("%s: %s has %q, want %q", step, cluster, got, want)
	}
	changed := 0
	if !maps.Equal(p.known[cluster], now[cluster]) {
		changed = 1
	}
	if p.notified[cluster] != changed {
		p.t.Errorf("%s: %d changes of %s are notified, want %d", step, p.notified[cluster], cluster, changed)
	}
	p.notified, p.known = map[string]int{}, now
}

// R628: the properties of a cluster count as long as it is a member, and whatever changes them is
// notified.
func TestEveryChangeOfPropertiesIsNotified(t *testing.T) {
	recorded := newHost()
	w := newProperties(t, recorded)
	b := w.add("b")
	w.probe(b, ownEntry("b", withProperties("size=small,region.example.com=eu")))
	w.expect("read before the cluster ID", "b", "")
	b.ClaimsRead(identityOf("b"))
	w.expect("accepted", "b", "region.example.com=eu,size=small")
	w.probe(b, ownEntry("b", withProperties("region.example.com=eu,size=small")))
	w.expect("in another order", "b", "region.example.com=eu,size=small")
	w.replace(t, b, exports.Services)
	w.persist(t)

	after := propertiesOf(t, restart(t, recorded, time.Second))
	b = after.add("b")
	after.expect("recalled", "b", "region.example.com=eu,size=small")
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "another", ClaimedAt: epoch})
	after.expect("refused", "b", "")
	after.clock.Step(propertiesInterval)
	b.ClaimsRead(identityOf("b"))
	after.expect("accepted again", "b", "region.example.com=eu,size=small")
	after.probe(b, ownEntry("b", withProperties("size=small")))
	after.expect("read", "b", "size=small")
	after.probe(b, ownEntry("b", withUID("another"), withProperties("size=small")))
	after.expect("another cluster", "b", "")
	after.removeSecret(t.Context(), &corev1.Secret{ObjectMeta: secretFor("b", "").ObjectMeta})
	after.expect("removed", "b", "")

	c := after.join("c")
	after.probe(c, ownEntry("c", withProperties("size=large")))
	after.expect("another member", "c", "size=large")
	after.removeSecret(t.Context(), &corev1.Secret{ObjectMeta: secretFor("c", "").ObjectMeta})
	after.expect("another member removed", "c", "")
}

// R628: what a member does not claim any more is not believed at once, and what it claims in addition
// once in a while, however often it changes. What it claims last is believed in the end.
func TestPropertiesOfAMemberAreBelievedOnceInAWhile(t *testing.T) {
	w := newProperties(t, nil)
	b, c := w.join("b"), w.join("c")
	for _, step := range []struct {
		passed        time.Duration
		claimed, want string
	}{
		{0, "size=small", "size=small"},
		{time.Second, "size=large", ""},
		{time.Second, "size=small", ""}, // it may have been computed without it meanwhile
		{time.Second, "size=small,color=red", ""},
		{propertiesInterval, "size=small,color=red", "color=red,size=small"},
		{time.Second, "size=large,color=red", "color=red"},
		{propertiesInterval, "size=large,color=red", "color=red,size=large"},
		{time.Second, "", ""},
		{propertiesInterval, "", ""},
		{time.Second, "size=small", "size=small"},
		{-time.Hour, "size=large", "size=large"}, // the clock was set back
	} {
		w.clock.SetTime(w.clock.Now().Add(step.passed))
		w.probe(b, ownEntry("b", withProperties(step.claimed)))
		w.expect("claims "+step.claimed, "b", step.want)
	}
	w.probe(c, ownEntry("c", withProperties("size=small")))
	w.expect("another member", "c", "size=small")
	w.probe(b, ownEntry("b", withProperties("size=medium")))
	w.expect("claims medium", "b", "")
	w.clock.Step(propertiesInterval)
	w.tick()
	w.expect("time passed", "b", "size=medium")

	changes, seconds := 0, 600
	for i := range seconds {
		w.clock.Step(time.Second)
		before := w.notified["b"]
		w.tick()
		w.probe(b, ownEntry("b", withProperties(fmt.Sprintf("size=%d", i))))
		changes += w.notified["b"] - before
	}
	if most := 2*seconds/int(propertiesInterval.Seconds()) + 2; changes == 0 || changes > most {
		t.Errorf("%d changes in %d seconds, want at most %d", changes, seconds, most)
	}
}

// R628: of several Secrets with one cluster ID, that of the member counts.
func TestPropertiesAreThoseOfTheAcceptedCluster(t *testing.T) {
	w := newProperties(t, nil)
	older, younger := w.join("b"), w.add("b", func(s *secret.Spec) { s.Name, s.UID = "other-b", "secret-other-b" })
	younger.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.Add(time.Hour)})
	w.probe(younger, ownEntry("b", withUID("another"), withProperties("size=small")))
	w.expect("the younger claim", "b", "")
	w.probe(older, ownEntry("b", withProperties("size=large")))
	w.expect("the older claim", "b", "size=large")
	older.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "another", ClaimedAt: epoch})
	w.expect("the older one left", "b", "size=small")
	if state := w.Entry("b").Status.State; state != clusterset.MemberConnected {
		t.Errorf("b is %s", state)
	}
}
