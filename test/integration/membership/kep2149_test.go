// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// The requirements ("must", "must not") of KEP-2149 for the well-known claims, in
// the order of the KEP. Each test is named after one.

const (
	id      = "id.k8s.io"
	setName = "clusterset.k8s.io"
)

// attempt is a way to change or remove a claim with kubectl.
type attempt struct {
	name string
	args func(t *testing.T, claim, value string) []string
}

// attempts are all verbs that write claims.
var attempts = []attempt{
	{"merge patch", func(_ *testing.T, claim, value string) []string {
		return []string{"patch", "clusterclaim", claim, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"value":%q}}`, value)}
	}},
	{"json patch", func(_ *testing.T, claim, value string) []string {
		return []string{"patch", "clusterclaim", claim, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/value","value":%q}]`, value)}
	}},
	{"server-side apply", func(t *testing.T, claim, value string) []string {
		return []string{"apply", "--server-side", "--force-conflicts", "-f", manifest(t, claim, value)}
	}},
	{"client-side apply", func(t *testing.T, claim, value string) []string {
		return []string{"apply", "-f", manifest(t, claim, value)}
	}},
	{"replace", func(t *testing.T, claim, value string) []string {
		return []string{"replace", "-f", manifest(t, claim, value)}
	}},
	{"replace by delete and create", func(t *testing.T, claim, value string) []string {
		return []string{"replace", "--force", "-f", manifest(t, claim, value)}
	}},
}

// removals are all verbs that delete claims.
var removals = []attempt{
	{"delete", func(_ *testing.T, claim, _ string) []string { return []string{"delete", "clusterclaim", claim} }},
	{"delete immediately", func(_ *testing.T, claim, _ string) []string {
		return []string{"delete", "clusterclaim", claim, "--grace-period=0", "--force"}
	}},
	{"delete by a selector", func(_ *testing.T, claim, _ string) []string {
		return []string{"delete", "clusterclaims", "--field-selector=metadata.name=" + claim}
	}},
	{"delete collection", func(_ *testing.T, claim, _ string) []string {
		return []string{"delete", "--raw", "/apis/multicluster.k8s.io/v1/clusterclaims?fieldSelector=metadata.name%3D" + claim}
	}},
}

func in(context string, args []string) []string {
	return append([]string{"--context", context}, args...)
}

// "The identifier must be unique within the ClusterSet to which its cluster
// belongs for the duration of the cluster's membership." R99, R102
func TestIDMustBeUniqueWithinTheClusterSetForTheDurationOfMembership(t *testing.T) {
	join(t, "east", "west")
	expect.NoError(t, north().SetClaim(t.Context(), id, "east", nil))
	t.Cleanup(func() { expect.NoError(t, north().SetClaim(context.Background(), id, "north", nil)) })
	before := traces(t, north())

	t.Run("joining with kubectl mcs", func(t *testing.T) {
		refused(t, []string{`both clusters have the ID "east"`, "--id north=NEW_ID", "nothing was changed"},
			"mcs", "join", "--clusterset", clusterSet, "east", "west", "north")
		refused(t, []string{`cluster ID "east" is in use`, `by a member of context "west"`, "--id north=NEW_ID", "nothing was changed"},
			"mcs", "join", "--clusterset", clusterSet, "west", "north")
		if after := traces(t, north()); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("cluster is half joined: %v", after)
		}
	})
	t.Run("joining by hand", func(t *testing.T) {
		_, err := north().Join(t.Context(), west(), nil)
		expect.NoError(t, err)
		t.Cleanup(func() { expect.NoError(t, north().Leave(context.Background(), "west")) })
		for _, way := range [][]string{{"create", "-f"}, {"apply", "-f"}, {"apply", "--server-side", "-f"}, {"create", "--dry-run=server", "-f"}} {
			refused(t, []string{`cluster ID "east" is already used in ClusterSet "everywhere" by a member of "west"`, "kubectl patch clusterclaim id.k8s.io"},
				in("north", append(way, manifest(t, setName, clusterSet)))...)
		}
		if value := claimed(t, north(), setName); value != "" {
			t.Errorf("cluster joined %q", value)
		}
	})
	t.Run("two ClusterSets may each have one", func(t *testing.T) {
		_, err := north().Join(t.Context(), west(), nil)
		expect.NoError(t, err)
		t.Cleanup(func() { expect.NoError(t, north().Leave(context.Background(), "west")) })
		kubectl(t, in("north", []string{"create", "-f", manifest(t, setName, "elsewhere")})...)
		kubectl(t, in("north", []string{"delete", "clusterclaim", setName})...)
	})
	// Only the object that was created by hand remains: an account in west.
	expect.NoError(t, west().Kubernetes.CoreV1().ServiceAccounts("mcs-system").Delete(t.Context(), "peer-north", metav1.DeleteOptions{}))
	expect.NoError(t, west().Kubernetes.RbacV1().ClusterRoleBindings().Delete(t.Context(), "mcs-apiserver:peer:north", metav1.DeleteOptions{}))
}

// "The identifier must exist and be immutable for the duration of a cluster's
// membership in a ClusterSet, and as long as a clusterset.k8s.io claim referring to
// that cluster in that ClusterSet exists." R104
func TestIDMustExistAndBeImmutableAsLongAsAClusterSetClaimExists(t *testing.T) {
	join(t, "east", "west")
	for _, try := range append(attempts, removals...) {
		t.Run(try.name, func(t *testing.T) {
			refused(t, []string{`"id.k8s.io" is forbidden`}, in("east", try.args(t, id, "other"))...)
			if value := claimed(t, east(), id); value != "east" {
				t.Errorf("ID is %q", value)
			}
		})
	}
	t.Run("metadata may change", func(t *testing.T) {
		kubectl(t, "--context", "east", "label", "clusterclaim", id, "color=blue")
		kubectl(t, "--context", "east", "label", "clusterclaim", id, "color-")
		kubectl(t, in("east", []string{"apply", "-f", manifest(t, id, "east")})...)
	})
}

// "The identifier must exist for the lifespan of a cluster." R103, R105
func TestIDMustExistForTheLifespanOfACluster(t *testing.T) {
	t.Run("by default", func(t *testing.T) {
		system, err := west().Kubernetes.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		expect.NoError(t, err)
		expect.NoError(t, west().Forget(t.Context(), "multicluster.k8s.io/clusterclaims/id.k8s.io"))
		expect.Eventually(t, "default ID", func(context.Context) error {
			if value := claimed(t, west(), id); value != string(system.UID) {
				return fmt.Errorf("ID is %q, want the UID of kube-system, %q", value, system.UID)
			}
			return nil
		})
	})
	t.Run("with --cluster-id", func(t *testing.T) {
		expect.NoError(t, north().Forget(t.Context(), "multicluster.k8s.io/clusterclaims/id.k8s.io"))
		expect.Eventually(t, "ID of --cluster-id", func(context.Context) error {
			if value := claimed(t, north(), id); value != "pole" {
				return fmt.Errorf("ID is %q, want that of --cluster-id", value)
			}
			return nil
		})
	})
	for _, try := range removals {
		t.Run(try.name, func(t *testing.T) {
			before := claimed(t, east(), id)
			refused(t, []string{`"id.k8s.io" is forbidden: the cluster ID cannot be deleted`, "change the value of the claim"}, in("east", try.args(t, id, ""))...)
			if value := claimed(t, east(), id); value != before {
				t.Errorf("ID was %q, is %q", before, value)
			}
		})
	}
	// R106
	t.Run("changes with a warning", func(t *testing.T) {
		before := claimed(t, east(), id)
		output := kubectl(t, in("east", []string{"patch", "clusterclaim", id, "--type=merge", "-p", `{"spec":{"value":"renamed"}}`})...)
		expect.Contains(t, output, fmt.Sprintf("Warning: logs, metrics and DNS names with the former cluster ID %q", before), "should stay the same")
		kubectl(t, in("east", []string{"patch", "clusterclaim", id, "--type=merge", "-p", `{"spec":{"value":"east"}}`})...)
	})
}

// "The identifier must be a valid RFC-1123 DNS label." R98, R5, R4
func TestIDMustBeAValidRFC1123DNSLabel(t *testing.T) {
	for _, value := range []string{"cluster-1", "721ab723-13bc-11e5-aec2-42010af0021e", "0", strings.Repeat("x", 63)} {
		kubectl(t, in("east", []string{"apply", "-f", manifest(t, id, value)})...)
	}
	kubectl(t, in("east", []string{"apply", "-f", manifest(t, id, "east")})...)
	for _, value := range []string{"", "East", "east_1", "-east", "east-", "east.example", strings.Repeat("x", 64), "öst", "east "} {
		refused(t, []string{"spec.value", "a cluster ID must be a single DNS label without dots"}, in("east", []string{"apply", "-f", manifest(t, id, value)})...)
	}
}

// "Consumers must be able to rely on the identifier existing, unmodified for the
// entire duration of its membership in a ClusterSet." R104
func TestConsumersMustBeAbleToRelyOnTheIDForTheEntireDurationOfMembership(t *testing.T) {
	join(t, "east", "west")
	seen := follow(t, east(), id)
	for _, try := range append(attempts, removals...) {
		refused(t, nil, in("east", try.args(t, id, "other"))...)
	}
	expect.NoError(t, restart(t, east()))
	if changes := seen(); len(changes) > 0 {
		t.Errorf("a consumer observed %v", changes)
	}
	if got := claimed(t, east(), id); got != "east" {
		t.Errorf("ID after a restart is %q", got)
	}
}

// follow watches a claim. The returned function stops the watch and returns all
// observed changes of the value.
func follow(t *testing.T, in *fleet.Cluster, name string) func() []string {
	t.Helper()
	value := claimed(t, in, name)
	watcher, err := in.Clientset.MulticlusterV1().ClusterClaims().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	expect.NoError(t, err)
	var changes []string
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range watcher.ResultChan() {
			if claim, ok := event.Object.(*multiclusterv1.ClusterClaim); ok && (event.Type == watch.Deleted || claim.Spec.Value != value) {
				changes = append(changes, fmt.Sprintf("%s %q", event.Type, claim.Spec.Value))
			}
		}
	})
	return func() []string {
		watcher.Stop()
		watching.Wait()
		return changes
	}
}

// restart restarts mcs-apiserver and mcs-controller.
func restart(t *testing.T, in *fleet.Cluster) error {
	t.Helper()
	expect.NoError(t, in.Stop())
	expect.NoError(t, in.StartController(t.Context()))
	expect.NoError(t, in.StartAPIServers())
	return in.AwaitAvailable(t.Context())
}

// "Since an id.k8s.io ClusterClaim must be immutable for the duration of its
// membership in a given ClusterSet, the claim contents can be changed by
// unregistering the cluster from the ClusterSet and reregistering it with the new
// name." R6, R107
func TestRenamingMustBeLeavingAndJoiningAgain(t *testing.T) {
	ns := clusters.CreateNamespace(t, "renaming")
	join(t, "east", "west")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	refused(t, []string{`cluster ID cannot change from "east" to "dawn"`, "kubectl mcs leave east"}, "mcs", "join", "--clusterset", clusterSet, "east", "west", "--id", "east=dawn")
	kubectl(t, "mcs", "leave", "east", "--from", "west")
	west().AwaitNoImport(t, ns, "web")
	kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west", "--id", "east=dawn")
	west().AwaitImport(t, ns, "web", "dawn")
	expect.Eventually(t, "slices under the new ID only", func(ctx context.Context) error {
		slices, err := west().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "multicluster.kubernetes.io/service-name=web"})
		if err != nil {
			return err
		}
		sources := map[string]int{}
		for _, slice := range slices.Items {
			sources[slice.Labels["multicluster.kubernetes.io/source-cluster"]]++
		}
		if len(sources) != 1 || sources["dawn"] == 0 {
			return fmt.Errorf("slices by source: %v", sources)
		}
		return nil
	})
	// R102: another cluster can take the released ID and inherits nothing.
	kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west", "north", "--id", "north=east")
	west().AwaitImport(t, ns, "web", "dawn")
	kubectl(t, "mcs", "leave", "north", "--from", "east,west")
	kubectl(t, in("north", []string{"apply", "-f", manifest(t, id, "north")})...)
}

// "The identifier must exist and be immutable for the duration of a cluster's
// membership in a ClusterSet." R108
func TestClusterSetMustExistAndBeImmutableForTheDurationOfMembership(t *testing.T) {
	join(t, "east", "west")
	for _, try := range attempts {
		if try.name == "replace by delete and create" {
			continue // leaving and joining another ClusterSet is allowed
		}
		t.Run(try.name, func(t *testing.T) {
			refused(t, []string{`"clusterset.k8s.io" is forbidden: a cluster cannot move from ClusterSet "everywhere" to "elsewhere" in one step`, "delete this claim to leave"},
				in("east", try.args(t, setName, "elsewhere"))...)
			if value := claimed(t, east(), setName); value != clusterSet {
				t.Errorf("ClusterSet is %q", value)
			}
		})
	}
	refused(t, []string{`is in ClusterSet "everywhere"`, "kubectl mcs leave"}, "mcs", "join", "--clusterset", "elsewhere", "east", "west")
}

// "The identifier must not exist when the cluster is not a member of a
// ClusterSet." R109, R100
func TestClusterSetMustNotExistWhenTheClusterIsNotAMember(t *testing.T) {
	t.Run("a refused join leaves no claim behind", func(t *testing.T) {
		expect.NoError(t, east().StopController())
		t.Cleanup(func() { expect.NoError(t, east().StartController(context.Background())) })
		expect.NoError(t, east().Forget(t.Context(), "multicluster.k8s.io/clusterclaims/id.k8s.io"))
		refused(t, []string{"this cluster has no ID", "create the ClusterClaim id.k8s.io first"}, in("east", []string{"create", "-f", manifest(t, setName, clusterSet)})...)
		if value := claimed(t, east(), setName); value != "" {
			t.Errorf("ClusterSet is %q", value)
		}
		kubectl(t, in("east", []string{"create", "-f", manifest(t, id, "east")})...)
	})
	for _, try := range removals {
		t.Run("removing it by "+try.name+" is leaving", func(t *testing.T) {
			ns := clusters.CreateNamespace(t, "left-by-"+strings.ReplaceAll(try.name, " ", "-"))
			join(t, "east", "west")
			export(t, east(), ns, "web")
			east().AwaitImport(t, ns, "web", "east")
			west().AwaitImport(t, ns, "web", "east")
			kubectl(t, in("east", try.args(t, setName, ""))...)
			east().AwaitNoImport(t, ns, "web")
			west().AwaitNoImport(t, ns, "web")
		})
	}
}

// "The identifier must associate the cluster with a ClusterSet." R111, R112
func TestClusterSetMustAssociateTheClusterWithAClusterSet(t *testing.T) {
	ns := clusters.CreateNamespace(t, "associated")
	refused(t, []string{"spec.value", "must be the name of the ClusterSet to join"}, in("east", []string{"create", "-f", manifest(t, setName, "")})...)
	join(t, "east", "west")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		if value := claimed(t, cluster, setName); value != clusterSet {
			t.Errorf("ClusterSet of %s is %q", cluster.ID, value)
		}
	}
	kubectl(t, in("west", []string{"delete", "clusterclaim", setName})...)
	for _, value := range []string{"elsewhere", "Production, Europe (2)", strings.Repeat("x", 1000)} {
		kubectl(t, in("west", []string{"create", "-f", manifest(t, setName, value)})...)
		west().AwaitNoImport(t, ns, "web")
		kubectl(t, in("west", []string{"delete", "clusterclaim", setName})...)
	}
	kubectl(t, in("west", []string{"create", "-f", manifest(t, setName, clusterSet)})...)
	west().AwaitImport(t, ns, "web", "east")
}

// "Consumers must be able to rely on the identifier existing, unmodified for the
// entire duration of its membership in a ClusterSet." R113: mcs-apiserver and
// mcs-controller watch the claim and need no restart.
func TestConsumersMustBeAbleToRelyOnTheClusterSetForTheEntireDurationOfMembership(t *testing.T) {
	ns := clusters.CreateNamespace(t, "relied-on")
	before := []any{east().APIServers[0].Process, east().Controller, west().APIServers[0].Process, west().Controller}
	join(t, "east", "west")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	seen := follow(t, east(), setName)
	for _, try := range attempts {
		if try.name != "replace by delete and create" {
			refused(t, nil, in("east", try.args(t, setName, "elsewhere"))...)
		}
	}
	if changes := seen(); len(changes) > 0 {
		t.Errorf("a consumer observed %v", changes)
	}
	kubectl(t, "mcs", "leave", "east", "--from", "west")
	west().AwaitNoImport(t, ns, "web")
	if after := []any{east().APIServers[0].Process, east().Controller, west().APIServers[0].Process, west().Controller}; fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("a process was restarted")
	}
}
