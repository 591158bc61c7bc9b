// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// me is the cluster whose registry is tested.
var me = Identity{ID: "a", ClusterSet: "set", IDClaimedAt: epoch, UID: "uid-a", Since: epoch}

// world is a registry that nothing runs in: tests say what its feeds say.
type world struct {
	*Registry
	clock *testingclock.FakeClock
	// changed are the services that were passed on since they were last looked at.
	changed []string
}

func newWorld(t *testing.T, memory *Memory) *world {
	t.Helper()
	w := &world{clock: testingclock.NewFakeClock(epoch.Add(24 * time.Hour))}
	w.Registry = New(Config{
		Memory: memory, Clock: w.clock, TTL: DefaultTTL,
		ServiceChanged: func(service types.NamespacedName) { w.changed = append(w.changed, service.String()) },
		MemberChanged:  func(string) {},
	})
	w.SetIdentity(me)
	return w
}

// add makes a cluster a member that has said nothing yet.
func (w *world) add(id string, changes ...func(*spec)) *feed {
	said := &spec{secret: "member-" + id, uid: types.UID("secret-" + id), created: metav1.NewTime(epoch), id: id}
	for _, change := range changes {
		change(said)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	held := &peer{spec: said, holdings: holdings{}}
	w.recall(held)
	w.peers[said.secret] = held
	defer w.evaluate()
	return w.connect(held)
}

// connect gives a peer a feed, in place of the one it had.
func (w *world) connect(peer *peer) *feed {
	peer.feed = &feed{registry: w.Registry, peer: peer, spec: peer.spec, stop: func() {}, hurry: make(chan struct{}, 1)}
	return peer.feed
}

// join adds a member that has said who it is.
func (w *world) join(id string, changes ...func(*spec)) *feed {
	f := w.add(id, changes...)
	w.claimed(f, &claims{id: id, clusterSet: "set", idClaimedAt: epoch})
	w.answers(f, own(id))
	return f
}

// answers is the answer to a probe that begins now.
func (w *world) answers(f *feed, entries ...clustersetv1alpha1.Member) {
	select {
	case <-f.hurry:
	default:
	}
	w.probed(f, &clustersetv1alpha1.MemberList{Items: entries}, nil)
}

// exports are the clusters from which a service is known.
func (w *world) exports(service string) string {
	var clusters []string
	for _, export := range w.Exports(types.NamespacedName{Namespace: "ns", Name: service}) {
		clusters = append(clusters, export.Service.Spec.Cluster)
	}
	slices.Sort(clusters)
	return strings.Join(clusters, ",")
}

// news are the services that were passed on since the last call.
func (w *world) news() string {
	slices.Sort(w.changed)
	defer func() { w.changed = nil }()
	return strings.Join(slices.Compact(w.changed), ",")
}

func hubFor(ids ...string) func(*spec) {
	return func(s *spec) {
		s.relay = relayScope{all: slices.Contains(ids, "*"), ids: sets.New(ids...)}
	}
}

// own is a cluster's own entry: synced, with nothing exported.
func own(id string, changes ...func(*clustersetv1alpha1.MemberStatus)) clustersetv1alpha1.Member {
	entry := clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: id, ClusterUID: types.UID("uid-" + id), ClusterSet: "set", Peers: []string{"a"}, Synced: true,
			State: clustersetv1alpha1.MemberState(clusterset.MemberLocal),
		},
	}
	for _, change := range changes {
		change(&entry.Status)
	}
	return entry
}

// relayedEntry is what a hub says of a cluster that it is in touch with.
func relayedEntry(id string, changes ...func(*clustersetv1alpha1.MemberStatus)) clustersetv1alpha1.Member {
	entry := own(id, changes...)
	entry.Status.State = clustersetv1alpha1.MemberState(connected)
	entry.Status.Peers = nil
	return entry
}

func exports(n int32) func(*clustersetv1alpha1.MemberStatus) {
	return func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = n, n }
}

func exportedService(cluster, service string, path ...string) *clustersetv1alpha1.ExportedService {
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: clusterset.ObjectName(service, cluster), UID: "uid", ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(epoch), Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: service, ExportedAt: metav1.NewTime(epoch), Type: "ClusterSetIP",
			Ports:      []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Path: path,
		},
	}
}

func exportedSlice(cluster, service, name string, path ...string) *clustersetv1alpha1.ExportedEndpointSlice {
	return &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: clusterset.ObjectName(name, cluster), UID: "uid", Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: service, AddressType: discoveryv1.AddressTypeIPv4, Path: path,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expectCondition looks for status, reason and a part of the message.
func expectCondition(t *testing.T, entry *clusterset.Member, conditionType string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	if entry == nil {
		t.Fatal("there is no such entry")
	}
	condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType)
	if condition == nil || condition.Status != status || condition.Reason != reason || !strings.Contains(condition.Message, message) {
		t.Errorf("%s is %+v, want %s, %s, and %q in its message", conditionType, condition, status, reason, message)
	}
}
