// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

func kubectl(t *testing.T, in *fleet.Cluster, args ...string) string {
	t.Helper()
	output, err := in.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// R29, R138: kubectl reads imports like stored objects, through either group.
func TestKubectlReadsImports(t *testing.T) {
	ns := fleet.CreateNamespace(t, "reading", east(), west())
	export(t, east(), ns, "web")
	export(t, east(), ns, "db")
	west().AwaitImport(t, ns, "web", "east")
	awaitReady(t, west(), ns, "db")
	kubectl(t, west(), "wait", "--for=condition=Ready", "-n", ns, "serviceimport/web", "--timeout=60s")
	derived := derivedService(t, west(), ns, "web")
	for _, resource := range []string{"serviceimports", "svcim", "serviceimports.v1alpha1.multicluster.x-k8s.io", "serviceimports.multicluster.k8s.io"} {
		t.Run(resource, func(t *testing.T) {
			kubectl(t, west(), "wait", "--for=condition=Ready", "-n", ns, resource, "web", "--timeout=60s")
			kubectl(t, west(), "wait", "--for=jsonpath={.status.clusters[0].cluster}=east", "-n", ns, resource, "web", "--timeout=60s")
			lines := strings.Split(kubectl(t, west(), "get", resource, "-A"), "\n")
			if columns := strings.Fields(lines[0]); fmt.Sprint(columns) != "[NAMESPACE NAME TYPE IP PORTS CLUSTERS AGE]" {
				t.Errorf("columns are %v", columns)
			}
			row := fmt.Sprintf("[%s web ClusterSetIP %s 80/TCP east", ns, derived.Spec.ClusterIPs[0])
			if found := findRow(lines, ns, "web"); !strings.HasPrefix(fmt.Sprint(strings.Fields(found)), row) {
				t.Errorf("row is %q, want %q", found, row)
			}
			expect.Contains(t, kubectl(t, west(), "get", resource, "-n", ns, "web", "-o", "yaml"), "kind: ServiceImport", "type: ClusterSetIP", "resourceVersion:", "uid:")
			expect.Contains(t, kubectl(t, west(), "describe", resource, "-n", ns, "web"), "Name:         web", "Cluster:  east", "Type:                  Ready")
			expect.Contains(t, kubectl(t, west(), "get", resource, "-n", ns, "-o", "wide"), "READY", "True")
			if output := kubectl(t, west(), "get", resource, "-n", ns, "-o", "name", "--field-selector=metadata.name=db"); strings.Count(output, "\n") != 1 || !strings.Contains(output, "/db") {
				t.Errorf("selected objects are %q", output)
			}
			if output := kubectl(t, west(), "get", resource, "-n", ns, "-o", "name", "--chunk-size=1"); strings.Count(output, "\n") != 2 {
				t.Errorf("objects in chunks of one are %q", output)
			}
		})
	}
	expect.Contains(t, kubectl(t, west(), "explain", "serviceimport.status.clusters"), "cluster")
	expect.Contains(t, kubectl(t, west(), "explain", "serviceimport", "--api-version=multicluster.k8s.io/v1alpha1"), "GROUP:      multicluster.k8s.io")
}

func findRow(lines []string, fields ...string) string {
	for _, line := range lines {
		if words := strings.Fields(line); len(words) >= len(fields) && fmt.Sprint(words[:len(fields)]) == fmt.Sprint(fields) {
			return line
		}
	}
	return ""
}

// kubectl get --watch shows imports that are created and removed.
func TestKubectlWatchesImports(t *testing.T) {
	ns := fleet.CreateNamespace(t, "watching", east(), west())
	export(t, east(), ns, "first")
	west().AwaitImport(t, ns, "first", "east")
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	defer cancel()
	command := west().KubectlCommand(ctx, west().Plane.AdminKubeconfig(), "get", "serviceimports", "-n", ns, "-w", "--output-watch-events")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	next := func(event, name string) {
		t.Helper()
		for lines.Scan() {
			if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == event && words[1] == name {
				return
			}
		}
		t.Fatalf("event %s of %s was not received: %v", event, name, lines.Err())
	}
	next("ADDED", "first")
	export(t, east(), ns, "second")
	next("ADDED", "second")
	next("MODIFIED", "second") // the import has become ready
	unexport(t, east(), ns, "first")
	next("DELETED", "first")
	cancel()
	_ = command.Wait() // killed by the test
}

// R29, R139: computed resources cannot be written, not even in a dry run, and the
// error says what to do instead.
func TestWritesToComputedResourcesAreRefused(t *testing.T) {
	ns := fleet.CreateNamespace(t, "refusing", east(), west())
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	manifest := func(apiVersion string) string {
		return expect.Manifest(t, "apiVersion: %s\nkind: ServiceImport\nmetadata: {name: forged, namespace: %s}\nspec: {type: ClusterSetIP, ports: [{port: 80}]}\n", apiVersion, ns)
	}
	const computed = "ServiceImports are computed from the ServiceExports of all clusters"
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"create", []string{"create", "-f", manifest("multicluster.x-k8s.io/v1beta1")}, []string{computed, "create a ServiceExport", ns}},
		{"create in the other group", []string{"create", "-f", manifest("multicluster.k8s.io/v1alpha1")}, []string{computed}},
		{"dry run", []string{"create", "--dry-run=server", "-f", manifest("multicluster.x-k8s.io/v1alpha1")}, []string{computed}},
		{"apply", []string{"apply", "--server-side", "-f", manifest("multicluster.x-k8s.io/v1beta1")}, []string{computed, `"forged"`}},
		{"delete", []string{"delete", "serviceimport", "web", "-n", ns}, []string{computed, fmt.Sprintf(`delete ServiceExport "web" in namespace %q of cluster east`, ns)}},
		{"label", []string{"label", "serviceimport", "web", "-n", ns, "a=b"}, []string{computed, "change Service \"web\""}},
		{"patch", []string{"patch", "serviceimport", "web", "-n", ns, "--type=merge", "-p", `{"spec":{"type":"Headless"}}`}, []string{computed}},
		{"delete all", []string{"delete", "--raw", "/apis/multicluster.x-k8s.io/v1beta1/namespaces/" + ns + "/serviceimports"}, []string{computed, "the ServiceExports in namespace"}},
		{"status", []string{"patch", "serviceimport", "web", "-n", ns, "--subresource=status", "--type=merge", "-p", `{}`}, nil},
		{"member", []string{"delete", "member", "east"}, []string{"Secrets of type clusterset.mcs-apiserver.io/member"}},
		{"exported service", []string{"delete", "exportedservice", "web.east", "-n", ns}, []string{"change those instead"}},
		{"cluster property", []string{"delete", "clusterproperty", "cluster.clusterset.k8s.io"}, []string{"kubectl edit clusterclaim id.k8s.io"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, err := west().Kubectl(t.Context(), test.args...)
			if err == nil {
				t.Fatalf("write was accepted: %s", output)
			}
			expect.Contains(t, output, test.want...)
		})
	}
	west().AwaitImport(t, ns, "web", "east")
	if _, err := west().Import(t.Context(), ns, "forged"); err == nil {
		t.Error("a forged import exists")
	}
	// Refused requests are in the audit log.
	log := string(expect.Must(os.ReadFile(auditLog(&west().Config)))(t))
	for _, verb := range []string{"create", "patch", "delete", "deletecollection"} {
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, `"resource":"serviceimports"`) && strings.Contains(line, `"verb":"`+verb+`"`) &&
				strings.Contains(line, `"code":405`) && strings.Contains(line, `"username":"admin"`)
		}
		if !found {
			t.Errorf("no refused %s in the audit log", verb)
		}
	}
}

// The author of an export is warned about conflicts, with the cluster that has
// precedence, also in a dry run.
func TestWarningsNameConflicts(t *testing.T) {
	ns := fleet.CreateNamespace(t, "warned", east(), west())
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	kubectl(t, west(), "create", "service", "clusterip", "web", "-n", ns, "--tcp=81:81")
	manifest := func(spec string) string {
		return expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web, namespace: %s}\nspec: %s\n", ns, spec)
	}
	await := func(args []string, want ...string) {
		t.Helper()
		expect.Eventually(t, "warning", func(ctx context.Context) error {
			output, err := west().Kubectl(ctx, args...)
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			for _, part := range want {
				if !strings.Contains(output, part) {
					return fmt.Errorf("%q is missing in %s", part, output)
				}
			}
			return nil
		})
	}
	ports := `Warning: PortConflict with the exports of east: Conflicting ports. Using`
	await([]string{"create", "--dry-run=server", "-f", manifest("{}")}, ports, `preferring those of the oldest service export in "east". 1/2 clusters disagree.`)
	expect.Contains(t, kubectl(t, west(), "apply", "-f", manifest("{}")), ports)
	expect.Lacks(t, kubectl(t, west(), "apply", "-f", manifest("{}")), "Warning") // without a change
	expect.Contains(t, kubectl(t, west(), "apply", "-f", manifest("{exportedLabels: {a: b}}")), ports,
		`Warning: LabelsConflict with the exports of east: Conflicting labels. Using "" from oldest service export in "east".`)
	unexport(t, west(), ns, "web")
	if _, err := west().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
		t.Error("ServiceExport still exists")
	}
}

// R117: the cluster ID is found under both property names.
func TestClusterPropertiesShowTheClaims(t *testing.T) {
	for _, name := range []string{"id.k8s.io", "cluster.clusterset.k8s.io"} {
		if value := kubectl(t, west(), "get", "clusterproperty", name, "-o", "jsonpath={.spec.value}"); value != "west" {
			t.Errorf("%s is %q", name, value)
		}
	}
	kubectl(t, west(), "create", "-f", expect.Manifest(t, "apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: color.example.com}\nspec: {value: green}\n"))
	kubectl(t, west(), "wait", "--for=jsonpath={.spec.value}=green", "clusterproperty/color.example.com", "--timeout=60s")
	kubectl(t, west(), "delete", "clusterclaim", "color.example.com")
	kubectl(t, west(), "wait", "--for=delete", "clusterproperty/color.example.com", "--timeout=60s")
}
