// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/mcs-api/config/crd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const ns = "shop"

// export creates the ServiceExport of a Service.
func export(t *testing.T, in *fleet.Cluster, name, label string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"exportedLabels": map[string]any{"from": label}}}}
	object.SetAPIVersion(v1beta1.String())
	object.SetKind("ServiceExport")
	object.SetName(name)
	return expect.Must(objects(t, in).Resource(exports).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

// importOfOthers creates a ServiceImport as the other implementation does.
func importOfOthers(t *testing.T, in *fleet.Cluster, name string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"type": "ClusterSetIP", "ips": []any{"10.99.0.1"}, "ports": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}},
	}}}
	object.SetAPIVersion(v1beta1.String())
	object.SetKind("ServiceImport")
	object.SetName(name)
	expect.Must(objects(t, in).Resource(imports).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

// identity returns what must stay the same of an object.
func identity(t *testing.T, in *fleet.Cluster, resource schema.GroupVersionResource, namespace, name string) string {
	t.Helper()
	object := expect.Must(objects(t, in).Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return fmt.Sprintf("%s %s", object.GetUID(), object.GetCreationTimestamp().UTC().Format(time.RFC3339))
}

// writer writes numbers into an annotation of an export all the time.
type writer struct {
	export string

	mu sync.Mutex
	// acknowledged is the last number that was written.
	acknowledged, refusals int
	unclear                []string
	// checked is how many refusals there were when it was checked last.
	checked int
}

func startWriter(t *testing.T, in *fleet.Cluster, export string) *writer {
	t.Helper()
	w, client := &writer{export: export}, objects(t, in).Resource(exports).Namespace(ns)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for number := 1; ctx.Err() == nil; number++ {
			_, err := client.Patch(ctx, export, types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{"number":"%d"}}}`, number)), metav1.PatchOptions{})
			w.mu.Lock()
			switch {
			case err == nil:
				w.acknowledged = number
			case strings.Contains(err.Error(), "retry in a minute"):
				w.refusals++
			case ctx.Err() == nil:
				w.unclear = append(w.unclear, err.Error())
			}
			w.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

func (w *writer) state() (acknowledged, refusals int, unclear []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acknowledged, w.refusals, w.unclear
}

// check checks that changes were refused clearly for a moment, work again, and are kept.
func (w *writer) check(t *testing.T, in *fleet.Cluster) {
	t.Helper()
	before, refusals, unclear := w.state()
	refusals, w.checked = refusals-w.checked, refusals
	if refusals == 0 || len(unclear) > 0 {
		t.Errorf("%d changes were refused with the reason, others with %v", refusals, unclear)
	}
	t.Logf("%s: %d changes were refused while the API moved", in.ID, refusals)
	expect.Eventually(t, "later changes", func(ctx context.Context) error {
		object, err := objects(t, in).Resource(exports).Namespace(ns).Get(ctx, w.export, metav1.GetOptions{})
		if err != nil {
			return err
		}
		number, _ := strconv.Atoi(object.GetAnnotations()["number"])
		if number <= before {
			return fmt.Errorf("the number is %d, and %d was acknowledged", number, before)
		}
		return nil
	})
}

// R473 to R478, R592: two clusters move from upstream's CRDs to mcs-apiserver and back, while
// clients watch and write. No import is ever absent, nothing that was written is lost, exports
// keep their age and UID, and the oldest takes precedence in both clusters.
func TestClustersMoveFromCRDsAndBack(t *testing.T) {
	t.Parallel()
	documented := documents.Assigned(t, cluster("east").Root)
	east, west := cluster("east"), cluster("west")
	both := []*fleet.Cluster{east, west}
	for _, c := range both {
		startWithCRDs(t, c, []schema.GroupVersion{v1beta1, v1alpha1}, string(crd.ServiceExportCRD), string(crd.ServiceImportCRD), inventoryCRD("clusterprofiles", "ClusterProfile", ""))
		expect.NoError(t, c.Namespace(t.Context(), ns))
		for _, name := range []string{"web", "db", "old"} {
			expect.Must(c.Service(t.Context(), ns, name, func(*corev1.Service) {}))(t)
			importOfOthers(t, c, name)
		}
	}
	// West is older, although its ID is greater.
	export(t, west, "web", "west")
	time.Sleep(1100 * time.Millisecond)
	export(t, east, "web", "east")
	export(t, east, "db", "east")
	export(t, east, "old", "east")
	bad := export(t, east, "not.a.service", "east")
	ids := map[string]string{}
	for _, c := range both {
		ids[c.ID] = identity(t, c, exports, ns, "web")
	}
	var importers, exporters []*observer
	var writers []*writer
	for _, c := range both {
		importers = append(importers, observe(t, c, imports, ns+"/web", ns+"/db"))
		exporters = append(exporters, observe(t, c, exports, ns+"/web"))
		writers = append(writers, startWriter(t, c, "web"))
	}

	t.Run("objects are copied", func(t *testing.T) {
		output := kubectl(t, "mcs", "migrate", "east", "west", "--dry-run")
		expect.Contains(t, output, "Plan:", "east: let mcs-controller copy the objects of CRDs, and register all but multicluster.x-k8s.io/v1beta1, multicluster.x-k8s.io/v1alpha1")
		output = kubectl(t, "mcs", "migrate", "east", "west", "--yes")
		expect.Contains(t, output, "ServiceExport "+ns+"/"+bad.GetName()+" is refused by mcs-apiserver", "The clusters are not in one ClusterSet yet", "Run this command again")
		join := regexp.MustCompile(`kubectl (mcs join --clusterset) NAME (east west --since \S+)`).FindStringSubmatch(output)
		if join == nil {
			t.Fatalf("no command to join is printed:\n%s", output)
		}
		kubectl(t, append(append(strings.Fields(join[1]), "everywhere", "--id", "east=east", "--id", "west=west"), strings.Fields(join[2])...)...)
		for _, c := range both {
			expectAccount(t, c, true)
		}
		// R473: mcs-controller would undo a change of a copy.
		output, err := run(t, "--context", "east", "annotate", "serviceexports.multicluster.k8s.io", "web", "-n", ns, "changed=true")
		if err == nil {
			t.Errorf("a copy was changed:\n%s", output)
		}
		expect.Contains(t, output, "is a copy of an object of a CustomResourceDefinition")
	})
	t.Run("missing objects are refused", func(t *testing.T) {
		importOfOthers(t, east, "orphan")
		kubectl(t, "--context", "east", "apply", "--server-side", "-f", expect.Manifest(t, "%s", inventoryCRD("works", "Work", "")))
		output, err := run(t, "mcs", "migrate", "east", "west", "--yes", "--timeout=5s")
		if err == nil {
			t.Errorf("imports would vanish:\n%s", output)
		}
		expect.Contains(t, output, "ServiceImport shop/orphan exists in the CRD", "works.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1, which mcs-apiserver does not have",
			"3 ServiceImports or other objects would vanish or change, and nothing was handed over")
		kubectl(t, "--context", "east", "delete", "crd", "works.multicluster.x-k8s.io", "--timeout=60s")
		kubectl(t, "--context", "east", "delete", "serviceimport", "orphan", "-n", ns)
		kubectl(t, "--context", "east", "delete", "serviceexport", bad.GetName(), "-n", ns)
	})
	t.Run("interrupted", func(t *testing.T) { // R477: changes are allowed again
		interrupted, output := command(t, "mcs", "migrate", "east", "west", "--yes"), &bytes.Buffer{}
		interrupted.Stdout, interrupted.Stderr = output, output
		expect.NoError(t, interrupted.Start())
		writers[0].awaitRefusal(t)
		expect.NoError(t, interrupted.Process.Signal(os.Interrupt))
		if err := interrupted.Wait(); err == nil {
			t.Errorf("the command succeeded:\n%s", output)
		}
		expect.Contains(t, output.String(), `context "east": CRDs serve multicluster.x-k8s.io/v1beta1, multicluster.x-k8s.io/v1alpha1 as before; run the command again to continue`)
		expectThawed(t, east)
		writers[0].check(t, east)
	})
	t.Run("killed", func(t *testing.T) { // R477: the next command allows changes, whatever follows
		killed := command(t, "mcs", "migrate", "east", "west", "--yes")
		expect.NoError(t, killed.Start())
		writers[0].awaitRefusal(t)
		expect.NoError(t, killed.Process.Kill())
		if err := killed.Wait(); err == nil {
			t.Error("the command succeeded")
		}
		if output, err := run(t, "mcs", "migrate", "east", "west"); err == nil { // there is no answer
			t.Errorf("the command succeeded:\n%s", output)
		}
		expectThawed(t, east)
		writers[0].check(t, east)
		awaitServedBy(t, east, v1beta1, false)
	})
	t.Run("the API moves", func(t *testing.T) {
		before := time.Now()
		t.Log(documented.Run(t, shell(t), documented.Under(t, "docs/operations.md", "Migrating from CRDs")[:2]...))
		t.Logf("moved in %s", time.Since(before).Round(time.Second))
		for i, c := range both {
			awaitServedBy(t, c, v1beta1, true)
			awaitServedBy(t, c, v1alpha1, true)
			expectAccount(t, c, false)
			if now := identity(t, c, exports, ns, "web"); now != ids[c.ID] {
				t.Errorf("%s: the export was %s and is %s", c.ID, ids[c.ID], now)
			}
			found := c.AwaitImport(t, ns, "web", "east", "west")
			if found.Labels["from"] != "west" {
				t.Errorf("%s: the import has labels %v, although west is older", c.ID, found.Labels)
			}
			writers[i].check(t, c)
			// Clients that watched the CRDs know the objects of mcs-apiserver now.
			exporters[i].knows(t, ns+"/web", func(object *unstructured.Unstructured) error {
				if object.GetAnnotations()["clusterset.mcs-apiserver.io/migrated-at"] == "" {
					return fmt.Errorf("known as that of the CRD")
				}
				return nil
			})
			importers[i].knows(t, ns+"/web", func(object *unstructured.Unstructured) error {
				if ips, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "ips"); len(ips) == 0 || ips[0] == "10.99.0.1" {
					return fmt.Errorf("known as that of the CRD: %v", ips)
				}
				return nil
			})
		}
		expect.Contains(t, kubectl(t, "mcs", "migrate", "east", "west"), "there is nothing to migrate")
		// As if the command had been killed after the hand-over.
		kubectl(t, "--context", "east", "create", "configmap", "-n", "mcs-system", "mcs-apiserver-crd-migration", "--from-literal=phase=Copying")
		expect.Contains(t, kubectl(t, "mcs", "migrate", "east", "west", "--yes"), "east: end watches of clients, and show them what was copied", "there is nothing to migrate")
		expect.Lacks(t, kubectl(t, "--context", "east", "get", "configmaps", "-n", "mcs-system"), "mcs-apiserver-crd-migration")
	})
	t.Run("the API returns", func(t *testing.T) {
		expect.Must(east.Service(t.Context(), ns, "new", func(*corev1.Service) {}))(t)
		export(t, east, "new", "east")
		west.AwaitImport(t, ns, "new", "east")
		kubectl(t, "--context", "east", "delete", "serviceexport", "old", "-n", ns)
		before := time.Now()
		t.Log(documented.Run(t, shell(t), documented.Under(t, "docs/operations.md", "Migrating from CRDs")[2:]...))
		t.Logf("returned in %s", time.Since(before).Round(time.Second))
		for i, c := range both {
			awaitServedBy(t, c, v1beta1, false)
			awaitServedBy(t, c, v1alpha1, false)
			expectAccount(t, c, false)
			if now := identity(t, c, exports, ns, "web"); now != ids[c.ID] {
				t.Errorf("%s: the export was %s and is %s", c.ID, ids[c.ID], now)
			}
			writers[i].check(t, c)
			kubectl(t, "--context", c.ID, "get", "serviceimport", "new", "-n", ns)
			importOfOthers(t, c, "later")
			importers[i].knows(t, ns+"/later", exists)
			expect.Lacks(t, kubectl(t, "--context", c.ID, "get", "crd", "-o", "jsonpath={.items[*].spec.versions[*].name}"), "migration")
		}
		kubectl(t, "--context", "east", "get", "serviceexport", "new", "-n", ns)
		exporters[0].knows(t, ns+"/new", exists)
		expect.Lacks(t, kubectl(t, "--context", "east", "get", "serviceexports", "-n", ns), "old")
		expect.Lacks(t, kubectl(t, "--context", "east", "get", "clusterprofiles", "-A", "-o", "name"), "clusterprofile")
		// As if the command had been killed before it said that the API was returned.
		kubectl(t, "--context", "east", "patch", "configmap", "-n", "mcs-system", "mcs-apiserver-crd-migration", "--type=merge", "-p", `{"data":{"phase":"Returning"}}`)
		expect.Contains(t, kubectl(t, "mcs", "migrate", "--back", "east", "west", "--yes"), "east: end watches of clients")
		expect.Contains(t, kubectl(t, "mcs", "migrate", "--back", "east", "west"), "there is nothing to return")
		kubectl(t, "--context", "east", "delete", "serviceexport", "new", "-n", ns)
	})
	t.Run("the API moves again", func(t *testing.T) {
		t.Log(kubectl(t, "mcs", "migrate", "east", "west", "--yes", "--allow-missing"))
		for i, c := range both {
			awaitServedBy(t, c, v1beta1, true)
			if now := identity(t, c, exports, ns, "web"); now != ids[c.ID] {
				t.Errorf("%s: the export was %s and is %s", c.ID, ids[c.ID], now)
			}
			writers[i].check(t, c)
		}
		// R478: what was returned and deleted does not come back.
		expect.Lacks(t, kubectl(t, "--context", "east", "get", "serviceexports", "-n", ns), "new")
	})
}

const freeze = "crd-migration.mcs-apiserver.io"

// awaitRefusal waits until another change is refused.
func (w *writer) awaitRefusal(t *testing.T) {
	t.Helper()
	_, before, _ := w.state()
	expect.Eventually(t, "refused changes", func(context.Context) error {
		if _, now, _ := w.state(); now == before {
			return errors.New("changes are allowed")
		}
		return nil
	})
}

// expectThawed checks that no policy refuses changes.
func expectThawed(t *testing.T, in *fleet.Cluster) {
	t.Helper()
	if _, err := in.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), freeze, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the policy is left: %v", err)
	}
}

// expectAccount checks whether the service account that copies exists, with its permissions: R474.
func expectAccount(t *testing.T, in *fleet.Cluster, want bool) {
	t.Helper()
	_, account := in.Kubernetes.CoreV1().ServiceAccounts(installation.Namespace).Get(t.Context(), crdmigration.Account, metav1.GetOptions{})
	_, binding := in.Kubernetes.RbacV1().ClusterRoleBindings().Get(t.Context(), crdmigration.Account, metav1.GetOptions{})
	for what, err := range map[string]error{"service account": account, "ClusterRoleBinding": binding} {
		if found := err == nil; found != want || (err != nil && !apierrors.IsNotFound(err)) {
			t.Errorf("%s: %s exists: %t (%v), want %t", in.ID, what, found, err, want)
		}
	}
}
