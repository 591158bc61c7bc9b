// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// administrator runs kubectl as the administrator of one cluster, who cannot reach others. It
// returns the output without messages.
func administrator(t *testing.T, cluster string) func(args ...string) string {
	t.Helper()
	config := expect.Must(clientcmd.LoadFromFile(kubeconfig(t)))(t)
	config.CurrentContext = cluster
	expect.NoError(t, clientcmdapi.MinifyConfig(config))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clientcmd.WriteToFile(*config, file))
	return func(args ...string) string {
		t.Helper()
		command := clusters.KubectlCommand(t.Context(), file, args...)
		var messages strings.Builder
		command.Stderr = &messages
		output, err := command.Output()
		if err != nil {
			t.Fatalf("%s: kubectl %s: %v\n%s%s", cluster, strings.Join(args, " "), err, output, messages.String())
		}
		return string(output)
	}
}

var (
	token    = regexp.MustCompile(`token: \S+`)
	joinedAt = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
)

// membershipObjects returns everything that a cluster has for a peer, and its claims, without
// what differs whenever it is created.
func membershipObjects(t *testing.T, cluster, peer string) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for _, args := range [][]string{
		{"get", "secret,serviceaccount,role,rolebinding,clusterrolebinding", "-n", "mcs-system", "-l", clusterset.PeerLabel + "=" + peer, "-o", "json"},
		{"get", "clusterclaims", "-o", "json"},
	} {
		var list unstructured.UnstructuredList
		expect.NoError(t, json.Unmarshal([]byte(kubectl(t, append([]string{"--context", cluster}, args...)...)), &list))
		for i := range list.Items {
			object := &list.Items[i]
			if strings.HasSuffix(object.GetName(), ".renewed") {
				continue
			}
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
				unstructured.RemoveNestedField(object.Object, "metadata", field)
			}
			annotations := object.GetAnnotations()
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			if object.SetAnnotations(annotations); len(annotations) == 0 {
				unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
			}
			data, _, err := unstructured.NestedStringMap(object.Object, "data")
			expect.NoError(t, err)
			for key, value := range data {
				text := string(expect.Must(base64.StdEncoding.DecodeString(value))(t))
				text = joinedAt.ReplaceAllString(token.ReplaceAllString(text, "token: REDACTED"), "TIME")
				object.Object[key] = text
			}
			delete(object.Object, "data")
			objects[object.GetKind()+" "+object.GetName()] = object.Object
		}
	}
	return objects
}

// secretData returns the content of a Secret.
func secretData(t *testing.T, cluster, name string) map[string]string {
	t.Helper()
	secret := expect.Must(clusters.Cluster(cluster).Kubernetes.CoreV1().Secrets("mcs-system").Get(t.Context(), name, metav1.GetOptions{}))(t)
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data
}

// R416, R419, R425: two clusters join by invitations. Nobody reaches more than one of them, and the
// objects are those that join creates. Accepting an invitation is the same as applying it.
func TestClustersJoinByInvitation(t *testing.T) {
	ns := clusters.CreateNamespace(t, "invited")
	join(t, "east", "west")
	eastJoined, westJoined := membershipObjects(t, "east", "west"), membershipObjects(t, "west", "east")
	if len(eastJoined) != 8 || len(westJoined) != 8 { // 5 objects of the peer, 3 claims
		t.Fatalf("got %d and %d objects", len(eastJoined), len(westJoined))
	}
	leave(t, "east", "west")

	inEast, inWest, directory := administrator(t, "east"), administrator(t, "west"), t.TempDir()
	forWest, forEast := filepath.Join(directory, "for-west.yaml"), filepath.Join(directory, "west-invites-east.yaml")
	expect.NoError(t, os.WriteFile(forWest, []byte(inEast("mcs", "invite", "west", "--clusterset", clusterSet)), 0o600))
	accepted := inWest("mcs", "accept", "-f", forWest, "--yes")
	expect.Contains(t, accepted, "Invitation of cluster east:", "SHA256:", "✓ west: wait for connection to east", "Cluster west reads from cluster east. For the other direction, run `kubectl mcs invite east")
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")

	byAccept := membershipObjects(t, "west", "east")
	inWest("delete", "secret", "-n", "mcs-system", "member-east")
	inWest("delete", "clusterclaim", "clusterset.k8s.io")
	inWest("apply", "-f", forWest)
	if diff := cmp.Diff(byAccept, membershipObjects(t, "west", "east")); diff != "" {
		t.Errorf("unexpected objects (-accept +apply):\n%s", diff)
	}
	west().AwaitImport(t, ns, "web", "east")

	expect.Contains(t, inWest("mcs", "invite", "east", "--output-dir", directory), "Wrote "+forEast)
	expect.Contains(t, inEast("mcs", "accept", "-f", forEast, "--yes"), "Cluster east reads from cluster west.\n")
	export(t, west(), ns, "other")
	east().AwaitImport(t, ns, "other", "west")
	for cluster, want := range map[string]map[string]any{"east": eastJoined, "west": westJoined} {
		peer := map[string]string{"east": "west", "west": "east"}[cluster]
		if diff := cmp.Diff(want, membershipObjects(t, cluster, peer)); diff != "" {
			t.Errorf("%s: unexpected objects (-join +invitations):\n%s", cluster, diff)
		}
	}
	awaitLongTokens(t)
	expect.Contains(t, kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west"), `All clusters are already members of ClusterSet "everywhere".`)

	// R419: what west decided about east is kept by another invitation.
	inWest("patch", "secret", "-n", "mcs-system", "member-east", "--type=merge", "-p", `{"stringData":{"allowed-cidrs":"10.9.0.0/16","service-limit":"50"}}`)
	before := secretData(t, "west", "member-east")
	again := filepath.Join(directory, "again.yaml")
	expect.NoError(t, os.WriteFile(again, []byte(inEast("mcs", "invite", "west", "--allowed-cidrs", "10.9.0.0/16,192.0.2.0/24")), 0o600))
	expect.Contains(t, inWest("mcs", "accept", "-f", again, "--yes"), "10.9.0.0/16 in this cluster (the invitation says 10.9.0.0/16,192.0.2.0/24)", "Cluster west reads from cluster east.")
	kept := secretData(t, "west", "member-east")
	if before["kubeconfig"] == kept["kubeconfig"] {
		t.Error("the kubeconfig is not that of the invitation")
	}
	before["kubeconfig"] = kept["kubeconfig"]
	if diff := cmp.Diff(before, kept); diff != "" {
		t.Errorf("unexpected Secret (-before +after):\n%s", diff)
	}
	expect.Contains(t, inWest("mcs", "accept", "-f", again, "--yes", "--replace"), "✓ west: allow endpoints of east in 10.9.0.0/16,192.0.2.0/24 instead of 10.9.0.0/16")
	before["allowed-cidrs"] = "10.9.0.0/16,192.0.2.0/24"
	if diff := cmp.Diff(before, secretData(t, "west", "member-east")); diff != "" {
		t.Errorf("unexpected Secret (-want +replaced):\n%s", diff)
	}

	// R420: an invitation is for one cluster.
	refused(t, []string{`the invitation is for cluster "west", but the ID of this one is `}, "mcs", "accept", "-f", forWest, "--yes", "--context", "north")
}

// R422: clusters are joined by files that join writes, by kubectl apply alone. Joining them again
// changes nothing.
func TestClustersJoinFromWrittenFiles(t *testing.T) {
	ns := clusters.CreateNamespace(t, "written")
	t.Cleanup(func() { leave(t, "east", "west") })
	directory := t.TempDir()
	written := kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west", "--id", "east=east", "--id", "west=west", "--output-dir", directory)
	expect.Contains(t, written, "Wrote 8 files.", "kubectl --context east apply -f "+filepath.Join(directory, "east"))
	for _, cluster := range []string{"east", "west"} {
		for _, trace := range traces(t, clusters.Cluster(cluster)) {
			if strings.HasPrefix(trace, "secret") || strings.HasPrefix(trace, "claim") {
				t.Errorf("%s has %s", cluster, trace)
			}
		}
		kubectl(t, "--context", cluster, "apply", "-f", filepath.Join(directory, cluster))
	}
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	export(t, west(), ns, "other")
	east().AwaitImport(t, ns, "other", "west")
	awaitLongTokens(t)
	for _, cluster := range []string{"east", "west"} {
		expectUnchanged(t, cluster, filepath.Join(directory, cluster))
	}
	// Members keep their credentials, although the declared tokens were exchanged.
	before := fileContents(t, directory)
	kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west", "--output-dir", directory)
	if diff := cmp.Diff(before, fileContents(t, directory)); diff != "" {
		t.Errorf("repeating the command changes files (-before +after):\n%s", diff)
	}
	expect.Contains(t, kubectl(t, "mcs", "join", "--clusterset", clusterSet, "east", "west"), `All clusters are already members of ClusterSet "everywhere".`)
}

// fileContents returns the content of all files below a directory, by path.
func fileContents(t *testing.T, directory string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	for _, path := range expect.Must(filepath.Glob(filepath.Join(directory, "*", "*")))(t) {
		contents[path] = string(expect.Must(os.ReadFile(path))(t))
	}
	return contents
}

// R424: west and north read each other through the hub east.
func TestClustersJoinWithHub(t *testing.T) {
	ns := clusters.CreateNamespace(t, "hub")
	t.Cleanup(func() { leave(t, "east", "west", "north") })
	args := []string{
		"mcs", "join", "--clusterset", clusterSet, "east", "west", "north", "--id", "east=east", "--id", "west=west", "--id", "north=north", "--hub", "east",
		"--allowed-cidrs", "east=10.8.0.0/16", "--allowed-cidrs", "west=10.7.0.0/16,10.9.0.0/16", "--allowed-cidrs", "north=10.9.0.0/16",
	}
	expect.Contains(t, kubectl(t, args...), "✓ east: relay other clusters to west, north", "✓ west: let east relay north", "✓ west: allow endpoints of east in 10.8.0.0/16,10.9.0.0/16")
	export(t, north(), ns, "web")
	west().AwaitImport(t, ns, "web", "north")
	export(t, west(), ns, "other")
	north().AwaitImport(t, ns, "other", "west")
	// What the Secret of the hub allows holds for what it relays.
	expect.Eventually(t, "endpoints of north are imported in west", func(ctx context.Context) error {
		imported, err := west().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "multicluster.kubernetes.io/service-name=web"})
		if err != nil {
			return err
		}
		for i := range imported.Items {
			for _, endpoint := range imported.Items[i].Endpoints {
				if slices.Contains(endpoint.Addresses, "10.9.0.1") {
					return nil
				}
			}
		}
		return fmt.Errorf("got %+v", imported.Items)
	})
	if secrets := kubectl(t, "--context", "west", "get", "secret", "-n", "mcs-system", "--field-selector", clusterset.MemberSecretSelector(), "-o", "name"); strings.TrimSpace(secrets) != "secret/member-east" {
		t.Errorf("west has %s", secrets)
	}
	expect.Contains(t, kubectl(t, args...), `All clusters are already members of ClusterSet "everywhere".`)
}
