// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientfeatures "k8s.io/client-go/features"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const managerLabel = "x-k8s.io/cluster-manager"

// profile returns a new ClusterProfile.
func profile(name, manager string) *v1alpha1.ClusterProfile {
	return &v1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterProfileSpec{ClusterManager: v1alpha1.ClusterManager{Name: manager}},
	}
}

// inventoryOf returns the dynamic client, as the administrator, for a resource of the
// Cluster Inventory API.
func inventoryOf(t *testing.T, resource, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client := expect.Must(dynamic.NewForConfig(adminConfig(t)))(t)
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
}

// parse returns the object in a JSON document.
func parse(t *testing.T, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	expect.NoError(t, object.UnmarshalJSON(fmt.Appendf(nil, format, args...)))
	return object
}

// R450: everything that upstream's API has is stored and returned as it was written.
func TestInventoryHasTheUpstreamFormat(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	profiles, decisions := inventoryOf(t, "clusterprofiles", ns), inventoryOf(t, "placementdecisions", ns)
	written := parse(t, `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile",
		"metadata":{"name":"east","labels":{"x-k8s.io/cluster-manager":"example"}},
		"spec":{"displayName":"East","clusterManager":{"name":"example"}},
		"status":{
			"conditions":[{"type":"ControlPlaneHealthy","status":"True","reason":"Healthy","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],
			"version":{"kubernetes":"v1.36.3"},
			"properties":[{"name":"cluster.clusterset.k8s.io","value":"east","lastObservedTime":"2026-01-01T00:00:00Z"},{"name":"region","value":"eu"}],
			"accessProviders":[{"name":"example","cluster":{"server":"https://east.example.com","tls-server-name":"east","insecure-skip-tls-verify":true,
				"certificate-authority":"/ca","certificate-authority-data":"Q0E=","proxy-url":"http://proxy","disable-compression":true,
				"extensions":[{"name":"client.authentication.k8s.io/exec","extension":{"audience":"east","nested":{"list":[1,"two",null,{"three":3.5}],"large":9007199254740993}}}]}}],
			"credentialProviders":[{"name":"former","cluster":{"server":"https://former.example.com"}}]}}`)
	_, err := profiles.Create(ctx, written, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	expect.NoError(t, err)
	_, err = profiles.UpdateStatus(ctx, written, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	expect.NoError(t, err)
	got := expect.Must(profiles.Get(ctx, "east", metav1.GetOptions{}))(t)
	if diff := cmp.Diff([]any{written.Object["spec"], written.Object["status"], written.GetLabels()}, []any{got.Object["spec"], got.Object["status"], got.GetLabels()}); diff != "" {
		t.Errorf("profile (-written +read): %s", diff)
	}
	decided := parse(t, `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"PlacementDecision",
		"metadata":{"name":"web-0","labels":{"multicluster.x-k8s.io/decision-key":"web","multicluster.x-k8s.io/decision-index":"0","multicluster.x-k8s.io/placement-key":"shop"}},
		"decisions":[{"clusterProfileRef":{"name":"east","namespace":"fleet"},"reason":"capacity"},{"clusterProfileRef":{"name":"west"}}],
		"schedulerName":"example"}`)
	_, err = decisions.Create(ctx, decided, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	expect.NoError(t, err)
	got = expect.Must(decisions.Get(ctx, "web-0", metav1.GetOptions{}))(t)
	for _, field := range []string{"decisions", "schedulerName"} {
		if diff := cmp.Diff(decided.Object[field], got.Object[field]); diff != "" {
			t.Errorf("%s of the decision (-written +read): %s", field, diff)
		}
	}
}

// R450: all verbs. R452: the label of the cluster manager is added.
func TestClusterProfileLifecycle(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	profiles := client(t).MulticlusterXV1alpha1().ClusterProfiles(ns)
	watcher := expect.Must(profiles.Watch(ctx, metav1.ListOptions{}))(t)
	defer watcher.Stop()
	object := profile("east", "example")
	object.Status.Version.Kubernetes = "v1.36.3"
	created := expect.Must(profiles.Create(ctx, object, metav1.CreateOptions{}))(t)
	if created.Status.Version.Kubernetes != "" || created.Generation != 1 || created.Labels[managerLabel] != "example" {
		t.Errorf("created %+v, want generation 1, a label and no status", created)
	}
	updated := created.DeepCopy()
	updated.Spec.DisplayName = "East"
	if updated = expect.Must(profiles.Update(ctx, updated, metav1.UpdateOptions{}))(t); updated.Generation != 2 {
		t.Errorf("generation %d after the spec changed, want 2", updated.Generation)
	}
	if _, err := profiles.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update from an old version: %v, want a conflict", err)
	}
	for kind, data := range map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"labels":{"merge":"1"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"labels":{"strategic":"1"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/json","value":"1"}]`,
	} {
		updated = expect.Must(profiles.Patch(ctx, "east", kind, []byte(data), metav1.PatchOptions{}))(t)
	}
	if diff := cmp.Diff(map[string]string{managerLabel: "example", "merge": "1", "strategic": "1", "json": "1"}, updated.Labels); diff != "" {
		t.Errorf("labels after three patches: %s", diff)
	}
	for i := range 3 {
		expect.Must(profiles.Create(ctx, profile(fmt.Sprintf("other-%d", i), "other"), metav1.CreateOptions{}))(t)
	}
	for _, test := range []struct {
		options metav1.ListOptions
		want    int
	}{
		{metav1.ListOptions{}, 4},
		{metav1.ListOptions{LabelSelector: managerLabel + "=other"}, 3},
		{metav1.ListOptions{FieldSelector: "metadata.name=other-1"}, 1},
	} {
		if list := expect.Must(profiles.List(ctx, test.options))(t); len(list.Items) != test.want {
			t.Errorf("list with %+v has %d profiles, want %d", test.options, len(list.Items), test.want)
		}
	}
	expect.NoError(t, profiles.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: managerLabel + "=other"}))
	expect.NoError(t, profiles.Delete(ctx, "east", metav1.DeleteOptions{}))
	if _, err := profiles.Get(ctx, "east", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v, want not found", err)
	}
	expectEvents(t, watcher, watch.Added, watch.Modified, watch.Modified, watch.Modified, watch.Modified,
		watch.Added, watch.Added, watch.Added, watch.Deleted, watch.Deleted, watch.Deleted, watch.Deleted)
}

// R450: writes to the spec cannot change the status, and status writes cannot change anything else.
func TestSpecAndStatusOfProfilesAreWrittenSeparately(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	profiles := client(t).MulticlusterXV1alpha1().ClusterProfiles(ns)
	object := expect.Must(profiles.Create(ctx, profile("east", "example"), metav1.CreateOptions{}))(t)
	both := func(change string) *v1alpha1.ClusterProfile {
		changed := object.DeepCopy()
		changed.ResourceVersion = ""
		changed.Annotations = map[string]string{"changed": change}
		changed.Spec.DisplayName = change
		changed.Status.Version.Kubernetes = change
		return changed
	}
	got := expect.Must(profiles.UpdateStatus(ctx, both("status"), metav1.UpdateOptions{}))(t)
	if got.Status.Version.Kubernetes != "status" || got.Spec.DisplayName != "" || got.Annotations != nil || got.Generation != 1 {
		t.Errorf("status write changed more than the status: %+v", got)
	}
	got = expect.Must(profiles.Update(ctx, both("spec"), metav1.UpdateOptions{}))(t)
	if got.Status.Version.Kubernetes != "status" || got.Spec.DisplayName != "spec" || got.Annotations["changed"] != "spec" {
		t.Errorf("spec write changed the status or did not change the spec: %+v", got)
	}
	if _, err := profiles.UpdateStatus(ctx, profile("absent", "example"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("status of a missing profile: %v, want not found", err)
	}
}

// R453: conditions are keyed by type, and properties and access providers by name.
func TestTwoAppliersOfAProfileDoNotOverwriteEachOther(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	profiles := inventoryOf(t, "clusterprofiles", ns)
	apply := func(manager, fields string, subresources ...string) (*v1alpha1.ClusterProfile, error) {
		t.Helper()
		object, err := profiles.Apply(ctx, "east", parse(t, `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile","metadata":{"name":"east"}%s}`, fields),
			metav1.ApplyOptions{FieldManager: manager}, subresources...)
		if err != nil {
			return nil, err
		}
		return decode[v1alpha1.ClusterProfile](t, object), nil
	}
	status := func(name string) string {
		return fmt.Sprintf(`,"status":{"conditions":[{"type":%[1]q,"status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],`+
			`"properties":[{"name":%[1]q,"value":"x"}],"accessProviders":[{"name":%[1]q,"cluster":{"server":"https://x","extensions":[{"name":"e","extension":{"a":[1]}}]}}],`+
			`"credentialProviders":[{"name":%[1]q,"cluster":{"server":"https://x"}}]}`, name)
	}
	names := func(profile *v1alpha1.ClusterProfile) map[string][]string {
		names := map[string][]string{}
		for _, entry := range profile.Status.Conditions {
			names["conditions"] = append(names["conditions"], entry.Type)
		}
		for _, entry := range profile.Status.Properties {
			names["properties"] = append(names["properties"], entry.Name)
		}
		for _, entry := range profile.Status.AccessProviders {
			names["accessProviders"] = append(names["accessProviders"], entry.Name)
		}
		for _, entry := range profile.Status.CredentialProviders { //nolint:staticcheck // deprecated, and served
			names["credentialProviders"] = append(names["credentialProviders"], entry.Name)
		}
		return names
	}
	all := func(entries ...string) map[string][]string {
		return map[string][]string{"conditions": entries, "properties": entries, "accessProviders": entries, "credentialProviders": entries}
	}
	if _, err := apply("owner", `,"spec":{"displayName":"East","clusterManager":{"name":"example"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("first", status("First"), "status"); err != nil {
		t.Fatal(err)
	}
	got, err := apply("second", status("Second"), "status")
	expect.NoError(t, err)
	if diff := cmp.Diff(all("First", "Second"), names(got)); diff != "" {
		t.Errorf("after both applied (-want +got): %s", diff)
	}
	got, err = apply("first", "", "status")
	expect.NoError(t, err)
	if diff := cmp.Diff(all("Second"), names(got)); diff != "" {
		t.Errorf("after the first applied nothing (-want +got): %s", diff)
	}
	if got.Spec.DisplayName != "East" || got.Labels[managerLabel] != "example" {
		t.Errorf("appliers of the status changed other fields: %+v", got)
	}
	_, err = apply("thief", `,"spec":{"displayName":"Mine","clusterManager":{"name":"example"}}`)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.displayName") {
		t.Errorf("apply over a field of another manager: %v, want a conflict that names the field", err)
	}
	// The manager that applied the spec does not apply the label, and does not remove it.
	got, err = apply("owner", `,"spec":{"clusterManager":{"name":"example"}}`)
	expect.NoError(t, err)
	if got.Spec.DisplayName != "" || got.Labels[managerLabel] != "example" {
		t.Errorf("after the owner applied less: %+v", got)
	}
}

// R450: all verbs.
func TestPlacementDecisionLifecycle(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	decisions := client(t).MulticlusterXV1alpha1().PlacementDecisions(ns)
	watcher := expect.Must(decisions.Watch(ctx, metav1.ListOptions{}))(t)
	defer watcher.Stop()
	apply := func(manager, fields string) (*unstructured.Unstructured, error) {
		return inventoryOf(t, "placementdecisions", ns).Apply(ctx, "web", parse(t,
			`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"PlacementDecision","metadata":{"name":"web"},%s}`, fields), metav1.ApplyOptions{FieldManager: manager})
	}
	applied, err := apply("scheduler", `"schedulerName":"example","decisions":[]`)
	expect.NoError(t, err)
	if list, ok := applied.Object["decisions"].([]any); !ok || len(list) != 0 {
		t.Errorf("an empty list is shown as %v", applied.Object["decisions"])
	}
	if _, err := apply("thief", `"decisions":[{"clusterProfileRef":{"name":"east"}}]`); !apierrors.IsConflict(err) {
		t.Errorf("apply over the decisions of another manager: %v, want a conflict", err)
	}
	got := expect.Must(decisions.Get(ctx, "web", metav1.GetOptions{}))(t)
	got.Decisions = append(got.Decisions, v1alpha1.ClusterDecision{ClusterProfileRef: v1alpha1.ClusterProfileReference{Name: "east"}})
	if got = expect.Must(decisions.Update(ctx, got, metav1.UpdateOptions{}))(t); got.Generation != 2 || len(got.Decisions) != 1 {
		t.Errorf("after an update: %+v", got)
	}
	got = expect.Must(decisions.Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"multicluster.x-k8s.io/decision-key":"web"}}}`), metav1.PatchOptions{}))(t)
	if got.Generation != 2 {
		t.Errorf("generation %d after a label was added, want 2", got.Generation)
	}
	if list := expect.Must(decisions.List(ctx, metav1.ListOptions{LabelSelector: "multicluster.x-k8s.io/decision-key=web"}))(t); len(list.Items) != 1 {
		t.Errorf("%d decisions have the key, want 1", len(list.Items))
	}
	expect.NoError(t, decisions.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "multicluster.x-k8s.io/decision-key!=web"}))
	expect.NoError(t, decisions.Delete(ctx, "web", metav1.DeleteOptions{}))
	expectEvents(t, watcher, watch.Added, watch.Modified, watch.Modified, watch.Deleted)
}

// R450: informers work, with streaming lists.
func TestInventoryInformersSync(t *testing.T) {
	if !clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		t.Fatal("the client does not use streaming lists, which this test is about")
	}
	ns, ctx := namespace(t), t.Context()
	clients := client(t)
	profiles := clients.MulticlusterXV1alpha1().ClusterProfiles(ns)
	expect.Must(profiles.Create(ctx, profile("before", "example"), metav1.CreateOptions{}))(t)
	expect.Must(clients.MulticlusterXV1alpha1().PlacementDecisions(ns).Create(ctx, &v1alpha1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Decisions: []v1alpha1.ClusterDecision{},
	}, metav1.CreateOptions{}))(t)
	factory := externalversions.NewSharedInformerFactoryWithOptions(clients, 0, externalversions.WithNamespace(ns))
	informed := factory.MulticlusterX().V1alpha1()
	profileLister, decisionLister := informed.ClusterProfiles().Lister().ClusterProfiles(ns), informed.PlacementDecisions().Lister().PlacementDecisions(ns)
	informing, stop := context.WithCancel(ctx)
	factory.Start(informing.Done())
	defer factory.Shutdown()
	defer stop()
	after := expect.Must(profiles.Create(ctx, profile("after", "example"), metav1.CreateOptions{}))(t)
	after.Status.Conditions = []metav1.Condition{condition("ControlPlaneHealthy", metav1.ConditionTrue)}
	expect.Must(profiles.UpdateStatus(ctx, after, metav1.UpdateOptions{}))(t)
	expect.NoError(t, profiles.Delete(ctx, "before", metav1.DeleteOptions{}))
	expect.Eventually(t, "profiles and decisions", func(context.Context) error {
		if _, err := decisionLister.Get("web"); err != nil {
			return err
		}
		if _, err := profileLister.Get("before"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleted profile: %w", err)
		}
		got, err := profileLister.Get("after")
		if err == nil && !meta.IsStatusConditionTrue(got.Status.Conditions, "ControlPlaneHealthy") {
			err = fmt.Errorf("profile has conditions %v", got.Status.Conditions)
		}
		return err
	})
}

// R450
func TestInventoryTables(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	clients := client(t).MulticlusterXV1alpha1()
	object := profile("east", "example")
	object.Spec.DisplayName = "East"
	object = expect.Must(clients.ClusterProfiles(ns).Create(ctx, object, metav1.CreateOptions{}))(t)
	object.Status.Version.Kubernetes = "v1.36.3"
	object.Status.Conditions = []metav1.Condition{condition("ControlPlaneHealthy", metav1.ConditionTrue)}
	expect.Must(clients.ClusterProfiles(ns).UpdateStatus(ctx, object, metav1.UpdateOptions{}))(t)
	expect.Must(clients.PlacementDecisions(ns).Create(ctx, &v1alpha1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, SchedulerName: "scheduler",
		Decisions: []v1alpha1.ClusterDecision{{ClusterProfileRef: v1alpha1.ClusterProfileReference{Name: "east"}}},
	}, metav1.CreateOptions{}))(t)
	for resource, want := range map[string]string{
		"clusterprofiles":    "NAME DISPLAY NAME MANAGER VERSION HEALTHY AGE east East example v1.36.3 True ",
		"placementdecisions": "NAME SCHEDULER CLUSTERS AGE web scheduler 1 ",
	} {
		expect.Contains(t, strings.Join(strings.Fields(kubectl(t, "get", resource, "-n", ns)), " "), want)
	}
}

// R450: a namespace with an inventory can be deleted, although the preferred version of the
// group does not have its resources.
func TestNamespaceLifecycleOfInventories(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	clients := client(t).MulticlusterXV1alpha1()
	expect.Must(clients.ClusterProfiles(ns).Create(ctx, profile("east", "example"), metav1.CreateOptions{}))(t)
	expect.Must(clients.PlacementDecisions(ns).Create(ctx, &v1alpha1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Decisions: []v1alpha1.ClusterDecision{},
	}, metav1.CreateOptions{}))(t)
	kubectl(t, "delete", "namespace", ns, "--timeout=60s")
	profiles := expect.Must(clients.ClusterProfiles(ns).List(ctx, metav1.ListOptions{}))(t)
	decisions := expect.Must(clients.PlacementDecisions(ns).List(ctx, metav1.ListOptions{}))(t)
	if len(profiles.Items) != 0 || len(decisions.Items) != 0 {
		t.Errorf("%d profiles and %d decisions outlived their namespace", len(profiles.Items), len(decisions.Items))
	}
	if _, err := clients.ClusterProfiles(ns).Create(ctx, profile("east", "example"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("create in a missing namespace: %v, want not found", err)
	}
}

// R453: the configuration of credential plugins is not interpreted.
func TestExtensionsAreKeptAsTheyAre(t *testing.T) {
	const extension = `{"z":1,"a":{"kind":"Unknown","apiVersion":"example.com/v9","large":123456789012345678901234567890,"exact":1.10}}`
	ns, ctx := namespace(t), t.Context()
	profiles := client(t).MulticlusterXV1alpha1().ClusterProfiles(ns)
	expect.Must(profiles.Create(ctx, profile("east", "example"), metav1.CreateOptions{}))(t)
	status := fmt.Sprintf(`{"status":{"accessProviders":[{"name":"a","cluster":{"server":"https://x","extensions":[{"name":"e","extension":%s}]}}]}}`, extension)
	object := expect.Must(profiles.Get(ctx, "east", metav1.GetOptions{}))(t)
	expect.NoError(t, json.Unmarshal([]byte(status), object))
	expect.Must(profiles.UpdateStatus(ctx, object, metav1.UpdateOptions{}))(t)
	got := expect.Must(profiles.Get(ctx, "east", metav1.GetOptions{}))(t)
	if kept := string(got.Status.AccessProviders[0].Cluster.Extensions[0].Extension.Raw); kept != extension {
		t.Errorf("extension\n%s\nbecame\n%s", extension, kept)
	}
}
