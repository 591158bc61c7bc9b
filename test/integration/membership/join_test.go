// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// R1, R2, R3: three clusters join with one command and list each other; the same
// name is one service. Repeating the command changes nothing.
func TestThreeClustersJoinWithOneCommand(t *testing.T) {
	ns := clusters.CreateNamespace(t, "joined")
	args := []string{"mcs", "join", "--clusterset", clusterSet, "east", "west", "north", "--id", "east=east", "--id", "west=west", "--id", "north=north"}
	parts := map[string]string{}
	for _, cluster := range clusters.Clusters {
		parts[cluster.ID] = claimed(t, cluster, multicluster.ClusterSetIPCIDRClaim)
	}
	planned := kubectl(t, append(args, "--dry-run")...)
	expect.Contains(t, planned, "Plan:", "east: grant read access to west, north", "west: add members east, north", `north: join ClusterSet "everywhere"`)
	for _, cluster := range clusters.Clusters {
		if made := traces(t, cluster); len(made) > 0 {
			t.Errorf("--dry-run created %v in %s", made, cluster.ID)
		}
		if part := claimed(t, cluster, multicluster.ClusterSetIPCIDRClaim); part != parts[cluster.ID] {
			t.Errorf("--dry-run set in %s the allocation CIDR %s", cluster.ID, part)
		}
	}
	join(t, "east", "west", "north")
	for _, cluster := range clusters.Clusters {
		members, err := cluster.Clientset.ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		if len(members.Items) != 3 {
			t.Errorf("%s has %d members", cluster.ID, len(members.Items))
		}
		for _, member := range members.Items {
			if member.Status.State != clustersetv1alpha1.MemberConnected && member.Status.State != clustersetv1alpha1.MemberLocal {
				t.Errorf("in %s, %s is %s", cluster.ID, member.Name, member.Status.State)
			}
		}
	}
	export(t, east(), ns, "web")
	export(t, west(), ns, "web")
	north().AwaitImport(t, ns, "web", "east", "west")

	var versions []string
	count := func() {
		for _, cluster := range clusters.Clusters {
			secrets, err := cluster.Kubernetes.CoreV1().Secrets("mcs-system").List(t.Context(), metav1.ListOptions{})
			expect.NoError(t, err)
			for _, secret := range secrets.Items {
				versions = append(versions, secret.Name+secret.ResourceVersion)
			}
		}
	}
	awaitLongTokens(t)
	count()
	before := versions
	versions = nil
	expect.Contains(t, kubectl(t, args...), `All clusters are already members of ClusterSet "everywhere".`)
	if count(); fmt.Sprint(versions) != fmt.Sprint(before) {
		t.Error("joining again changed objects")
	}
}

// tokenLife returns the lifetime of the renewed token with which one cluster reads from another.
func tokenLife(ctx context.Context, in *fleet.Cluster, peer string) (time.Duration, string, error) {
	secrets := in.Kubernetes.CoreV1().Secrets("mcs-system")
	declared, err := secrets.Get(ctx, "member-"+peer, metav1.GetOptions{})
	if err != nil {
		return 0, "", err
	}
	renewed, err := secrets.Get(ctx, "member-"+peer+".renewed", metav1.GetOptions{})
	if err != nil {
		return 0, "", err
	}
	token := string(renewed.Data[secret.Parse(declared).Credential])
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return 0, "", err
	}
	return claims.ExpiresAt.Sub(claims.IssuedAt.Time), token, nil
}

// awaitLongTokens waits until mcs-controller has replaced all tokens that joining
// created.
func awaitLongTokens(t *testing.T) {
	t.Helper()
	for _, cluster := range clusters.Clusters {
		secrets, err := cluster.Kubernetes.CoreV1().Secrets("mcs-system").List(t.Context(), metav1.ListOptions{FieldSelector: "type=clusterset.mcs-apiserver.io/member"})
		expect.NoError(t, err)
		for _, secret := range secrets.Items {
			peer := strings.TrimPrefix(secret.Name, "member-")
			expect.Eventually(t, "token of "+cluster.ID+" for "+peer, func(ctx context.Context) error {
				life, _, err := tokenLife(ctx, cluster, peer)
				if err == nil && life < 30*24*time.Hour {
					err = fmt.Errorf("token lifetime is %s", life)
				}
				return err
			})
		}
	}
}

// R99: if a step fails, all steps are undone: no cluster stays half joined.
func TestFailedJoinIsUndone(t *testing.T) {
	t.Cleanup(func() {
		_, _ = west().Kubectl(context.Background(), "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "test-no-claims")
	})
	_, err := west().Kubectl(t.Context(), "apply", "-f", expect.Manifest(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: test-no-claims}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [multicluster.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [clusterclaims]}]}
  validations: [{expression: "object.metadata.name != 'clusterset.k8s.io'", message: "joining is disabled"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: test-no-claims}
spec: {policyName: test-no-claims, validationActions: [Deny]}
`))
	expect.NoError(t, err)
	inForce := func(want bool) {
		t.Helper()
		expect.Eventually(t, fmt.Sprintf("policy enforced: %t", want), func(ctx context.Context) error {
			if output, _ := west().Kubectl(ctx, "create", "--dry-run=server", "-f", manifest(t, setName, "x")); strings.Contains(output, "joining is disabled") != want {
				return errors.New(output)
			}
			return nil
		})
	}
	inForce(true)
	withoutIPs(t, east())
	withoutIPs(t, west())
	eastID, westID := claimed(t, east(), id), claimed(t, west(), id)
	output, err := run(t, "mcs", "join", "--clusterset", clusterSet, "east", "west", "--id", "east=sunrise", "--id", "west=sunset")
	if err == nil {
		t.Fatalf("join succeeded:\n%s", output)
	}
	expect.Contains(t, output, "✓ east: join ClusterSet", "✗ west: join ClusterSet", "roll back east: join ClusterSet", "roll back east: assign allocation CIDR 243.", "roll back west: assign allocation CIDR 243.", "joining is disabled", "all completed steps were rolled back")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		if left := traces(t, cluster); len(left) > 0 {
			t.Errorf("%s is half joined: %v", cluster.ID, left)
		}
		if part := claimed(t, cluster, multicluster.ClusterSetIPCIDRClaim); part != "" {
			t.Errorf("%s is half joined: allocation CIDR is %s", cluster.ID, part)
		}
	}
	if claimed(t, east(), id) != eastID || claimed(t, west(), id) != westID {
		t.Errorf("IDs are %q and %q, were %q and %q", claimed(t, east(), id), claimed(t, west(), id), eastID, westID)
	}
	_, err = west().Kubectl(t.Context(), "delete", "validatingadmissionpolicybinding", "test-no-claims")
	expect.NoError(t, err)
	inForce(false)
}

// withoutIPs removes the allocation CIDR of a cluster, which it keeps when it
// leaves, so that joining assigns a new one.
func withoutIPs(t *testing.T, in *fleet.Cluster) {
	t.Helper()
	err := in.Clientset.MulticlusterV1().ClusterClaims().Delete(t.Context(), multicluster.ClusterSetIPCIDRClaim, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		expect.NoError(t, err)
	}
	expect.Eventually(t, in.ID+" without an allocation CIDR", func(ctx context.Context) error {
		members, err := in.Clientset.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, member := range members.Items {
			if status := member.Status; status.State == clustersetv1alpha1.MemberLocal && len(status.ClusterSetIPRanges) > 0 && len(status.ClusterSetIPCIDRs) == 0 {
				return nil
			}
		}
		return fmt.Errorf("members are %+v", members.Items)
	})
}

// Tokens that joining created are replaced at once, tokens are renewed without a
// gap, and a revoked token is reported within seconds.
func TestCredentialsAreRenewedAndRevoked(t *testing.T) {
	ns := clusters.CreateNamespace(t, "renewed")
	join(t, "east", "west")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	awaitLongTokens(t)
	_, before, err := tokenLife(t.Context(), west(), "east")
	expect.NoError(t, err)

	// A short-lived token, as joining creates it, is replaced while the feed continues.
	log := follows(t, west(), "east")
	token, err := run(t, "--context", "east", "create", "token", "peer-west", "-n", "mcs-system", "--duration=30m")
	expect.NoError(t, err)
	replaceToken(t, west(), "east", strings.TrimSpace(token))
	expect.Eventually(t, "another token", func(ctx context.Context) error {
		life, after, err := tokenLife(ctx, west(), "east")
		if err == nil && (after == before || life < 24*time.Hour) {
			err = fmt.Errorf("token lifetime is %s", life)
		}
		return err
	})
	export(t, east(), ns, "more")
	west().AwaitImport(t, ns, "more", "east")
	if states := log(); len(states) > 0 {
		t.Errorf("states of the member during renewal: %v", states)
	}

	taken := time.Now()
	expect.NoError(t, east().Kubernetes.CoreV1().ServiceAccounts("mcs-system").Delete(t.Context(), "peer-west", metav1.DeleteOptions{}))
	expect.Eventually(t, "report of the revoked credential", func(ctx context.Context) error {
		output, err := run(t, "mcs", "status", "west")
		if err == nil && !strings.Contains(output, "Unauthorized") {
			err = errors.New(output)
		}
		return err
	})
	shown := time.Since(taken).Round(100 * time.Millisecond)
	t.Logf("revoked credential was reported after %s", shown)
	if shown > 30*time.Second { // the kube-apiserver caches tokens for 10 s
		t.Errorf("revoked credential was reported after %s, want at most 30s", shown)
	}
	// Joining again repairs the membership.
	kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west")
	west().AwaitImport(t, ns, "web", "east")
}

func replaceToken(t *testing.T, in *fleet.Cluster, peer, token string) {
	t.Helper()
	secrets := in.Kubernetes.CoreV1().Secrets("mcs-system")
	secret, err := secrets.Get(t.Context(), "member-"+peer, metav1.GetOptions{})
	expect.NoError(t, err)
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	expect.NoError(t, err)
	config.AuthInfos["peer"].Token = token
	secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	expect.NoError(t, err)
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	expect.NoError(t, err)
}

// follows watches a member. The returned function stops the watch and returns all
// observed states but Connected, and all times at which the member was not synced.
func follows(t *testing.T, in *fleet.Cluster, member string) func() []string {
	t.Helper()
	watcher, err := in.Clientset.ClusterSetV1alpha1().Members().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + member})
	expect.NoError(t, err)
	done := make(chan []string)
	go func() {
		var seen []string
		for event := range watcher.ResultChan() {
			if entry, ok := event.Object.(*clustersetv1alpha1.Member); ok && (entry.Status.State != clustersetv1alpha1.MemberConnected || !entry.Status.Synced) {
				seen = append(seen, fmt.Sprintf("%s %s synced=%t", event.Type, entry.Status.State, entry.Status.Synced))
			}
		}
		done <- seen
	}()
	return func() []string {
		watcher.Stop()
		return <-done
	}
}

// The other subcommands on real servers.
func TestPluginExportsAndExplains(t *testing.T) {
	ns := clusters.CreateNamespace(t, "plugged")
	join(t, "east", "west")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		_, err := cluster.Service(t.Context(), ns, "web")
		expect.NoError(t, err)
		_, err = cluster.EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1", "10.9.0.2"})
		expect.NoError(t, err)
	}
	refused(t, []string{"nothing", ns}, "mcs", "export", "nothing", "-n", ns, "--context", "east")
	expect.Contains(t, kubectl(t, "mcs", "export", "web", "-n", ns, "--context", "east", "--wait"), "exported", "ready")
	expect.Contains(t, kubectl(t, "mcs", "export", "web", "-n", ns, "--context", "east"), "already exported")
	kubectl(t, "mcs", "export", "web", "-n", ns, "--context", "west", "--wait", "-o", "yaml")
	west().AwaitImport(t, ns, "web", "east", "west")
	explained := kubectl(t, "mcs", "explain", "web", "-n", ns, "--context", "west")
	expect.Contains(t, explained, "web."+ns+".svc.clusterset.local", "east", "west", "http:80/TCP", "2/2", "all agree")
	var data map[string]any
	expect.NoError(t, json.Unmarshal([]byte(kubectl(t, "mcs", "explain", "web", "-n", ns, "--context", "west", "-o", "json")), &data))
	if len(data) == 0 {
		t.Error("explain -o json printed nothing")
	}
	status := kubectl(t, "mcs", "status", "east", "west")
	expect.Contains(t, status, "Context east: cluster east in ClusterSet everywhere", "Context west: cluster west in ClusterSet everywhere", "Connected", "Local")
	// R346
	version := strings.TrimSpace(strings.TrimPrefix(kubectl(t, "mcs", "version", "--client"), "Client:"))
	expect.Contains(t, kubectl(t, "mcs", "version", "east"), "Context east: mcs-apiserver "+version, "west     Connected   "+version)
	expect.Contains(t, kubectl(t, "mcs", "unexport", "web", "-n", ns, "--context", "east"), "still exported by west")
	west().AwaitImport(t, ns, "web", "west")
	expect.Contains(t, kubectl(t, "mcs", "unexport", "web", "-n", ns, "--context", "west"), "is withdrawn from all clusters")
	west().AwaitNoImport(t, ns, "web")
}

// kubectl completes arguments of the plugin.
func TestPluginCompletes(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"__complete", "mcs", ""}, []string{"join", "leave", "expel", "status", "export", "unexport", "explain"}},
		{[]string{"__complete", "mcs", "join", "--clusterset", "x", "east", ""}, []string{"west", "north"}},
		{[]string{"__complete", "mcs", "status", ""}, []string{"east", "west", "north"}},
		{[]string{"__complete", "mcs", "export", "-n", "default", ""}, []string{"kubernetes"}},
		{[]string{"__complete", "mcs", "status", "-o", ""}, []string{"json", "yaml"}},
	} {
		expect.Contains(t, kubectl(t, test.args...), test.want...)
	}
}

// get reads a URL that does not return an API object.
func get(ctx context.Context, config *rest.Config, path string) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	body, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	return string(body), err
}

// R116: metrics, logs and Events name the cluster.
func TestMetricsLogsAndEventsNameTheCluster(t *testing.T) {
	ns := clusters.CreateNamespace(t, "named")
	join(t, "east", "west")
	export(t, east(), ns, "web")
	expect.Eventually(t, "Event with the cluster ID", func(ctx context.Context) error {
		events, err := east().Kubernetes.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "web" && strings.Contains(event.Note, "(cluster east)") {
				return nil
			}
		}
		return fmt.Errorf("%d Events, none with the cluster ID", len(events.Items))
	})
	config, err := east().APIServers[0].Config()
	expect.NoError(t, err)
	metrics, err := get(t.Context(), config, "/metrics")
	expect.NoError(t, err)
	expect.Contains(t, metrics, `mcs_apiserver_cluster_info{cluster="east",clusterset="everywhere"} 1`)
	logged, err := os.ReadFile(east().Dir + "/mcs-apiserver.log")
	expect.NoError(t, err)
	expect.Contains(t, string(logged), `"Cluster identity changed" logger="projection" cluster="east" clusterSet="everywhere"`, `cluster="west"`)
}
