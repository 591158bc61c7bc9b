// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R7: the KEP's group accepts the KEP's manifest.
func TestKEPManifestIsAccepted(t *testing.T) {
	ns := namespace(t)
	kubectl(t, "apply", "-f", expect.Manifest(t, "%s", export("multicluster.k8s.io/v1alpha1", ns, "my-svc", `
  exportedLabels: {app: web}
  exportedAnnotations: {example.com/note: hello}`)))
	got, err := serviceExports(t, kepGroup, ns).Get(t.Context(), "my-svc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := decode[multiclusterv1alpha1.ServiceExport](t, got)
	want := multiclusterv1alpha1.ServiceExportSpec{
		ExportedLabels: map[string]string{"app": "web"}, ExportedAnnotations: map[string]string{"example.com/note": "hello"},
	}
	if diff := cmp.Diff(want, stored.Spec); diff != "" {
		t.Error(diff)
	}
}

func TestBothGroupsShowTheSameObjects(t *testing.T) {
	ns := namespace(t)
	kubectl(t, "apply", "-f", expect.Manifest(t, "%s", export("multicluster.x-k8s.io/v1alpha1", ns, "one", "{exportedLabels: {a: b}}")))
	kubectl(t, "apply", "-f", expect.Manifest(t, "%s", export("multicluster.k8s.io/v1alpha1", ns, "two", "{}")))
	show := []string{"get", "-n", ns, "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion} {.spec}{"\n"}{end}`}
	x := kubectl(t, append(show, "serviceexports.multicluster.x-k8s.io")...)
	kep := kubectl(t, append(show, "serviceexports.multicluster.k8s.io")...)
	if x != kep || strings.Count(x, "\n") != 2 {
		t.Errorf("multicluster.x-k8s.io has\n%s\nmulticluster.k8s.io has\n%s", x, kep)
	}
	kubectl(t, "delete", "serviceexports.multicluster.k8s.io", "one", "-n", ns)
	kubectl(t, "delete", "serviceexports.v1beta1.multicluster.x-k8s.io", "two", "-n", ns)
	for _, group := range []string{"multicluster.x-k8s.io", "multicluster.k8s.io"} {
		output := kubectlFails(t, "get", "serviceexports."+group, "one", "-n", ns)
		expect.Contains(t, output, `serviceexports.`+group+` "one" not found`)
	}
	expect.Contains(t, kubectl(t, "get", "serviceexports", "-n", ns), "No resources found")
}

func TestServiceExportLifecycle(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	exports := client(t).MulticlusterXV1beta1().ServiceExports(ns)
	watcher, err := exports.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	created, err := exports.Create(ctx, &v1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Status:     v1beta1.ServiceExportStatus{Conditions: []metav1.Condition{condition("Valid", metav1.ConditionTrue)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.Status.Conditions) != 0 || created.Generation != 1 {
		t.Errorf("created with generation %d and status %v, want 1 and none", created.Generation, created.Status)
	}

	updated := created.DeepCopy()
	updated.Spec.ExportedLabels = map[string]string{"a": "b"}
	if updated, err = exports.Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if updated.Generation != 2 {
		t.Errorf("generation %d after the spec changed, want 2", updated.Generation)
	}
	if _, err = exports.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update from an old version: %v, want a conflict", err)
	}
	for _, patch := range []struct {
		kind types.PatchType
		data string
	}{
		{types.MergePatchType, `{"spec":{"exportedLabels":{"merge":"1"}}}`},
		{types.StrategicMergePatchType, `{"spec":{"exportedLabels":{"strategic":"1"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/spec/exportedLabels/json","value":"1"}]`},
	} {
		if updated, err = exports.Patch(ctx, "web", patch.kind, []byte(patch.data), metav1.PatchOptions{}); err != nil {
			t.Fatalf("%s: %v", patch.kind, err)
		}
	}
	want := map[string]string{"a": "b", "merge": "1", "strategic": "1", "json": "1"}
	if diff := cmp.Diff(want, updated.Spec.ExportedLabels); diff != "" {
		t.Errorf("after three patches: %s", diff)
	}
	if _, err := exports.Create(ctx, &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v, want already exists", err)
	}
	if err := exports.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := exports.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v, want not found", err)
	}
	expectEvents(t, watcher, watch.Added, watch.Modified, watch.Modified, watch.Modified, watch.Modified, watch.Deleted)
}

func expectEvents(t *testing.T, watcher watch.Interface, want ...watch.EventType) {
	t.Helper()
	for i, eventType := range want {
		select {
		case event := <-watcher.ResultChan():
			if event.Type != eventType {
				t.Fatalf("event %d is %s, want %s: %v", i, event.Type, eventType, event.Object)
			}
		case <-time.After(expect.Patience):
			t.Fatalf("event %d (%s) was not received", i, eventType)
		}
	}
}

func condition(conditionType string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0))}
}

func TestDeleteCollectionBySelector(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	exports := client(t).MulticlusterXV1beta1().ServiceExports(ns)
	for i := range 5 {
		object := &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("svc-%d", i), Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}}
		if _, err := exports.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := exports.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=1"}); err != nil {
		t.Fatal(err)
	}
	left, err := exports.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 3 {
		t.Errorf("%d exports remain, want 3", len(left.Items))
	}
	one, err := exports.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=svc-2"})
	if err != nil || len(one.Items) != 1 {
		t.Errorf("field selector: %v, %v", one, err)
	}
	// Storage in the cluster returns everything in the first page.
	var paged []string
	for options := (metav1.ListOptions{Limit: 2}); ; {
		page, err := exports.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, export := range page.Items {
			paged = append(paged, export.Name)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if want := []string{"svc-0", "svc-2", "svc-4"}; !slices.Equal(paged, want) {
		t.Errorf("pages have %v, want %v", paged, want)
	}
}

// Writes to the spec cannot change the status, and status writes cannot change anything else.
func TestSpecAndStatusAreWrittenSeparately(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	exports := client(t).MulticlusterXV1beta1().ServiceExports(ns)
	object, err := exports.Create(ctx, &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	both := func(status metav1.ConditionStatus, label string) *v1beta1.ServiceExport {
		changed := object.DeepCopy()
		changed.ResourceVersion = ""
		changed.Labels = map[string]string{"changed": label}
		changed.Finalizers = []string{"example.com/" + label}
		changed.Spec.ExportedLabels = map[string]string{"changed": label}
		changed.Status.Conditions = []metav1.Condition{condition("Valid", status)}
		return changed
	}
	got, err := exports.UpdateStatus(ctx, both(metav1.ConditionTrue, "status"), metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(got.Status.Conditions, "Valid") || got.Spec.ExportedLabels != nil || got.Labels != nil || got.Finalizers != nil || got.Generation != 1 {
		t.Errorf("status write changed more than the status: %+v", got)
	}
	changed := both(metav1.ConditionFalse, "spec")
	changed.Finalizers = nil
	if got, err = exports.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(got.Status.Conditions, "Valid") || got.Spec.ExportedLabels["changed"] != "spec" || got.Labels["changed"] != "spec" {
		t.Errorf("spec write changed the status or did not change the spec: %+v", got)
	}
	if _, err := exports.UpdateStatus(ctx, &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "absent"}}, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("status of a missing export: %v, want not found", err)
	}
	output := kubectlFails(t, "patch", "svcex", "web", "-n", ns, "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"Valid","status":"Perhaps","reason":"x","lastTransitionTime":"2026-01-01T00:00:00Z","message":""}]}}`)
	expect.Contains(t, output, "status.conditions[0].status")
}

// R8: conditions are keyed by type, whichever group the appliers use.
func TestTwoAppliersOfConditionsDoNotOverwriteEachOther(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	apply := func(gv apischema.GroupVersion, manager string, fields map[string]any, subresources ...string) (*v1beta1.ServiceExport, error) {
		t.Helper()
		object, err := serviceExports(t, gv, ns).Apply(ctx, "web", unstructuredExport(gv, "web", fields), metav1.ApplyOptions{FieldManager: manager}, subresources...)
		if err != nil {
			return nil, err
		}
		return decode[v1beta1.ServiceExport](t, object), nil
	}
	labels := func(value string) map[string]any {
		return map[string]any{"spec": map[string]any{"exportedLabels": map[string]any{"a": value}}}
	}
	conditions := func(conditionType string) map[string]any {
		c := condition(conditionType, metav1.ConditionTrue)
		return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": "",
			"lastTransitionTime": c.LastTransitionTime.UTC().Format(time.RFC3339),
		}}}}
	}
	if _, err := apply(xGroup, "owner", labels("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := apply(xGroup, "first", conditions("Valid"), "status"); err != nil {
		t.Fatal(err)
	}
	got, err := apply(kepGroup, "second", conditions("Conflict"), "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, conditionType := range []string{"Valid", "Conflict"} {
		if !meta.IsStatusConditionTrue(got.Status.Conditions, conditionType) {
			t.Errorf("condition %s is missing: %v", conditionType, got.Status.Conditions)
		}
	}
	owners := map[string]string{}
	for _, entry := range got.ManagedFields {
		owners[entry.Manager] = entry.APIVersion
	}
	want := map[string]string{"owner": "multicluster.x-k8s.io/v1beta1", "first": "multicluster.x-k8s.io/v1beta1", "second": "multicluster.k8s.io/v1alpha1"}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners after writing through the other group (-want +got): %s", diff)
	}
	// Fields that an applier no longer applies are removed, and no others.
	if got, err = apply(kepGroup, "second", nil, "status"); err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != "Valid" || got.Spec.ExportedLabels["a"] != "b" {
		t.Errorf("after the second applier applied nothing: %+v, %+v", got.Spec, got.Status)
	}
	_, err = apply(xGroup, "thief", labels("mine"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.exportedLabels.a") {
		t.Errorf("apply over a field of another manager: %v, want a conflict that names the field", err)
	}
}

func TestServiceExportTable(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	exports := client(t).MulticlusterXV1beta1().ServiceExports(ns)
	object, err := exports.Create(ctx, &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fields := func(args ...string) string {
		return strings.Join(strings.Fields(kubectl(t, append([]string{"get", "svcex", "-n", ns}, args...)...)), " ")
	}
	expect.Contains(t, fields(), "NAME VALID READY CONFLICT AGE web Unknown Unknown Unknown ")
	conflict := condition("Conflict", metav1.ConditionTrue)
	conflict.Reason = "PortConflict,TypeConflict"
	object.Status.Conditions = []metav1.Condition{condition("Valid", metav1.ConditionTrue), condition("Ready", metav1.ConditionTrue), conflict}
	if _, err := exports.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Contains(t, fields(), "NAME VALID READY CONFLICT AGE web True True True ")
	expect.Contains(t, fields("-o", "wide"), "NAME VALID READY CONFLICT PROBLEMS AGE web True True True PortConflict,TypeConflict ")
}

func TestExportWithoutAServiceIsWarnedAbout(t *testing.T) {
	ns := namespace(t)
	service(t, ns, "plain", corev1.ServiceTypeClusterIP)
	service(t, ns, "outside", corev1.ServiceTypeExternalName)
	for _, test := range []struct {
		name    string
		args    []string
		warning string
	}{
		{"plain", nil, ""},
		{"missing", nil, fmt.Sprintf(`Warning: Service "missing" does not exist in namespace %q; nothing is exported until the Service is created`, ns)},
		{"outside", nil, fmt.Sprintf(`Warning: Service "outside" in namespace %q has type ExternalName and cannot be exported`, ns)},
		{"dry", []string{"--dry-run=server"}, `Warning: Service "dry" does not exist`},
		{"applied", []string{"--server-side"}, `Warning: Service "applied" does not exist`},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := expect.Manifest(t, "%s", export("multicluster.x-k8s.io/v1beta1", ns, test.name, "{}"))
			output := kubectl(t, append([]string{"apply", "-f", file}, test.args...)...)
			if test.warning == "" {
				expect.Lacks(t, output, "Warning")
			} else {
				expect.Contains(t, output, test.warning)
			}
		})
	}
}

func TestKubectlWatchAndWait(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	exports := client(t).MulticlusterXV1beta1().ServiceExports(ns)
	object, err := exports.Create(ctx, &v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watching := startKubectl(t, "get", "svcex", "-n", ns, "--watch", "--output-watch-events", "--no-headers")
	waiting := startKubectl(t, "wait", "svcex/web", "-n", ns, "--for=condition=Ready", "--timeout=60s")
	expectLine(t, watching, "ADDED web Unknown Unknown Unknown")
	object.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue)}
	if _, err := exports.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectLine(t, waiting, "serviceexport.multicluster.x-k8s.io/web condition met")
	expectLine(t, watching, "MODIFIED web Unknown True Unknown")
	if err := exports.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectLine(t, watching, "DELETED web Unknown True Unknown")
}

// startKubectl runs kubectl until the test ends and returns its lines.
func startKubectl(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	cmd := suite.KubectlCommand(t.Context(), suite.Plane.AdminKubeconfig(), args...)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context has ended the process by then
	return bufio.NewScanner(output)
}

// expectLine compares the beginning of the next line, ignoring white space.
func expectLine(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("kubectl exited (%v) before it printed %q", lines.Err(), want)
	}
	if got := strings.Join(strings.Fields(lines.Text()), " "); !strings.HasPrefix(got, want) {
		t.Fatalf("kubectl printed %q, want %q", got, want)
	}
}

// NamespaceLifecycle: objects cannot be created in a missing namespace, and a
// namespace with exports can be deleted.
func TestNamespaceLifecycle(t *testing.T) {
	ctx := t.Context()
	clients := client(t)
	_, err := clients.MulticlusterXV1beta1().ServiceExports("no-such-namespace").Create(ctx,
		&v1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "no-such-namespace" not found`) {
		t.Errorf("create in a missing namespace: %v", err)
	}
	ns := namespace(t)
	for i := range 3 {
		object := unstructuredExport(kepGroup, fmt.Sprintf("svc-%d", i), nil)
		if _, err := serviceExports(t, kepGroup, ns).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "delete", "namespace", ns, "--timeout=60s")
	left, err := clients.MulticlusterXV1beta1().ServiceExports(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("%d exports outlived their namespace (%v)", len(left.Items), err)
	}
}
