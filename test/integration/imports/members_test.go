// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// inState returns a check for the state of a member and its messages.
func hasState(want clustersetv1alpha1.MemberState) func(*clustersetv1alpha1.Member) error {
	return func(found *clustersetv1alpha1.Member) error {
		if found.Status.State != want {
			return fmt.Errorf("state is %s, want %s: %+v", found.Status.State, want, found.Status.Conditions)
		}
		return nil
	}
}

func hasCondition(conditionType string, status metav1.ConditionStatus, reason string, parts ...string) func(*clustersetv1alpha1.Member) error {
	return func(found *clustersetv1alpha1.Member) error {
		condition := meta.FindStatusCondition(found.Status.Conditions, conditionType)
		if condition == nil || condition.Status != status || condition.Reason != reason {
			return fmt.Errorf("%s is %+v, want %s/%s", conditionType, condition, status, reason)
		}
		for _, part := range parts {
			if !strings.Contains(condition.Message, part) {
				return fmt.Errorf("%q is missing in %q", part, condition.Message)
			}
		}
		return nil
	}
}

// secret creates a member Secret that is deleted when the test ends.
func secret(t *testing.T, in *fleet.Cluster, name string, data map[string][]byte) {
	t.Helper()
	secrets := in.Kubernetes.CoreV1().Secrets(installation.Namespace)
	expect.Must(secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: clusterset.MemberSecretType, Data: data}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := secrets.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// secretData returns the data of the member Secret of a peer.
func secretData(t *testing.T, in *fleet.Cluster, peer string) map[string][]byte {
	t.Helper()
	return expect.Must(in.Kubernetes.CoreV1().Secrets(installation.Namespace).Get(t.Context(), clusterset.MemberSecretName(peer), metav1.GetOptions{}))(t).Data
}

// All members of a healthy ClusterSet are connected and mutual.
func TestMembersShowEachOther(t *testing.T) {
	ns := fleet.CreateNamespace(t, "counted", clusters.Clusters...)
	export(t, east(), ns, "web")
	for _, cluster := range clusters.Clusters {
		for _, peer := range clusters.Clusters {
			if peer == cluster {
				continue
			}
			cluster.AwaitMember(t, peer.ID, func(found *clustersetv1alpha1.Member) error {
				for _, conditionType := range []string{"Accepted", "Reachable", "Synced", "Mutual"} {
					if !meta.IsStatusConditionTrue(found.Status.Conditions, conditionType) {
						return fmt.Errorf("%s is not true: %+v", conditionType, found.Status.Conditions)
					}
				}
				return hasState(clustersetv1alpha1.MemberConnected)(found)
			})
		}
		cluster.AwaitMember(t, cluster.ID, hasState(clustersetv1alpha1.MemberLocal))
	}
	west().AwaitMember(t, "east", func(found *clustersetv1alpha1.Member) error {
		if found.Status.Exports != 1 || found.Status.Endpoints != 2 || !found.Status.Synced || found.Status.ClusterSet != "everywhere" || found.Status.LastSeen == nil {
			return fmt.Errorf("%+v", found.Status)
		}
		return nil
	})
	lines := strings.Split(kubectl(t, west(), "get", "members"), "\n")
	if columns := fmt.Sprint(strings.Fields(lines[0])); columns != "[ID CLUSTERSET STATE LAST-SEEN EXPORTS ENDPOINTS AGE]" {
		t.Errorf("columns are %s", columns)
	}
	expect.Contains(t, findRow(lines, "east", "everywhere", "Connected"), " 1 ", " 2 ")
	expect.Contains(t, kubectl(t, west(), "get", "members", "-o", "wide"), "REASON")
}

// R4, R5, R101: a cluster that does not match its member Secret is refused,
// visibly, without affecting others.
func TestMismatchedMembersAreRefused(t *testing.T) {
	ns := fleet.CreateNamespace(t, "guarded", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	with := func(changes map[string]string) map[string][]byte {
		data := secretData(t, west(), "north")
		for key, value := range changes {
			data[key] = []byte(value)
		}
		return data
	}
	kubeconfig := string(secretData(t, west(), "north")[clusterset.MemberSecretKubeconfig])
	for _, test := range []struct {
		name, entry string
		data        map[string][]byte
		check       func(*clustersetv1alpha1.Member) error
	}{
		{"wrong-id", "south", with(map[string]string{"cluster-id": "south"}), hasCondition("Accepted", "False", "WrongClusterID", `"south"`, `"north"`)},
		{"dotted-id", "secret.dotted-id", with(map[string]string{"cluster-id": "a.b"}), hasCondition("Accepted", "False", "InvalidSecret", "a single DNS label")},
		{"no-kubeconfig", "alone", map[string][]byte{"cluster-id": []byte("alone")}, hasCondition("Accepted", "False", "InvalidSecret", "data[kubeconfig]", "required")},
		{"twice", "secret.twice", with(nil), hasCondition("Accepted", "False", "DuplicateSecret", "twice", "member-north", "delete one")},
		{"ourselves", "secret.ourselves", with(map[string]string{"cluster-id": "west"}), hasCondition("Accepted", "False", "WrongClusterID")},
		{"program", "program", with(map[string]string{"cluster-id": "program", "kubeconfig": strings.Replace(kubeconfig, "    token: ", "    exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}\n    x: ", 1)}),
			hasCondition("Accepted", "False", "InvalidSecret", "exec is not allowed")},
		{"file", "file", with(map[string]string{"cluster-id": "file", "kubeconfig": strings.Replace(kubeconfig, "    token: ", "    tokenFile: /etc/passwd\n    x: ", 1)}),
			hasCondition("Accepted", "False", "InvalidSecret", "tokenFile is not allowed")},
		{"unknown", "unknown", with(map[string]string{"cluster-id": "unknown", "kubeconfig": strings.Replace(kubeconfig, "    token: ", "    token: x", 1)}),
			hasCondition("Reachable", "False", "Unauthorized", "replace it there")},
	} {
		t.Run(test.name, func(t *testing.T) {
			secret(t, west(), test.name, test.data)
			west().AwaitMember(t, test.entry, test.check)
			condition := strings.Fields(findRow(strings.Split(kubectl(t, west(), "get", "members", "-o", "wide"), "\n"), test.entry))
			if len(condition) < 8 {
				t.Errorf("kubectl get members -o wide shows only %v", condition)
			}
			west().AwaitImport(t, ns, "web", "east")
		})
	}
	// The Members are removed with their Secrets.
	expect.Eventually(t, "end of the entries", func(ctx context.Context) error {
		members, err := west().Clientset.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
		if err == nil && len(members.Items) != 3 {
			err = fmt.Errorf("%d members", len(members.Items))
		}
		return err
	})
}

// A member that moves to another ClusterSet is refused until it returns.
func TestMemberOfAnotherClusterSetIsRefused(t *testing.T) {
	ns := fleet.CreateNamespace(t, "elsewhere", clusters.Clusters...)
	export(t, north(), ns, "web")
	west().AwaitImport(t, ns, "web", "north")
	if err := north().Claim(t.Context(), "north", "another"); err != nil {
		t.Fatal(err)
	}
	west().AwaitNoImport(t, ns, "web")
	west().AwaitMember(t, "north", hasCondition("Accepted", "False", "WrongClusterSet", `"another"`, `"everywhere"`))
	north().AwaitImport(t, ns, "web", "north") // alone in its ClusterSet
	if err := north().Claim(t.Context(), "north", "everywhere"); err != nil {
		t.Fatal(err)
	}
	west().AwaitImport(t, ns, "web", "north")
}

// R1: one-sided membership is shown in both clusters.
func TestOneSidedMembershipIsShownInBothClusters(t *testing.T) {
	if err := west().Leave(t.Context(), "north"); err != nil {
		t.Fatal(err)
	}
	north().AwaitMember(t, "west", hasCondition("Mutual", "False", "NotListed", `"north"`, "create a Secret"))
	west().AwaitMember(t, "west", hasCondition("Mutual", "False", "UnlistedReader", "north"))
	// R2: a missing member is shown where the other members list it.
	west().AwaitMember(t, "east", hasCondition("Mutual", "False", "ListsOthers", "north"))
	expect.Must(west().Join(t.Context(), north(), nil))(t)
	north().AwaitMember(t, "west", hasCondition("Mutual", "True", "Mutual"))
	west().AwaitMember(t, "west", hasCondition("Mutual", "True", "Mutual"))
	west().AwaitMember(t, "east", hasCondition("Mutual", "True", "Mutual"))
}

// R99, R101: a cluster whose ID is taken cannot join. If the conflict could not be
// detected at that time, the two clusters are refused on both sides, and the older
// claim stays a member for the others.
func TestTwoClustersWithOneIDAreRefused(t *testing.T) {
	ns := fleet.CreateNamespace(t, "twins", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	t.Cleanup(func() {
		for _, link := range north().Links {
			expect.Must(0, link.Restore())(t)
		}
		expect.Must(0, north().Claim(context.Background(), "north", "everywhere"))(t)
	})
	expect.Must(0, north().Unclaim(t.Context()))(t)
	expect.Must(0, north().SetClaim(t.Context(), multicluster.ClusterIDClaim, "east", nil))(t)
	refused := func(annotations map[string]string, parts ...string) {
		t.Helper()
		err := north().SetClaim(t.Context(), multicluster.ClusterSetClaim, "everywhere", annotations)
		if !apierrors.IsForbidden(err) {
			t.Fatalf("joining with an ID that is taken: got %v", err)
		}
		expect.Contains(t, err.Error(), parts...)
	}
	force := map[string]string{multicluster.IgnoreUnreachableMembersAnnotation: "true"}
	refused(nil, `cluster ID "east" is already used in ClusterSet "everywhere"`, "kubectl patch clusterclaim id.k8s.io")
	// One reachable member detects the conflict, and then --force has no effect.
	north().Links["east"].Cut()
	refused(force, `cluster ID "east" is already used in ClusterSet "everywhere" by a member of "west"`)
	north().Links["west"].Cut()
	refused(nil, `"east" (Secret member-east): member is unreachable`, `"west" (Secret member-west): member is unreachable`, multicluster.IgnoreUnreachableMembersAnnotation+"=true")
	expect.Must(0, north().SetClaim(t.Context(), multicluster.ClusterSetClaim, "everywhere", force))(t)
	for _, link := range north().Links {
		expect.Must(0, link.Restore())(t)
	}

	export(t, north(), ns, "forged")
	data := secretData(t, west(), "north")
	data[clusterset.MemberSecretClusterID] = []byte("east")
	secret(t, west(), "twin", data)
	west().AwaitMember(t, "secret.twin", hasCondition("Accepted", "False", "DuplicateClusterID", `"member-east"`, `"twin"`, "another ID"))
	north().AwaitMember(t, "secret.member-east", hasCondition("Accepted", "False", "DuplicateClusterID", "is claimed by this cluster and by the cluster of Secret", "give this cluster another ID"))
	west().AwaitImport(t, ns, "web", "east")
	west().AwaitNoImport(t, ns, "forged")
	north().AwaitNoImport(t, ns, "web")
	unexport(t, north(), ns, "forged")
	expect.Must(0, north().Claim(t.Context(), "north", "everywhere"))(t)
	north().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberConnected))
	west().AwaitMember(t, "north", hasState(clustersetv1alpha1.MemberConnected))
}

// An unreachable member becomes stale, then lost; its exports stay imported, even
// if the server restarts during the partition.
func TestRestartDuringAPartitionLosesNoImport(t *testing.T) {
	ns := fleet.CreateNamespace(t, "apart", clusters.Clusters...)
	for _, name := range []string{"web", "db"} {
		export(t, east(), ns, name)
		west().AwaitImport(t, ns, name, "east")
	}
	before := west().AwaitImport(t, ns, "web", "east")
	west().AwaitRecorded(t)
	link := west().Links["east"]
	t.Cleanup(func() { expect.Must(0, link.Restore())(t) })
	link.Cut()
	west().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberStale))
	stale := awaitCondition(t, west(), ns, "web", "MembersReachable", metav1.ConditionFalse, "MembersStale")
	expect.Contains(t, stale.Message, "east", "last seen 20")

	replica := west().APIServers[0]
	replica.Kill()
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	gap := watchForGap(t, west(), ns, "web")
	if err := west().AwaitAvailable(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := west().AwaitImport(t, ns, "web", "east")
	if after.UID != before.UID || !after.CreationTimestamp.Equal(&before.CreationTimestamp) {
		t.Errorf("import was replaced by the restart: UIDs %s and %s", before.UID, after.UID)
	}
	west().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberLost))
	awaitCondition(t, west(), ns, "web", "MembersReachable", metav1.ConditionFalse, "MembersLost")
	west().AwaitImport(t, ns, "db", "east")
	if err := link.Restore(); err != nil {
		t.Fatal(err)
	}
	west().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberConnected))
	expect.Eventually(t, "end of the condition", func(ctx context.Context) error {
		found, err := west().Import(ctx, ns, "web")
		if err == nil && meta.FindStatusCondition(found.Status.Conditions, "MembersReachable") != nil {
			err = fmt.Errorf("%+v", found.Status.Conditions)
		}
		return err
	})
	gap()
	// An export that was withdrawn during the partition is withdrawn here too.
	unexport(t, east(), ns, "db")
	west().AwaitNoImport(t, ns, "db")
}

// watchForGap polls an import continuously. The returned function fails the test
// if the import was ever missing.
func watchForGap(t *testing.T, in *fleet.Cluster, ns, name string) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if list, err := in.Clientset.MulticlusterXV1beta1().ServiceImports(ns).List(ctx, metav1.ListOptions{}); err == nil {
				found := false
				for _, item := range list.Items {
					found = found || item.Name == name
				}
				if !found {
					result <- fmt.Errorf("at %s import %s was missing", time.Now().Format(time.TimeOnly), name)
					return
				}
			}
		}
		result <- nil
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

func awaitCondition(t *testing.T, in *fleet.Cluster, ns, name, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	expect.Eventually(t, conditionType+" of "+name, func(ctx context.Context) error {
		serviceImport, err := in.Import(ctx, ns, name)
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(serviceImport.Status.Conditions, conditionType)
		if condition == nil || condition.Status != status || condition.Reason != reason {
			return fmt.Errorf("%+v", serviceImport.Status.Conditions)
		}
		found = *condition
		return nil
	})
	return found
}

// A hanging feed is detected and does not delay other members.
func TestHangingMemberDoesNotDelayOthers(t *testing.T) {
	ns := fleet.CreateNamespace(t, "hanging", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	t.Cleanup(func() { expect.Must(0, west().Links["east"].Restore())(t) })
	if err := west().Links["east"].Hang(); err != nil {
		t.Fatal(err)
	}
	west().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberStale))
	west().AwaitMember(t, "east", hasCondition("Reachable", "False", "Unreachable"))
	export(t, north(), ns, "other")
	west().AwaitImport(t, ns, "other", "north")
	west().AwaitImport(t, ns, "web", "east")
	if err := west().Links["east"].Restore(); err != nil {
		t.Fatal(err)
	}
	west().AwaitMember(t, "east", hasState(clustersetv1alpha1.MemberConnected))
	export(t, east(), ns, "after")
	west().AwaitImport(t, ns, "after", "east")
}

// A new credential replaces the old one without a gap, and a revoked credential
// is reported.
func TestCredentialsAreReplacedWithoutAGap(t *testing.T) {
	ns := fleet.CreateNamespace(t, "rotating", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	gap := watchForGap(t, west(), ns, "web")
	expect.Must(west().Join(t.Context(), east(), nil))(t)
	export(t, east(), ns, "more")
	west().AwaitImport(t, ns, "more", "east")
	expect.Must(west().Join(t.Context(), east(), map[string][]byte{
		clusterset.MemberSecretKubeconfig: expect.Must(west().KubeconfigFor(east(), "revoked"))(t),
	}))(t)
	west().AwaitMember(t, "east", hasCondition("Reachable", "False", "Unauthorized"))
	expect.Must(west().Join(t.Context(), east(), nil))(t)
	west().AwaitMember(t, "east", hasCondition("Reachable", "True", "Reachable"))
	gap()
}
