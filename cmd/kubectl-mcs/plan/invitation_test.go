// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// now is the time at which invitations are accepted.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// peerToken returns a token of a service account, valid for an hour.
func peerToken(t *testing.T, account string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:mcs-system:" + account, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(claims) + "." + encode([]byte("signature"))
}

// invitingEast is what east tells west.
func invitingEast(t *testing.T) Membership {
	t.Helper()
	return Membership{
		ID: "east", UID: "uid-east", Access: Access{Server: "https://east.example:6443"}, Token: peerToken(t, "peer-west"), Secret: "member-east",
		JoinedAt: joinedAt, AllowedCIDRs: "10.1.0.0/16", AllocationCIDRs: "243.1.0.0/16",
	}
}

// newTestInvitation returns the invitation of east for west, with changes.
func newTestInvitation(t *testing.T, changes ...func(*Membership)) Invitation {
	t.Helper()
	told := invitingEast(t)
	for _, change := range changes {
		change(&told)
	}
	invitation, err := NewInvitation("mcs-system", "production", told)
	if err != nil {
		t.Fatal(err)
	}
	return invitation
}

// encoded returns the file of an invitation.
func encoded(t *testing.T, invitation Invitation) string {
	t.Helper()
	documents := []string{"# a comment\n"}
	for _, object := range invitation.Objects() {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(document))
	}
	return strings.Join(documents, "---\n")
}

// R417: an invitation is read as it was written.
func TestInvitationIsReadAsWritten(t *testing.T) {
	want := newTestInvitation(t)
	got, err := ReadInvitation([]byte(encoded(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected invitation (-want +got):\n%s", diff)
	}
	if got.ID != "east" || got.Invited != "west" || got.ClusterSet() != "production" || got.UID() != "uid-east" || !got.Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
	// As a person would write it.
	byHand := strings.ReplaceAll(encoded(t, want), "\ndata:", "\nstringData:")
	for key, value := range want.Secret.Data {
		quoted, err := json.Marshal(string(value))
		if err != nil {
			t.Fatal(err)
		}
		byHand = strings.ReplaceAll(byHand, key+": "+base64.StdEncoding.EncodeToString(value), key+": "+string(quoted))
	}
	if got, err = ReadInvitation([]byte(byHand)); err != nil {
		t.Fatalf("%v in %s", err, byHand)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected invitation by hand (-want +got):\n%s", diff)
	}
}

// R420: what does not belong to an invitation is refused by name.
func TestInvalidInvitationsAreRefused(t *testing.T) {
	valid := newTestInvitation(t)
	secret := func(change func(*corev1.Secret)) string {
		changed := valid
		changed.Secret = valid.Secret.DeepCopy()
		change(changed.Secret)
		return encoded(t, changed)
	}
	kubeconfig := func(former, next string) string {
		return secret(func(s *corev1.Secret) {
			s.Data[clusterset.MemberSecretKubeconfig] = []byte(strings.Replace(string(s.Data[clusterset.MemberSecretKubeconfig]), former, next, 1))
		})
	}
	replaced := func(former, next string) string { return strings.ReplaceAll(encoded(t, valid), former, next) }
	for _, test := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"no Secret: not an invitation"}},
		{"not YAML", "{", []string{"not YAML"}},
		{"a text", "hello", []string{"not YAML"}},
		{"no claim", strings.Split(encoded(t, valid), "---\napiVersion: multicluster")[0], []string{"no ClusterClaim clusterset.k8s.io with a value"}},
		{"another claim", replaced("name: clusterset.k8s.io", "name: id.k8s.io"), []string{"no ClusterClaim clusterset.k8s.io with a value"}},
		{"claim without value", replaced("value: production", `value: ""`), []string{"no ClusterClaim clusterset.k8s.io with a value"}},
		{"claim with annotations", replaced("name: clusterset.k8s.io", "name: clusterset.k8s.io\n  annotations: {clusterset.mcs-apiserver.io/ignore-unreachable-members: \"true\"}"), []string{"has metadata that is not part of an invitation"}},
		{"two Secrets", encoded(t, valid) + "---\n" + encoded(t, valid), []string{`an object of kind "Secret" in "v1" is not part of an invitation, which has one Secret and one ClusterClaim`}},
		{"more objects", encoded(t, valid) + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: admin}\n", []string{`kind "ClusterRoleBinding" in "rbac.authorization.k8s.io/v1" is not part of an invitation`}},
		{"a list", "apiVersion: v1\nkind: List\nitems: []\n", []string{`kind "List" in "v1" is not part of an invitation`}},
		{"unknown field", replaced("type: clusterset", "owner: me\ntype: clusterset"), []string{`invalid Secret: `, `unknown field "owner"`}},
		{"another type", secret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), []string{`type is "Opaque", but that of a member Secret is clusterset.mcs-apiserver.io/member`}},
		{"more keys", secret(func(s *corev1.Secret) {
			s.Data[clusterset.MemberSecretRelayFor], s.Data[clusterset.MemberSecretAllowedNamespaces] = []byte("*"), []byte("kube-system")
		}), []string{`key "relay-for" is not part of an invitation: remove it, and set it in this cluster if it should have it`, `key "allowed-namespaces" is not part`}},
		{"annotations", secret(func(s *corev1.Secret) { s.Annotations[clusterset.LostPolicyAnnotation] = "Keep" }), []string{`annotation "clusterset.mcs-apiserver.io/lost-policy" is not part`}},
		{"no UID", secret(func(s *corev1.Secret) { s.Annotations = nil }), []string{"annotation clusterset.mcs-apiserver.io/cluster-uid is missing"}},
		{"labels", secret(func(s *corev1.Secret) { s.Labels["team"] = "x" }), []string{`label "team" is not part`}},
		{"label of another cluster", secret(func(s *corev1.Secret) { s.Labels[clusterset.PeerLabel] = "north" }), []string{`label "clusterset.mcs-apiserver.io/peer" is "north", but that of an invitation is "east"`}},
		{"owner", secret(func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), []string{"remove all other metadata"}},
		{"invalid values", secret(func(s *corev1.Secret) {
			s.Data[clusterset.MemberSecretClusterID], s.Data[clusterset.MemberSecretAllowedCIDRs] = []byte("East!"), []byte("all")
		}), []string{"data[cluster-id]: Invalid value", `data[allowed-cidrs]: "all" must be a CIDR`}},
		{"insecure", secret(func(s *corev1.Secret) {
			s.Data[clusterset.MemberSecretKubeconfig] = []byte(strings.ReplaceAll(string(s.Data[clusterset.MemberSecretKubeconfig]), "server:", "insecure-skip-tls-verify: true\n    server:"))
		}), []string{"insecure-skip-tls-verify is not allowed"}},
		{"proxy", kubeconfig("server:", "proxy-url: http://evil.example:3128\n    server:"), []string{`proxy-url "http://evil.example:3128" in the kubeconfig is not part of an invitation`}},
		{"other users", kubeconfig("users:", "users:\n- name: other\n  user: {token: x}"), []string{"the kubeconfig has more, or other names, than one cluster"}},
		{"other clusters", kubeconfig("clusters:", "clusters:\n- name: other\n  cluster: {server: \"https://evil.example\"}"), []string{"the kubeconfig has more"}},
		{"impersonation", kubeconfig("token:", "as: system:admin\n    token:"), []string{"the kubeconfig has more"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadInvitation([]byte(test.content))
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
	for _, token := range []string{"", "opaque", peerToken(t, "default")} {
		told := invitingEast(t)
		told.Token = token
		if _, err := NewInvitation("mcs-system", "production", told); err == nil || !strings.Contains(err.Error(), "no token of a service account peer-<cluster ID>") {
			t.Errorf("token %q: got error %v", token, err)
		}
	}
}

// R419: west accepts the invitation of east.
func TestAccept(t *testing.T) {
	add, wait := Step{Context: "west", Action: AddMembers, Peers: []string{"east"}}, Step{Context: "west", Action: WaitForMembers, Peers: []string{"east"}}
	for _, test := range []struct {
		name     string
		own      Cluster
		changes  []func(*Membership)
		want     []Step
		warnings []string
	}{
		{name: "joins", own: newCluster("west"), want: []Step{add, {Context: "west", Action: JoinClusterSet, Value: "production"}, wait}},
		{name: "is in the ClusterSet", own: newCluster("west", in("production"), owns("243.2.0.0/16"), taken("uid-east", "243.1.0.0/16"), taken("uid-north", "243.3.0.0/16")), want: []Step{add, wait}},
		{
			name: "older than this cluster", own: newCluster("west", in("production"), func(c *Cluster) { c.JoinedAt = "2026-02-01T00:00:00Z" }), want: []Step{add, wait},
			warnings: []string{`cluster "east" joined at 2026-01-01T00:00:00Z, before this one: where exports conflict, its older ones win; accept it only if that is so`},
		},
		{
			name: "younger than this cluster", own: newCluster("west", in("production"), func(c *Cluster) { c.JoinedAt = "2025-02-01T00:00:00Z" }), want: []Step{add, wait},
		},
		{
			name: "again", own: newCluster("west", in("production"), knows("east", "uid-east"), func(c *Cluster) {
				c.Members["east"] = Member{Access: Access{Server: "https://east.example:6443"}, JoinedAt: joinedAt, AllocationCIDRs: "243.1.0.0/16", AllowedCIDRs: "10.1.0.0/16", Secret: types.NamespacedName{Name: "member-east"}}
			}),
			want: []Step{add, wait},
		},
		{
			name: "overlapping networks", own: newCluster("west", in("production"), func(c *Cluster) {
				c.PodCIDRs, c.ServiceCIDRs = []string{"10.2.0.0/24"}, []string{"10.96.0.0/12"}
				c.Members["north"] = Member{AllowedCIDRs: "10.0.0.0/8"}
			}),
			want:     []Step{add, wait},
			warnings: []string{"allowed CIDR of member north 10.0.0.0/8 and allowed CIDR 10.1.0.0/16 of east overlap"},
		},
		{
			name: "common Pod network, decided here", own: newCluster("west", in("production"), func(c *Cluster) {
				c.PodCIDRs = []string{"10.1.7.0/24"}
				c.Members["east"] = Member{Access: Access{Server: "https://east.example:6443"}, JoinedAt: joinedAt, AllocationCIDRs: "243.1.0.0/16", AllowedCIDRs: "10.1.0.0/16"}
			}),
			want: []Step{add, wait}, warnings: []string{"Pod CIDR of this cluster 10.1.7.0/24 and allowed CIDR 10.1.0.0/16 of east overlap"},
		},
		{
			name: "unknown networks, nothing allowed", own: newCluster("west", in("production"), func(c *Cluster) { c.NodesHidden = true }), changes: []func(*Membership){func(m *Membership) { m.AllowedCIDRs = "" }},
			want: []Step{add, wait}, warnings: []string{"the invitation has no allowed-cidrs"},
		},
		{
			name: "unknown networks", own: newCluster("west", in("production")), changes: []func(*Membership){func(m *Membership) { m.AllowedCIDRs = "" }},
			want: []Step{add, wait}, warnings: []string{"the invitation has no allowed-cidrs: whether the Pod networks overlap is not checked"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			planned, err := Accept(newTestInvitation(t, test.changes...), test.own, "mcs-system", now, AcceptOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, planned.Steps); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if len(planned.Warnings) != len(test.warnings) {
				t.Fatalf("got warnings %q", planned.Warnings)
			}
			for i, want := range test.warnings {
				if !strings.Contains(planned.Warnings[i], want) {
					t.Errorf("got warning %q, want %q", planned.Warnings[i], want)
				}
			}
		})
	}
}

// R419: what this cluster recorded of a member is kept, and what changes is shown.
func TestAcceptAgain(t *testing.T) {
	told := func(joined, allowed, allocation string) func(*Membership) {
		return func(m *Membership) { m.JoinedAt, m.AllowedCIDRs, m.AllocationCIDRs = joined, allowed, allocation }
	}
	for _, test := range []struct {
		name     string
		existing Member
		told     func(*Membership)
		replace  bool
		want     []string
		warnings []string
		facts    []string
	}{
		{
			name: "the same", existing: Member{JoinedAt: joinedAt, AllowedCIDRs: "10.1.0.0/16", AllocationCIDRs: "243.1.0.0/16"}, told: told("2026-01-01T00:00:00Z", "10.1.0.0/16", "243.1.0.0/16"),
			facts: []string{"10.1.0.0/16", "243.1.0.0/16", joinedAt},
		},
		{
			name: "forged", existing: Member{JoinedAt: joinedAt, AllowedCIDRs: "10.100.0.0/16", AllocationCIDRs: "243.1.0.0/16"}, told: told("2000-01-01T00:00:00Z", "0.0.0.0/0", "243.0.0.0/8"),
			warnings: []string{`member "east" keeps the allowed CIDRs 10.100.0.0/16, although the invitation has 0.0.0.0/0: to replace them, repeat the command with --replace`, `member "east" keeps the allocation CIDRs 243.1.0.0/16, although the invitation has 243.0.0.0/8`},
			facts:    []string{"10.100.0.0/16 in this cluster (the invitation says 0.0.0.0/0)", "243.1.0.0/16 in this cluster (the invitation says 243.0.0.0/8)", joinedAt + " in this cluster (the invitation says 2000-01-01T00:00:00Z)"},
		},
		{
			name: "replaced", replace: true, existing: Member{JoinedAt: joinedAt, AllowedCIDRs: "10.100.0.0/16", AllocationCIDRs: "243.1.0.0/16"}, told: told("2000-01-01T00:00:00Z", "10.1.0.0/16", "none"),
			want:  []string{"allow endpoints of east in 10.1.0.0/16 instead of 10.100.0.0/16", "record that east has no allocation CIDR instead of 243.1.0.0/16"},
			facts: []string{"10.1.0.0/16", "none", joinedAt + " in this cluster (the invitation says 2000-01-01T00:00:00Z)"},
		},
		{
			name: "nothing told", replace: true, existing: Member{JoinedAt: joinedAt, AllowedCIDRs: "10.100.0.0/16", AllocationCIDRs: "243.1.0.0/16"}, told: told("", "", ""),
			facts: []string{"10.100.0.0/16 in this cluster (the invitation says all addresses)", "243.1.0.0/16 in this cluster (the invitation says those that it claims)", joinedAt + " in this cluster (the invitation says whenever it claims)"},
		},
		{
			name: "nothing recorded", told: told(joinedAt, "10.1.0.0/16", "243.1.0.0/16"),
			want:  []string{"allow endpoints of east in 10.1.0.0/16", "record allocation CIDR 243.1.0.0/16 of east", "record that east joined at 2026-01-01T00:00:00Z"},
			facts: []string{"10.1.0.0/16", "243.1.0.0/16", joinedAt},
		},
		{
			name: "joined again", existing: Member{JoinedAt: "2026-01-01T01:00:00+01:00", AllowedCIDRs: "10.1.0.0/16", AllocationCIDRs: "243.1.0.0/16"}, told: told("2026-02-01T00:00:00Z", "10.1.0.0/16", "243.1.0.0/16"),
			want:  []string{"record that east joined at 2026-02-01T00:00:00Z instead of 2026-01-01T01:00:00+01:00"},
			facts: []string{"10.1.0.0/16", "243.1.0.0/16", "2026-02-01T00:00:00Z"},
		},
		{
			name: "hub", existing: Member{JoinedAt: joinedAt, AllocationCIDRs: "243.1.0.0/16", RelayFor: "north"}, told: told(joinedAt, "10.1.0.0/16", "243.1.0.0/16"),
			warnings: []string{`the allowed CIDRs of the invitation, 10.1.0.0/16, are not recorded, because member "east" may relay other clusters (north)`},
			facts:    []string{"all addresses in this cluster (the invitation says 10.1.0.0/16)", "243.1.0.0/16", joinedAt},
		},
		{
			name: "hub, replaced", replace: true, existing: Member{JoinedAt: joinedAt, AllowedCIDRs: "10.3.0.0/16", AllocationCIDRs: "243.1.0.0/16", RelayFor: "north"}, told: told(joinedAt, "10.1.0.0/16", "243.1.0.0/16"),
			want:  []string{"allow endpoints of east in 10.3.0.0/16,10.1.0.0/16 instead of 10.3.0.0/16"},
			facts: []string{"10.3.0.0/16,10.1.0.0/16 in this cluster (the invitation says 10.1.0.0/16)", "243.1.0.0/16", joinedAt},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.existing.Access, test.existing.Secret = Access{Server: "https://east.example:6443"}, types.NamespacedName{Name: "member-east"}
			own := newCluster("west", in("production"), knows("east", "uid-east"), func(c *Cluster) { c.Members["east"] = test.existing })
			invitation, options := newTestInvitation(t, test.told), AcceptOptions{Replace: test.replace}
			planned, err := Accept(invitation, own, "mcs-system", now, options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, step := range planned.Steps {
				got = append(got, step.String())
			}
			if diff := cmp.Diff(append(append([]string{"add member east"}, test.want...), "wait for connection to east"), got); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if len(planned.Warnings) != len(test.warnings) {
				t.Fatalf("got warnings %q", planned.Warnings)
			}
			for i, want := range test.warnings {
				if !strings.Contains(planned.Warnings[i], want) {
					t.Errorf("got warning %q, want %q", planned.Warnings[i], want)
				}
			}
			var facts []string
			for _, row := range invitation.FactsIn(own, options) {
				switch row[0] {
				case "Allowed CIDRs:", "Allocation CIDRs:", "Joined at:":
					facts = append(facts, row[1])
				}
			}
			if diff := cmp.Diff(test.facts, facts); diff != "" {
				t.Errorf("unexpected facts (-want +got):\n%s", diff)
			}
		})
	}
}

// R420: an invitation that would harm this cluster, or its members, is refused.
func TestAcceptIsRefused(t *testing.T) {
	east := types.NamespacedName{Namespace: "mcs-system", Name: "member-east"}
	for _, test := range []struct {
		name    string
		own     Cluster
		changes []func(*Membership)
		later   time.Duration
		// repoint is whether --repoint makes the invitation acceptable.
		repoint bool
		want    []string
	}{
		{name: "for another cluster", own: newCluster("north"), want: []string{`the invitation is for cluster "west", but the ID of this one is "north": ask for another one`}},
		{
			name: "for a chosen ID", own: newCluster("west", named("uid-west"), func(c *Cluster) { c.GeneratedID = true }),
			want: []string{`the invitation is for cluster "west", but the ID of this one is "uid-west": this ID was generated; to set the other one, run ` +
				"`kubectl patch clusterclaim id.k8s.io --context west --type=merge --patch '{\"spec\":{\"value\":\"west\"}}'`, and accept the invitation again"},
		},
		{
			name: "for a chosen ID, too late", own: newCluster("west", in("production"), named("uid-west"), func(c *Cluster) { c.GeneratedID = true }),
			want: []string{`the invitation is for cluster "west", but the ID of this one is "uid-west": ask for another one`},
		},
		{name: "expired", own: newCluster("west"), later: time.Hour, want: []string{"the invitation expired at 2026-03-01T13:00:00Z, and it is 2026-03-01T13:00:00Z: ask for another one"}},
		{name: "another ClusterSet", own: newCluster("west", in("staging")), want: []string{`the invitation is to ClusterSet "production", but this cluster is in ClusterSet "staging"`}},
		{name: "itself", own: newCluster("east"), want: []string{`the invitation is of this cluster, "east", itself`}},
		{name: "itself by another ID", own: newCluster("west", func(c *Cluster) { c.UID = "uid-east" }), want: []string{`the invitation is of this cluster, "west", itself`}},
		{name: "ID of another cluster", own: newCluster("west", in("production"), knows("east", "uid-other")), want: []string{`cluster ID "east" is in use by another member (UID "uid-other") than the inviting cluster (UID "uid-east")`}},
		{name: "another name", own: newCluster("west"), changes: []func(*Membership){func(m *Membership) { m.Secret = "coredns" }}, want: []string{`the Secret is named "coredns", but that of member "east" must be named "member-east"`}},
		{name: "local server", own: newCluster("west"), changes: []func(*Membership){func(m *Membership) { m.Access.Server = "https://localhost" }}, want: []string{`server "https://localhost" is only reachable from this machine: ask for another invitation, with --server`}},
		{name: "user in the URL", own: newCluster("west"), changes: []func(*Membership){func(m *Membership) { m.Access.Server = "https://east.example@evil.example" }}, want: []string{`server "https://east.example@evil.example" has more than a host, a port and a path`}},
		{name: "query", own: newCluster("west"), changes: []func(*Membership){func(m *Membership) { m.Access.Server = "https://east.example?x" }}, want: []string{"has more than a host"}},
		{name: "own Pods", own: newCluster("west", func(c *Cluster) { c.PodCIDRs = []string{"10.2.0.0/24", "10.1.7.0/24"} }), want: []string{
			"allowed CIDR 10.1.0.0/16 of east overlaps Pod CIDR 10.1.7.0/24 of this cluster: what it exports could lead to Pods of this cluster", "if the clusters have a common Pod network, ask for one without --allowed-cidrs, and then set allowed-cidrs in its member Secret",
		}},
		{name: "everything", own: newCluster("west", func(c *Cluster) { c.PodCIDRs = []string{"10.2.0.0/24"} }), changes: []func(*Membership){func(m *Membership) { m.AllowedCIDRs = "192.0.2.0/24,0.0.0.0/0" }}, want: []string{"allowed CIDR 0.0.0.0/0 of east overlaps Pod CIDR 10.2.0.0/24"}},
		{name: "own Services", own: newCluster("west", func(c *Cluster) { c.ServiceCIDRs = []string{"10.1.128.0/20"} }), want: []string{"allowed CIDR 10.1.0.0/16 of east overlaps Service CIDR 10.1.128.0/20 of this cluster"}},
		{name: "unknown Pods", own: newCluster("west", func(c *Cluster) { c.NodesHidden = true }), want: []string{"whether the allowed CIDRs 10.1.0.0/16 contain Pods of this cluster cannot be checked, because you may not list nodes"}},
		{name: "own allocation CIDR", own: newCluster("west", in("production"), owns("243.1.128.0/17")), want: []string{"allocation CIDR 243.1.128.0/17 of this cluster overlaps 243.1.0.0/16 of east: delete the ClusterClaim clusterset-ip-cidr.mcs-apiserver.io here"}},
		{name: "allocation CIDR of a member", own: newCluster("west", in("production"), records("north", "243.1.0.0/16")), want: []string{`allocation CIDR 243.1.0.0/16 of member "north" overlaps 243.1.0.0/16 of east`}},
		{name: "allocation CIDR of a relayed cluster", own: newCluster("west", in("production"), taken("uid-north", "243.1.64.0/18")), want: []string{`allocation CIDR 243.1.64.0/18, which the cluster with UID "uid-north" claims, overlaps 243.1.0.0/16 of east`}},
		{
			name: "another server", repoint: true, own: newCluster("west", in("production"), func(c *Cluster) { c.Members["east"] = Member{Access: accessOf("east"), Secret: east} }),
			want: []string{`member "east" is reached at "https://east.example:6443", and would be at "https://east.example:6443": the certificate authorities differ; if that is right, repeat the command with --repoint`},
		},
		{
			name: "relayed by a hub", repoint: true, own: newCluster("west", in("production"), knows("east", "uid-east")),
			want: []string{`cluster "east" is known here through a hub, and would be read at "https://east.example:6443" instead: if that is right, repeat the command with --repoint`},
		},
		{
			name: "member by another ID", repoint: true, own: newCluster("west", in("production"), func(c *Cluster) { c.Members["sunrise"] = Member{Access: Access{Server: "https://east.example:6443"}} }),
			want: []string{`the inviting cluster is member "sunrise" already, but would become "east"`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			invitation := newTestInvitation(t, test.changes...)
			_, err := Accept(invitation, test.own, "mcs-system", now.Add(test.later), AcceptOptions{})
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
			if _, err := Accept(invitation, test.own, "mcs-system", now.Add(test.later), AcceptOptions{Repoint: true, Replace: true}); (err == nil) != test.repoint {
				t.Errorf("with --repoint: got error %v", err)
			}
		})
	}
	_, err := Accept(newTestInvitation(t), newCluster("west"), "services", now, AcceptOptions{})
	if err == nil || !strings.Contains(err.Error(), `the Secret is for namespace "mcs-system", but mcs-apiserver is installed in "services": ask for an invitation with this namespace (--namespace)`) {
		t.Errorf("another namespace: got error %v", err)
	}
}

// R421: what is trusted is shown.
func TestFacts(t *testing.T) {
	var rows []string
	for _, row := range newTestInvitation(t).Facts() {
		rows = append(rows, strings.Join(row, " "))
	}
	want := []string{
		"ClusterSet: production", "Server: https://east.example:6443", "Certificate authority: those that the system of mcs-apiserver trusts",
		"Token: for cluster west, valid until 2026-03-01T13:00:00Z", "Allowed CIDRs: 10.1.0.0/16", "Allocation CIDRs: 243.1.0.0/16", "Joined at: 2026-01-01T00:00:00Z",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("unexpected facts (-want +got):\n%s", diff)
	}
	named := newTestInvitation(t, func(m *Membership) { m.Access.ServerName = "evil.example" }).Facts()
	if got := named[1][1]; got != "https://east.example:6443, with a certificate for evil.example" {
		t.Errorf("got server %q", got)
	}
	certificate := "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n" // abc
	const sum = "SHA256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if diff := cmp.Diff([]string{sum, sum}, Fingerprints(certificate+certificate)); diff != "" {
		t.Errorf("unexpected fingerprints (-want +got):\n%s", diff)
	}
}
