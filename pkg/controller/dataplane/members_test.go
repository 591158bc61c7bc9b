// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func (w *world) east(t *testing.T, state clustersetv1alpha1.MemberState, policy clustersetv1alpha1.LostPolicy) string {
	t.Helper()
	entry := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{
		ClusterID: "east", State: state, LostPolicy: policy, LastSeen: ptr.To(metav1.NewTime(w.clock.Now())), TTLSeconds: 60,
	}}
	w.hold(t, "member", entry)
	w.memberChanged(entry)
	return w.queued()
}

// clusters returns those whose endpoints are used.
func (w *world) clusters() string {
	var ids []string
	for _, cluster := range sets.List(w.sources(web)) {
		source := key{web, cluster}
		if w.verdict(source) != withdrawEndpoints && w.exports(source) {
			ids = append(ids, cluster)
		}
	}
	return strings.Join(ids, ",")
}

// R80: the endpoints of a lost member are withdrawn, unless its policy keeps them. An
// unknown state changes nothing, and only a change enqueues imports.
func TestEndpointsFollowTheStateOfTheirMember(t *testing.T) {
	w := newWorld(t)
	w.export(t, exportedBy("here", ready("10.0.0.1")), exportedBy("east", ready("10.1.0.1")), exportedBy("west", ready("10.2.0.1")))
	const withdraw, keep = clustersetv1alpha1.LostPolicyWithdraw, clustersetv1alpha1.LostPolicyKeep
	for i, step := range []struct {
		state         clustersetv1alpha1.MemberState
		policy        clustersetv1alpha1.LostPolicy
		queued, using string
	}{
		{clustersetv1alpha1.MemberConnecting, withdraw, "", "east,here,west"},
		{clustersetv1alpha1.MemberConnected, withdraw, "", "east,here,west"},
		{clustersetv1alpha1.MemberStale, withdraw, "", "east,here,west"},
		{clustersetv1alpha1.MemberLost, keep, "", "east,here,west"},
		{clustersetv1alpha1.MemberLost, withdraw, "shop/web@east", "here,west"},
		{clustersetv1alpha1.MemberLost, withdraw, "", "here,west"},
		{clustersetv1alpha1.MemberConnecting, withdraw, "", "here,west"}, // a server that just started
		{clustersetv1alpha1.MemberRefused, withdraw, "", "here,west"},    // its exports are deleted, and must not come back before
		{clustersetv1alpha1.MemberLost, keep, "shop/web@east", "east,here,west"},
		{clustersetv1alpha1.MemberLost, withdraw, "shop/web@east", "here,west"},
		{clustersetv1alpha1.MemberConnected, withdraw, "shop/web@east", "east,here,west"},
	} {
		if queued, using := w.east(t, step.state, step.policy), w.clusters(); queued != step.queued || using != step.using {
			t.Errorf("step %d, %s/%s: enqueued %q and uses %s, want %q and %s", i, step.state, step.policy, queued, using, step.queued, step.using)
		}
	}
	w.east(t, clustersetv1alpha1.MemberLost, withdraw)
	gone := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "east"}}
	if err := w.caches["member"].Delete(gone); err != nil {
		t.Fatal(err)
	}
	w.memberChanged(gone)
	if queued, using := w.queued(), w.clusters(); queued != "" || using != "here,west" {
		t.Errorf("without a Member: enqueued %q and uses %s, want the endpoints to stay withdrawn", queued, using)
	}
}

// A refused member is named after its Secret, and does not affect the member whose ID it
// claims.
func TestRefusedMemberDoesNotAffectOthers(t *testing.T) {
	w := newWorld(t)
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.east(t, clustersetv1alpha1.MemberConnected, "")
	impostor := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "secret.twin"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "east", State: clustersetv1alpha1.MemberLost}}
	w.hold(t, "member", impostor)
	w.memberChanged(impostor)
	if queued, using := w.queued(), w.clusters(); queued != "" || using != "east" {
		t.Errorf("enqueued %q and uses %s", queued, using)
	}
}
