// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// registered returns an APIService that refers to a Service, or belongs to a CRD.
func registered(name, service string) any {
	object := map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]string{automanaged: "true"}}, "spec": map[string]any{}}
	if service != "" {
		object["spec"] = map[string]any{"service": map[string]string{"namespace": "mcs-system", "name": service}}
		object["status"] = map[string]any{"conditions": []any{map[string]string{"type": "Available", "status": "True"}}}
	}
	return object
}

// checkable adds what --check reads, with a Pod CIDR.
func checkable(cidr string, changes ...func(map[string]any)) func(map[string]any) {
	return func(objects map[string]any) {
		const apiServices, crds = "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		address, _, _ := strings.Cut(cidr, "/")
		objects["/version"] = map[string]string{"gitVersion": "v1.36.0"}
		objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService",
			registered("v1.multicluster.k8s.io", "mcs-apiserver"), registered("v1alpha1.clusterset.mcs-apiserver.io", "mcs-apiserver"), registered("v1alpha1.multicluster.x-k8s.io", "mcs-apiserver"), registered("v1beta1.multicluster.x-k8s.io", "mcs-apiserver"),
			registered("v1alpha1.multicluster.x-k8s.io", "mcs-apiserver"))
		objects[crds] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": []any{}}
		objects["/api/v1/namespaces/mcs-system/configmaps"] = commandtest.List("v1", "ConfigMap")
		objects["/api/v1/nodes"] = commandtest.List("v1", "Node", map[string]any{"metadata": map[string]string{"name": "a"}, "spec": map[string]any{"podCIDRs": []string{cidr}}})
		objects["/api/v1/pods"] = commandtest.List("v1", "Pod",
			map[string]any{"spec": map[string]any{"hostNetwork": true}, "status": map[string]any{"podIPs": []any{map[string]string{"ip": "192.168.0.1"}}}},
			map[string]any{"status": map[string]any{"podIPs": []any{map[string]string{"ip": address}}}})
		objects["/apis/networking.k8s.io/v1/servicecidrs"] = commandtest.List("networking.k8s.io/v1", "ServiceCIDR", map[string]any{"spec": map[string]any{"cidrs": []string{"10.96.0.0/12"}}})
		objects["/api/v1/namespaces/kube-system/configmaps/kube-proxy"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"config.conf": "mode: nftables\n"}}
		for _, change := range changes {
			change(objects)
		}
	}
}

// checking returns the arguments to check whether east and west are ready. Nothing answers at
// their addresses, which are for documentation.
func checking(t *testing.T, east, west *commandtest.APIServer, more ...string) []string {
	t.Helper()
	return append([]string{
		"join", "--check", "east", "west", "--clusterset", "production", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}),
		"--server", "east=https://192.0.2.1:6443", "--server", "west=https://192.0.2.2:6443", "--request-timeout", "1s",
	}, more...)
}

// R430: the command changes nothing, and says what was checked. Warnings do not fail.
func TestCheckOfClustersThatAreReady(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", checkable("10.1.0.0/24")), commandtest.NewAPIServer(t, "west", checkable("10.2.0.0/24"))
	out, warnings, err := commandtest.Run(t.Context(), checking(t, east, west)...)
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, want := range []string{
		"✓ the clusters can join ClusterSet \"production\", in 10 steps\n", "! member Secrets have no allowed-cidrs of east (in west), west (in east)",
		"✓ east: the API of mcs-apiserver is registered and available\n", "✓ west: the kube-apiserver is version v1.36.0\n", "✓ the clocks of the kube-apiservers of east, west do not differ by more than 10s\n",
		"✓ east, west: Pod networks do not overlap, as far as they are known\n", "✓ east: kube-proxy uses nftables (ConfigMap kube-system/kube-proxy)\n",
		"! east: DNS of the ClusterSet cannot be checked: none of the Services", `! east: server "https://192.0.2.1:6443" does not answer this machine`,
		"? east: whether mcs-apiserver reaches west (https://192.0.2.2:6443) is not known", "\n\n0 problems (✗), 7 warnings (!), 4 not checked (?)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if warnings != "" {
		t.Errorf("got warnings %q", warnings)
	}
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

// R430: administrators of one cluster check it before they exchange invitations.
func TestCheckOfOneCluster(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east", checkable("10.1.0.0/24"))
	args := []string{
		"join", "--check", "east", "--clusterset", "production", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}),
		"--server", "east=https://192.0.2.1:6443", "--request-timeout", "1s",
	}
	out, _, err := commandtest.Run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, want := range []string{
		"✓ east: nothing in the cluster keeps it from joining ClusterSet \"production\"\n", "? east: the cluster was not compared with others: ",
		"✓ east: the API of mcs-apiserver is registered and available\n", "✓ east: kube-proxy uses nftables",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if writes := east.Written(); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
	_, _, err = commandtest.Run(t.Context(), append(args, "--server", "east=https://localhost")...)
	expect.Error(t, err, `the cluster is not ready to join ClusterSet "production": 1 problem found`)
}

// R431, R433, R439: problems make the command fail, and are data with --output.
func TestCheckFailsOnProblems(t *testing.T) {
	const crd = "serviceexports.multicluster.x-k8s.io"
	const apiServices, crds = "/apis/apiregistration.k8s.io/v1/apiservices", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	serving := func(objects map[string]any, versions ...any) {
		objects[crds] = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": []any{map[string]any{"metadata": map[string]string{"name": crd}}}}
		objects[crds+"/"+crd] = map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]string{"name": crd},
			"spec": map[string]any{"group": "multicluster.x-k8s.io", "versions": versions},
		}
	}
	hidden := func(objects map[string]any) {
		serving(objects, map[string]any{"name": "v1alpha1", "served": true}, map[string]any{"name": "v1beta1", "served": true})
	}
	inTheWay := func(objects map[string]any) {
		commandtest.NotInstalled(objects) // an incomplete API is not registered
		objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService", registered("v1alpha1.multicluster.x-k8s.io", ""))
		objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap")
		serving(objects, map[string]any{"name": "v1alpha1", "served": true}, map[string]any{"name": "v1beta1", "served": false})
	}
	east, west := commandtest.NewAPIServer(t, "east", checkable("10.1.0.0/24", hidden)), commandtest.NewAPIServer(t, "west", checkable("10.1.0.0/24", inTheWay))
	out, _, err := commandtest.Run(t.Context(), checking(t, east, west, "-o", "json")...)
	expect.Error(t, err, `the clusters are not ready to join ClusterSet "production": 2 problems found; nothing was changed`)
	var got struct{ Findings []plan.Finding }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !slices.ContainsFunc(got.Findings, func(f plan.Finding) bool {
		return f.Result == plan.Warning && strings.HasPrefix(f.String(), "east: CustomResourceDefinition "+crd+" is hidden by the API")
	}) {
		t.Errorf("no warning of the hidden CustomResourceDefinition in %v", got.Findings)
	}
	problems := slices.DeleteFunc(got.Findings, func(f plan.Finding) bool { return f.Result != plan.Problem })
	for i, want := range []string{
		"west: CustomResourceDefinition " + crd + " serves multicluster.x-k8s.io/v1alpha1, and registering the API would hide its objects; move its objects to mcs-apiserver with `kubectl mcs migrate`",
		"east, west: Pod CIDRs of east (10.1.0.0/24) and west (10.1.0.0/24) overlap, and Pods use them",
	} {
		if i >= len(problems) || !strings.HasPrefix(problems[i].String(), want) {
			t.Errorf("got problems %q, want %q", problems, want)
		}
	}
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

// R438: what cannot be read is not taken for right, and does not keep the rest from being checked.
func TestCheckSaysWhatCannotBeRead(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", checkable("10.1.0.0/24")), commandtest.NewAPIServer(t, "west", checkable("10.2.0.0/24", func(objects map[string]any) {
		for _, path := range []string{"/version", "/api/v1/pods", "/apis/networking.k8s.io/v1/servicecidrs", "/apis/apiregistration.k8s.io/v1/apiservices"} {
			delete(objects, path)
		}
	}))
	out, _, err := commandtest.Run(t.Context(), checking(t, east, west)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"? west: the kube-apiserver does not tell its version\n", "? west: Pods could not be read: ", "? west: Service CIDRs could not be read: ", "? west: the registration of the API could not be read: ",
		"✓ east, west: Pod networks do not overlap, as far as they are known\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
}

// R438: a cluster that does not answer does not keep the others from being checked.
func TestCheckOfAClusterThatDoesNotAnswer(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", checkable("10.1.0.0/24")), commandtest.NewAPIServer(t, "west")
	args := checking(t, east, west)
	west.Close()
	out, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, "not ready to join", "1 problem found")
	if !strings.HasPrefix(out, "✗ west: the kube-apiserver is unreachable: ") || strings.Count(out, "west") != 1 || !strings.Contains(out, "✓ east: the kube-apiserver is version v1.36.0\n") {
		t.Errorf("unexpected output:\n%s", out)
	}
}

func TestInvalidCheckIsRejectedBeforeAnyRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	file := commandtest.Kubeconfig(t, map[string]string{"east": server.URL, "west": server.URL})
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"east", "west", "--dry-run"}, "--dry-run has no effect with --check"},
		{[]string{"east", "west", "--output-dir", "x"}, "--output-dir has no effect with --check"},
		{[]string{"east", "west", "-o", "xml"}, `--output "xml": must be json or yaml`},
		{nil, "at least one context is required"},
		{[]string{"center", "south"}, `context "center" does not exist in the kubeconfig`},
	} {
		_, _, err := commandtest.Run(t.Context(), append([]string{"join", "--check", "--clusterset", "s", "--kubeconfig", file}, test.args...)...)
		expect.Error(t, err, test.want)
	}
}
