// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

var (
	epoch = membertest.Epoch
	// self is the cluster whose Set is tested.
	self = membertest.Self

	ownEntry      = membertest.Entry
	relayedEntry  = membertest.RelayedEntry
	withExports   = membertest.Exports
	withUID       = membertest.WithUID
	exportedSlice = membertest.ExportedSlice
	exported      = membertest.ExportedService
	secretFor     = membertest.Secret
	withData      = membertest.With
	must          = membertest.Must
	eventually    = membertest.Eventually
)

// fixture is a Set without running feeds: tests pass what its feeds would read.
type fixture struct {
	*Set
	clock *testingclock.FakeClock
	host  *host
	// changed are the Services that were reported as changed since the last call
	// of notified.
	changed []string
}

func newFixture(t testing.TB, recorded *host) *fixture {
	t.Helper()
	if recorded == nil {
		recorded = newHost()
	}
	f := &fixture{clock: testingclock.NewFakeClock(epoch.Add(24 * time.Hour)), host: recorded}
	f.Set = New(Config{
		Memory: recorded, Endpoints: recorded.endpoints, Clock: f.clock, TTL: liveness.DefaultTTL,
		ServiceChanged:    func(ref exports.Ref) { f.changed = append(f.changed, ref.Service.String()) },
		MemberChanged:     func(string) {},
		PropertiesChanged: func(string) {},
	})
	f.SetIdentity(self)
	if err := f.recorder.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// persist writes what is to be remembered.
func (f *fixture) persist(t testing.TB) {
	t.Helper()
	if !f.recorder.Flush(t.Context()) {
		t.Fatal("it could not be written")
	}
	f.host.materialize(f)
}

// fakeFeed is a feed that reads nothing.
type fakeFeed struct {
	tokens          []string
	pending, reread bool
	offset          *time.Duration
}

func (f *fakeFeed) Run(context.Context)       {}
func (f *fakeFeed) SetTokens(tokens []string) { f.tokens = tokens }
func (f *fakeFeed) ProbeNow()                 { f.pending = true }
func (f *fakeFeed) ProbePending() bool        { return f.pending }
func (f *fakeFeed) Reread()                   { f.reread = true }

func (f *fakeFeed) ClockOffset() (time.Duration, bool) {
	return ptr.Deref(f.offset, 0), f.offset != nil
}

// add makes a cluster a member of which nothing has been read yet.
func (f *fixture) add(id string, changes ...func(*secret.Spec)) *receiver {
	spec := &secret.Spec{Name: "member-" + id, UID: types.UID("secret-" + id), Created: metav1.NewTime(epoch), ClusterID: id, Limits: exports.DefaultLimits()}
	for _, change := range changes {
		change(spec)
	}
	p := f.newPeer(spec)
	var r *receiver
	f.locked(func() {
		f.addLocked(p)
		r = f.connect(p)
		f.evaluateLocked()
	})()
	return r
}

// connect gives a peer a feed, and ends the previous one.
func (f *fixture) connect(p *peer) *receiver {
	p.receiver = &receiver{set: f.Set, peer: p, feed: &fakeFeed{}}
	return p.receiver
}

// join adds a member whose claims and entry have been read.
func (f *fixture) join(id string, changes ...func(*secret.Spec)) *receiver {
	r := f.add(id, changes...)
	r.ClaimsRead(identity.Claims{ID: id, ClusterSet: "set", ClaimedAt: epoch})
	f.probe(r, ownEntry(id))
	return r
}

func identityOf(id string) identity.Claims {
	return identity.Claims{ID: id, ClusterSet: "set", ClaimedAt: epoch}
}

// probe passes the response to a probe that begins now.
func (f *fixture) probe(r *receiver, entries ...clustersetv1alpha1.Member) {
	r.feed.(*fakeFeed).pending = false
	f.probed(r, entries...)
}

// probed passes the response to a probe that began earlier.
func (f *fixture) probed(r *receiver, entries ...clustersetv1alpha1.Member) {
	r.Probed(response.Members(&clustersetv1alpha1.MemberList{Items: entries}))
}

func (f *fixture) arrival(t testing.TB, r *receiver, object any) exports.Arrival {
	t.Helper()
	decoded, err := exports.Decode(object)
	if err != nil {
		t.Fatal(err)
	}
	return r.admit(decoded)
}

// upsert, remove and replace pass objects as a feed does.
func (f *fixture) upsert(t testing.TB, r *receiver, object any) {
	t.Helper()
	r.Upsert(f.arrival(t, r, object))
}

func (f *fixture) remove(t testing.TB, r *receiver, object any) {
	t.Helper()
	decoded, err := exports.Decode(object)
	if err != nil {
		t.Fatal(err)
	}
	r.Remove(decoded)
}

func (f *fixture) replace(t testing.TB, r *receiver, kind exports.Kind, objects ...any) {
	t.Helper()
	var arrivals []exports.Arrival
	for _, object := range objects {
		arrivals = append(arrivals, f.arrival(t, r, object))
	}
	r.Replace(kind, arrivals)
}

// exporters returns the clusters that export a Service.
func (f *fixture) exporters(service string) string {
	var clusters []string
	for _, export := range f.Exports(types.NamespacedName{Namespace: "ns", Name: service}) {
		clusters = append(clusters, export.Service.Spec.Cluster)
	}
	slices.Sort(clusters)
	return strings.Join(clusters, ",")
}

// notified returns the Services that were reported as changed since the last call.
func (f *fixture) notified() string {
	slices.Sort(f.changed)
	defer func() { f.changed = nil }()
	return strings.Join(slices.Compact(f.changed), ",")
}

func hubFor(ids ...string) func(*secret.Spec) {
	return func(s *secret.Spec) {
		s.Relay = route.Scope{All: slices.Contains(ids, "*"), IDs: sets.New(ids...)}
	}
}

// expectCondition checks status, reason and a part of the message.
func expectCondition(t *testing.T, entry *clusterset.Member, conditionType string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	if entry == nil {
		t.Fatal("the entry does not exist")
	}
	condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType)
	if condition == nil || condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, message) {
		t.Errorf("%s is %+v, want %s, %s, and %q in its message", conditionType, condition, status, reason, message)
	}
}
