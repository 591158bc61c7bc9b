// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

const (
	idClaim  = multicluster.ClusterIDClaim
	setClaim = multicluster.ClusterSetClaim
	ignore   = multicluster.IgnoreUnreachableMembersAnnotation
)

func claimOf(name, value string) *multicluster.ClusterClaim {
	return &multicluster.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multicluster.ClusterClaimSpec{Value: value}}
}

// forced is the claim with the annotation that lets unreachable members be.
func forced(claim *multicluster.ClusterClaim, value string) *multicluster.ClusterClaim {
	claim.Annotations = map[string]string{ignore: value}
	return claim
}

// created, changed and removed are what becomes of a claim.
func created(name, value string) change { return change{name: name, after: &value} }
func removed(name, value string) change { return change{name: name, before: &value} }
func changed(name, before, after string) change {
	return change{name: name, before: &before, after: &after}
}

func expectError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
}

func TestChangeIsReadOffTheObjects(t *testing.T) {
	for _, test := range []struct {
		name        string
		object, old runtime.Object
		want        change
		err         string
	}{
		{name: "created", object: claimOf(idClaim, "a"), want: created(idClaim, "a")},
		{name: "changed", object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a"), want: changed(idClaim, "a", "b")},
		{name: "removed", old: claimOf(setClaim, "s"), want: removed(setClaim, "s")},
		{name: "forced", object: forced(claimOf(setClaim, "s"), "true"), want: change{name: setClaim, after: ptr.To("s"), force: true}},
		{name: "forced from now on", object: forced(claimOf(setClaim, "s"), "true"), old: claimOf(setClaim, "s"),
			want: change{name: setClaim, before: ptr.To("s"), after: ptr.To("s"), force: true}},
		{name: "forced until now", object: claimOf(setClaim, "s"), old: forced(claimOf(setClaim, "s"), "true"), want: changed(setClaim, "s", "s")},
		{name: "not quite forced", object: forced(claimOf(setClaim, "s"), "yes"), want: created(setClaim, "s")},
		{name: "nothing", err: "without the claim"},
		{name: "something else", object: &clusterset.Member{}, err: "*clusterset.Member is no ClusterClaim"},
		{name: "something else before", object: claimOf(idClaim, "a"), old: &clusterset.Member{}, err: "*clusterset.Member is no ClusterClaim"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := changeOf(test.object, test.old)
			if test.err != "" {
				expectError(t, err, test.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}

func TestOnlyChangesOfWellKnownClaimsMatter(t *testing.T) {
	for _, test := range []struct {
		name   string
		change change
		want   bool
	}{
		{"an id is created", created(idClaim, "a"), true},
		{"an id changes", changed(idClaim, "a", "b"), true},
		{"an id is removed", removed(idClaim, "a"), true},
		{"an id stays", changed(idClaim, "a", "a"), false},
		{"a ClusterSet is joined", created(setClaim, "s"), true},
		{"a ClusterSet changes", changed(setClaim, "s", "t"), true},
		{"a ClusterSet is left", removed(setClaim, "s"), true},
		{"a ClusterSet stays", changed(setClaim, "s", "s"), false},
		{"another claim is created", created("region.example.com", "x"), false},
		{"another claim changes", changed("region.example.com", "x", "y"), false},
		{"another claim is removed", removed("region.example.com", "x"), false},
		{"upstream's name for the id", created("cluster.clusterset.k8s.io", "x"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.change.matters(); got != test.want {
				t.Errorf("matters: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSomeChangesNobodyMayMake(t *testing.T) {
	for _, test := range []struct {
		name   string
		change change
		// want is what the refusal says; nothing if it is allowed so far.
		want []string
	}{
		// R105: an id lives as long as its cluster. R115: the refusal says what else to do.
		{"an id is removed", removed(idClaim, "a"), []string{"cannot be removed", "change the claim's value while it is in no ClusterSet"}},
		{"an id changes", changed(idClaim, "a", "b"), nil},
		{"an id is created", created(idClaim, "a"), nil},
		// R108: a ClusterSet is immutable. R115: the refusal says what else to do.
		{"a ClusterSet changes", changed(setClaim, "s", "t"), []string{`from ClusterSet "s" to "t"`, "leave first, by deleting this claim", "create it anew"}},
		{"a ClusterSet is joined", created(setClaim, "s"), nil},
		// R109: removing it is leaving.
		{"a ClusterSet is left", removed(setClaim, "s"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.change.never()
			if test.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expectError(t, err, test.want...)
		})
	}
}

// R109: removing the ClusterSet, and nothing else, is leaving.
func TestLeavingIsRemovingTheClusterSet(t *testing.T) {
	for _, test := range []struct {
		change change
		want   bool
	}{
		{removed(setClaim, "s"), true},
		{created(setClaim, "s"), false},
		{changed(setClaim, "s", "t"), false},
		{removed(idClaim, "a"), false},
	} {
		if got := test.change.leaves(); got != test.want {
			t.Errorf("%s: leaves is %t, want %t", test.change.name, got, test.want)
		}
	}
}

func TestClaimsAreJudgedByEachOther(t *testing.T) {
	none, named := claims{}, claims{id: ptr.To("a")}
	inSet, unnamed := claims{id: ptr.To("a"), clusterSet: ptr.To("s")}, claims{clusterSet: ptr.To("s")}
	force := created(setClaim, "s")
	force.force = true
	for _, test := range []struct {
		name    string
		change  change
		current claims
		// joins is what has to be unique.
		joins *joining
		err   []string
	}{
		{name: "the first id", change: created(idClaim, "a"), current: none},
		// R106: outside membership an id may change.
		{name: "another id outside a ClusterSet", change: changed(idClaim, "a", "b"), current: named},
		// R104, R115: in a ClusterSet it may not, and the refusal says how it can.
		{name: "another id in a ClusterSet", change: changed(idClaim, "a", "b"), current: inSet,
			err: []string{`from "a" to "b"`, `in the ClusterSet "s"`, "deleting the claim clusterset.k8s.io", "then change the id, then join again"}},
		{name: "an id in a ClusterSet without one", change: created(idClaim, "b"), current: unnamed, joins: &joining{id: "b", clusterSet: "s", claim: idClaim}},
		{name: "a ClusterSet", change: created(setClaim, "s"), current: named, joins: &joining{id: "a", clusterSet: "s", claim: setClaim}},
		{name: "a ClusterSet by force", change: force, current: named, joins: &joining{id: "a", clusterSet: "s", claim: setClaim, force: true}},
		// R100, R115: without an id there is nothing to be known by.
		{name: "a ClusterSet without an id", change: created(setClaim, "s"), current: none,
			err: []string{"this cluster has no id", "create the ClusterClaim id.k8s.io first", `no other cluster of "s" has`}},
		{name: "something else", change: created("region.example.com", "x"), current: inSet},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.change.judge(test.current)
			if test.err != nil {
				expectError(t, err, test.err...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.joins, got, cmp.AllowUnexported(joining{})); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}

// entryOf is what a cluster knows of another, or of itself.
func entryOf(id, set string, uid types.UID, state clusterset.MemberState) *clusterset.Member {
	return &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id + "-" + string(uid)},
		Status:     clusterset.MemberStatus{ClusterID: id, ClusterSet: set, ClusterUID: uid, State: state},
	}
}

// answerOf is what the cluster of a Secret knows.
func answerOf(secret string, entries ...*clusterset.Member) member.Answer {
	answer := member.Answer{Name: strings.TrimPrefix(secret, "member-"), Secret: secret, Members: map[string]*clusterset.Member{}}
	for _, entry := range entries {
		answer.Members[entry.Name] = entry
	}
	return answer
}

func TestIDIsUniqueInItsClusterSet(t *testing.T) {
	const local, connected, stale, lost = clusterset.MemberLocal, clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost
	west := entryOf("west", "s", "uid-west", local)
	remedy := []string{`the id "a" is taken in the ClusterSet "s"`, "changing the claim id.k8s.io", `kubectl patch clusterclaim id.k8s.io --type=merge -p '{"spec":{"value":"a-2"}}'`}
	for _, test := range []struct {
		name    string
		answers []member.Answer
		// holder is how the one is called that has the id; empty if it is free.
		holder string
	}{
		{name: "alone"},
		{name: "others have other ids", answers: []member.Answer{answerOf("member-west", west, entryOf("b", "s", "uid-b", connected))}},

		// R99: it is refused, and the holder is named.
		{name: "a member has it", answers: []member.Answer{answerOf("member-west", entryOf("a", "s", "uid-x", local))}, holder: "the cluster of Secret member-west (UID uid-x)"},
		{name: "a member of a member has it", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", connected))}, holder: `a member of "west" (UID uid-x, Connected)`},
		{name: "it has not been seen for a while", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", stale))}, holder: `a member of "west" (UID uid-x, Stale)`},
		{name: "it has not been seen for long", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", lost))}, holder: `a member of "west" (UID uid-x, Lost)`},
		{name: "the second knows it", answers: []member.Answer{answerOf("member-west", west), answerOf("member-east", entryOf("east", "s", "uid-east", local), entryOf("a", "s", "uid-x", connected))},
			holder: `a member of "east" (UID uid-x, Connected)`},
		{name: "one is kept out and another is not", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-y", clusterset.MemberRefused), entryOf("a", "s", "uid-x", connected))},
			holder: `a member of "west" (UID uid-x, Connected)`},

		// R102: ids are unique in a ClusterSet, not everywhere, and while they are held.
		{name: "a member of another ClusterSet has it", answers: []member.Answer{answerOf("member-west", entryOf("a", "t", "uid-x", local))}},
		{name: "a member of a member in another ClusterSet has it", answers: []member.Answer{answerOf("member-west", entryOf("west", "t", "uid-west", local), entryOf("a", "t", "uid-x", connected))}},
		{name: "one that has changed its ClusterSet is still known", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "t", "uid-x", connected))}},
		{name: "a cluster in no ClusterSet remembers one", answers: []member.Answer{answerOf("member-west", entryOf("west", "", "uid-west", local), entryOf("a", "s", "uid-x", lost))}},
		{name: "it was kept out", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", clusterset.MemberRefused))}},
		{name: "it has yet to answer", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", clusterset.MemberConnecting))}},
		{name: "it has yet to say who it is", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "", connected))}},
		{name: "it is this cluster as others remember it", answers: []member.Answer{answerOf("member-west", west, entryOf("a", "s", "self", lost))}},
		{name: "a Secret leads to this cluster", answers: []member.Answer{answerOf("member-a", entryOf("a", "s", "self", local))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, force := range []bool{false, true} { // force is no help against what is known
				err := joining{id: "a", clusterSet: "s", force: force}.unique("self", test.answers)
				if test.holder == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				expectError(t, err, append(remedy, "by "+test.holder)...)
			}
		})
	}
}

// R115: what is proposed can be done.
func TestAnotherIDThatIsProposedIsOne(t *testing.T) {
	long := strings.Repeat("x", 63)
	answers := func(id string) []member.Answer {
		return []member.Answer{answerOf("member-west", entryOf(id, "s", "uid-x", clusterset.MemberLocal))}
	}
	for _, test := range []struct {
		joining joining
		want    string
	}{
		{joining{id: "a", clusterSet: "s", claim: setClaim}, `kubectl patch clusterclaim id.k8s.io --type=merge -p '{"spec":{"value":"a-2"}}'`},
		{joining{id: long, clusterSet: "s", claim: setClaim}, `{"spec":{"value":"` + long[:61] + `-2"}}'`},
		{joining{id: "a", clusterSet: "s", claim: idClaim}, "Create the claim id.k8s.io with another value"}, // there is none yet that could be changed
	} {
		expectError(t, test.joining.unique("self", answers(test.joining.id)), test.want)
	}
}

func TestIDIsNotTakenForUniqueUnlessAllMembersSaySo(t *testing.T) {
	silent := func(name string) member.Answer {
		return member.Answer{Name: name, Secret: "member-" + name, Problem: "no answer: timed out"}
	}
	free := answerOf("member-west", entryOf("west", "s", "uid-west", clusterset.MemberLocal))
	taken := answerOf("member-north", entryOf("a", "s", "uid-x", clusterset.MemberLocal))
	unknown := []string{`whether another member has the id "a" cannot be told`, ignore + "=true on the claim clusterset.k8s.io", "delete the Secrets of clusters that are gone for good"}
	for _, test := range []struct {
		name    string
		force   bool
		answers []member.Answer
		want    []string
	}{
		{name: "one does not answer", answers: []member.Answer{free, silent("east")}, want: append(unknown, `not all could be asked: "east" (Secret member-east): no answer: timed out.`)},
		{name: "two do not answer", answers: []member.Answer{silent("south"), free, silent("east")},
			want: append(unknown, `"east" (Secret member-east): no answer: timed out; "south" (Secret member-south): no answer: timed out.`)},
		{name: "by force", force: true, answers: []member.Answer{free, silent("east")}},
		// R99: what is known to be taken stays taken.
		{name: "by force, but it is taken", force: true, answers: []member.Answer{silent("east"), taken}, want: []string{`the id "a" is taken`, "Secret member-north (UID uid-x)"}},
		{name: "taken, and one does not answer", answers: []member.Answer{silent("east"), taken}, want: []string{`the id "a" is taken`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := joining{id: "a", clusterSet: "s", claim: setClaim, force: test.force}.unique("self", test.answers)
			if test.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expectError(t, err, test.want...)
		})
	}
}
