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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/survey"
)

const (
	idClaim  = multicluster.ClusterIDClaim
	setClaim = multicluster.ClusterSetClaim
	ignore   = multicluster.IgnoreUnreachableMembersAnnotation
)

func claimOf(name, value string) *multicluster.ClusterClaim {
	return &multicluster.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multicluster.ClusterClaimSpec{Value: value}}
}

// forced returns the claim with the annotation that ignores unreachable members.
func forced(claim *multicluster.ClusterClaim, value string) *multicluster.ClusterClaim {
	claim.Annotations = map[string]string{ignore: value}
	return claim
}

// created, removed and changed return a change of a claim.
func created(name, value string) change { return change{name: name, after: &value} }
func removed(name, value string) change { return change{name: name, before: &value} }
func changed(name, before, after string) change {
	return change{name: name, before: &before, after: &after}
}

// generated returns the claim with the mark of an ID that mcs-controller generated.
func generated(claim *multicluster.ClusterClaim, value string) *multicluster.ClusterClaim {
	claim.Annotations = map[string]string{multicluster.GeneratedIDAnnotation: value}
	return claim
}

func expectError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got error %q, want one with %q", err, text)
		}
	}
}

func TestChangeOfObjects(t *testing.T) {
	for _, test := range []struct {
		name        string
		object, old runtime.Object
		want        change
		err         string
	}{
		{name: "created", object: claimOf(idClaim, "a"), want: created(idClaim, "a")},
		{name: "changed", object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a"), want: changed(idClaim, "a", "b")},
		{name: "deleted", old: claimOf(setClaim, "s"), want: removed(setClaim, "s")},
		{name: "forced", object: forced(claimOf(setClaim, "s"), "true"), want: change{name: setClaim, after: ptr.To("s"), force: true}},
		{name: "forced from now on", object: forced(claimOf(setClaim, "s"), "true"), old: claimOf(setClaim, "s"),
			want: change{name: setClaim, before: ptr.To("s"), after: ptr.To("s"), force: true}},
		{name: "forced until now", object: claimOf(setClaim, "s"), old: forced(claimOf(setClaim, "s"), "true"), want: changed(setClaim, "s", "s")},
		{name: "not quite forced", object: forced(claimOf(setClaim, "s"), "yes"), want: created(setClaim, "s")},
		{name: "generated, replaced", object: claimOf(idClaim, "b"), old: generated(claimOf(idClaim, "a"), "a"), want: change{name: idClaim, before: ptr.To("a"), after: ptr.To("b"), generated: true}},
		{name: "chosen, marked for a former value", object: claimOf(idClaim, "b"), old: generated(claimOf(idClaim, "a"), "uid"), want: changed(idClaim, "a", "b")},
		{name: "new value marked only", object: generated(claimOf(idClaim, "b"), "b"), old: claimOf(idClaim, "a"), want: changed(idClaim, "a", "b")},
		{name: "no object", err: "has no object"},
		{name: "another type", object: &clusterset.Member{}, err: "unexpected type *clusterset.Member"},
		{name: "another former type", object: claimOf(idClaim, "a"), old: &clusterset.Member{}, err: "unexpected type *clusterset.Member"},
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
		{"the ID is created", created(idClaim, "a"), true},
		{"the ID changes", changed(idClaim, "a", "b"), true},
		{"the ID is deleted", removed(idClaim, "a"), true},
		{"the ID stays", changed(idClaim, "a", "a"), false},
		{"a ClusterSet is joined", created(setClaim, "s"), true},
		{"a ClusterSet changes", changed(setClaim, "s", "t"), true},
		{"a ClusterSet is left", removed(setClaim, "s"), true},
		{"a ClusterSet stays", changed(setClaim, "s", "s"), false},
		{"another claim is created", created("region.example.com", "x"), false},
		{"another claim changes", changed("region.example.com", "x", "y"), false},
		{"another claim is deleted", removed("region.example.com", "x"), false},
		{"upstream's name for the id", created("cluster.clusterset.k8s.io", "x"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.change.matters(); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestForbiddenChanges(t *testing.T) {
	for _, test := range []struct {
		name   string
		change change
		// want are parts of the error, nil if the change is not forbidden.
		want []string
	}{
		// R105: a cluster always has an ID. R115: the error says what to do instead.
		{"the ID is deleted", removed(idClaim, "a"), []string{"cannot be deleted", "change the value of the claim while the cluster is not in a ClusterSet"}},
		{"the ID changes", changed(idClaim, "a", "b"), nil},
		{"the ID is created", created(idClaim, "a"), nil},
		// R108: the ClusterSet is immutable. R115: the error says what to do instead.
		{"a ClusterSet changes", changed(setClaim, "s", "t"), []string{`from ClusterSet "s" to "t"`, "delete this claim to leave", "create it again"}},
		{"a ClusterSet is joined", created(setClaim, "s"), nil},
		// R109: deleting the claim leaves the ClusterSet.
		{"a ClusterSet is left", removed(setClaim, "s"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.change.forbidden()
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

// R109: only deleting the ClusterSet claim leaves the ClusterSet.
func TestDeletingTheClusterSetClaimLeaves(t *testing.T) {
	for _, test := range []struct {
		change change
		want   bool
	}{
		{removed(setClaim, "s"), true},
		{created(setClaim, "s"), false},
		{changed(setClaim, "s", "t"), false},
		{removed(idClaim, "a"), false},
	} {
		if got := test.change.leavesClusterSet(); got != test.want {
			t.Errorf("%s: got %t, want %t", test.change.name, got, test.want)
		}
	}
}

func TestChangesAreCheckedAgainstTheCurrentClaims(t *testing.T) {
	none, named := claims{}, claims{id: ptr.To("a")}
	inSet, unnamed := claims{id: ptr.To("a"), clusterSet: ptr.To("s")}, claims{clusterSet: ptr.To("s")}
	force := created(setClaim, "s")
	force.force = true
	for _, test := range []struct {
		name    string
		change  change
		current claims
		// joins is the ID that has to be unique.
		joins *joining
		err   []string
	}{
		{name: "the first ID", change: created(idClaim, "a"), current: none},
		// R106: the ID may change outside a ClusterSet.
		{name: "another ID outside a ClusterSet", change: changed(idClaim, "a", "b"), current: named},
		// R104, R115: the ID may not change in a ClusterSet, and the error says what to do.
		{name: "another ID in a ClusterSet", change: changed(idClaim, "a", "b"), current: inSet,
			err: []string{`from "a" to "b"`, `in ClusterSet "s"`, "delete the claim clusterset.k8s.io to leave", "change the ID, then join again"}},
		{name: "an ID in a ClusterSet without one", change: created(idClaim, "b"), current: unnamed, joins: &joining{id: "b", clusterSet: "s", claim: idClaim}},
		{name: "a ClusterSet", change: created(setClaim, "s"), current: named, joins: &joining{id: "a", clusterSet: "s", claim: setClaim}},
		{name: "a ClusterSet by force", change: force, current: named, joins: &joining{id: "a", clusterSet: "s", claim: setClaim, force: true}},
		// R100, R115: a ClusterSet needs an ID.
		{name: "a ClusterSet without an ID", change: created(setClaim, "s"), current: none,
			err: []string{"this cluster has no ID", "create the ClusterClaim id.k8s.io first", `no other cluster of "s" has`}},
		{name: "another claim", change: created("region.example.com", "x"), current: inSet},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.change.evaluate(test.current)
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

// entryOf returns the Member of a cluster as another cluster shows it.
func entryOf(id, set string, uid types.UID, state clusterset.MemberState) *clusterset.Member {
	return &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id + "-" + string(uid)},
		Status:     clusterset.MemberStatus{ClusterID: id, ClusterSet: set, ClusterUID: uid, State: state},
	}
}

// answerOf returns the Members that the cluster of a Secret shows.
func answerOf(secret string, entries ...*clusterset.Member) survey.Answer {
	answer := survey.Answer{Name: strings.TrimPrefix(secret, "member-"), Secret: secret, Members: map[string]*clusterset.Member{}}
	for _, entry := range entries {
		answer.Members[entry.Name] = entry
	}
	return answer
}

func TestIDIsUniqueInTheClusterSet(t *testing.T) {
	const local, connected, stale, lost = clusterset.MemberLocal, clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost
	west := entryOf("west", "s", "uid-west", local)
	remedy := []string{`cluster ID "a" is already used in ClusterSet "s"`, "choose another ID", `kubectl patch clusterclaim id.k8s.io --type=merge -p '{"spec":{"value":"a-2"}}'`}
	for _, test := range []struct {
		name    string
		answers []survey.Answer
		// holder describes the cluster that has the ID; empty if it is unused.
		holder string
	}{
		{name: "no members"},
		{name: "other members have other IDs", answers: []survey.Answer{answerOf("member-west", west, entryOf("b", "s", "uid-b", connected))}},

		// R99: the ID is refused, and the error names its holder.
		{name: "a member has it", answers: []survey.Answer{answerOf("member-west", entryOf("a", "s", "uid-x", local))}, holder: "the cluster of Secret member-west (UID uid-x)"},
		{name: "a member of a member has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", connected))}, holder: `a member of "west" (UID uid-x, Connected)`},
		{name: "a stale member of a member has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", stale))}, holder: `a member of "west" (UID uid-x, Stale)`},
		{name: "a lost member of a member has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", lost))}, holder: `a member of "west" (UID uid-x, Lost)`},
		{name: "a member of a member that does not show its state has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", ""))}, holder: `a member of "west" (UID uid-x)`},
		{name: "a member of the second member has it", answers: []survey.Answer{answerOf("member-west", west), answerOf("member-east", entryOf("east", "s", "uid-east", local), entryOf("a", "s", "uid-x", connected))},
			holder: `a member of "east" (UID uid-x, Connected)`},
		{name: "a refused and an accepted member of a member have it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-y", clusterset.MemberRefused), entryOf("a", "s", "uid-x", connected))},
			holder: `a member of "west" (UID uid-x, Connected)`},

		// R102: IDs are unique within a ClusterSet, and only while they are in use.
		{name: "a member of another ClusterSet has it", answers: []survey.Answer{answerOf("member-west", entryOf("a", "t", "uid-x", local))}},
		{name: "a member of a member in another ClusterSet has it", answers: []survey.Answer{answerOf("member-west", entryOf("west", "t", "uid-west", local), entryOf("a", "t", "uid-x", connected))}},
		{name: "a former member that changed its ClusterSet has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "t", "uid-x", connected))}},
		{name: "a cluster outside the ClusterSet remembers it", answers: []survey.Answer{answerOf("member-west", entryOf("west", "", "uid-west", local), entryOf("a", "s", "uid-x", lost))}},
		{name: "a refused member has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", clusterset.MemberRefused))}},
		{name: "a member that is not reached yet has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "uid-x", clusterset.MemberConnecting))}},
		{name: "a member of unknown UID has it", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "", connected))}},
		{name: "a member remembers this cluster", answers: []survey.Answer{answerOf("member-west", west, entryOf("a", "s", "self", lost))}},
		{name: "a Secret refers to this cluster", answers: []survey.Answer{answerOf("member-a", entryOf("a", "s", "self", local))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, force := range []bool{false, true} { // the annotation does not override a known holder
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

// R115: the suggested ID is valid.
func TestSuggestedIDIsValid(t *testing.T) {
	long := strings.Repeat("x", 63)
	answers := func(id string) []survey.Answer {
		return []survey.Answer{answerOf("member-west", entryOf(id, "s", "uid-x", clusterset.MemberLocal))}
	}
	for _, test := range []struct {
		joining joining
		want    string
	}{
		{joining{id: "a", clusterSet: "s", claim: setClaim}, `kubectl patch clusterclaim id.k8s.io --type=merge -p '{"spec":{"value":"a-2"}}'`},
		{joining{id: long, clusterSet: "s", claim: setClaim}, `{"spec":{"value":"` + long[:61] + `-2"}}'`},
		{joining{id: "a", clusterSet: "s", claim: idClaim}, "create the claim id.k8s.io with another value"}, // the claim does not exist yet
	} {
		expectError(t, test.joining.unique("self", answers(test.joining.id)), test.want)
	}
}

func TestIDIsRefusedUnlessAllMembersAnswer(t *testing.T) {
	silent := func(name string) survey.Answer {
		return survey.Answer{Name: name, Secret: "member-" + name, Problem: "member is unreachable: timed out"}
	}
	free := answerOf("member-west", entryOf("west", "s", "uid-west", clusterset.MemberLocal))
	taken := answerOf("member-north", entryOf("a", "s", "uid-x", clusterset.MemberLocal))
	unknown := []string{`failed to check whether another member has the cluster ID "a"`, ignore + "=true on the claim clusterset.k8s.io", "delete the Secrets of clusters that no longer exist"}
	for _, test := range []struct {
		name    string
		force   bool
		answers []survey.Answer
		want    []string
	}{
		{name: "one does not answer", answers: []survey.Answer{free, silent("east")}, want: append(unknown, `the cluster ID "a": "east" (Secret member-east): member is unreachable: timed out.`)},
		{name: "two do not answer", answers: []survey.Answer{silent("south"), free, silent("east")},
			want: append(unknown, `"east" (Secret member-east): member is unreachable: timed out; "south" (Secret member-south): member is unreachable: timed out.`)},
		{name: "by force", force: true, answers: []survey.Answer{free, silent("east")}},
		// R99: the annotation does not override a known holder.
		{name: "by force, but used", force: true, answers: []survey.Answer{silent("east"), taken}, want: []string{`cluster ID "a" is already used`, "Secret member-north (UID uid-x)"}},
		{name: "used, and one does not answer", answers: []survey.Answer{silent("east"), taken}, want: []string{`cluster ID "a" is already used`}},
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
