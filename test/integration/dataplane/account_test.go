// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// accountPolicy ends the names of all policies for the account.
const accountPolicy = "account.mcs-apiserver.io"

// intruder has the credential of mcs-apiserver and mcs-controller. Its writes are dry runs:
// they are authorized and admitted like others, and can be repeated until the policy has an
// effect.
type intruder struct {
	kubernetes.Interface
	aggregator aggregator.Interface
	own        versioned.Interface
	crds       dynamic.ResourceInterface
	// namespace has the exported Service web, and derived is its derived Service.
	namespace, derived string
}

// newIntruder exports a Service in a new namespace of west, which has a quota, and waits until
// it is imported there.
func newIntruder(t *testing.T, namespace string) *intruder {
	t.Helper()
	ns := fleet.CreateNamespace(t, namespace, west())
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	awaitEndpoints(t, west(), ns, "web", from{"west": {"10.8.0.1"}})
	expect.Must(west().Kubernetes.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: named("quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServices: resource.MustParse("100")}},
	}, metav1.CreateOptions{}))(t)
	config := expect.Must(west().Plane.AdminConfig())(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:mcs-system:mcs-apiserver"}
	return &intruder{
		Interface:  expect.Must(kubernetes.NewForConfig(config))(t),
		aggregator: expect.Must(aggregator.NewForConfig(config))(t),
		own:        expect.Must(versioned.NewForConfig(config))(t),
		crds:       expect.Must(dynamic.NewForConfig(config))(t).Resource(apiconflict.CRDResource),
		namespace:  ns, derived: multicluster.DerivedServiceName(ns, "web"),
	}
}

// attempt is a write of an intruder.
type attempt func(context.Context) error

type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

var dryRun = []string{metav1.DryRunAll}

func create[T any](client client[T], object T) attempt {
	return func(ctx context.Context) error {
		_, err := client.Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

// update changes an object that readable, the administrator's client, returns.
func update[T any](client, readable client[T], name string, change func(T)) attempt {
	return func(ctx context.Context) error {
		object, err := readable.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(object)
		_, err = client.Update(ctx, object, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
}

func remove[T any](client client[T], name string) attempt {
	return func(ctx context.Context) error { return client.Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun}) }
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// labels marks an object as derived from an import.
func labels(object metav1.Object) {
	object.SetLabels(map[string]string{
		multicluster.ServiceNameLabel: "web", multicluster.ManagedByLabel: multicluster.ManagedBy,
		discoveryv1.LabelManagedBy: multicluster.ManagedBy, discoveryv1.LabelServiceName: "web",
	})
}

func (i *intruder) services() map[string]attempt {
	services, admin := i.CoreV1().Services(i.namespace), west().Kubernetes.CoreV1().Services(i.namespace)
	derived := func(change func(*corev1.Service)) attempt { return update(services, admin, i.derived, change) }
	spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	return map[string]attempt{
		"change a Service":            update(services, admin, "web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }),
		"label a Service as derived":  update(services, admin, "web", func(s *corev1.Service) { labels(s) }),
		"delete a Service":            remove(services, "web"),
		"create a Service":            create(services, &corev1.Service{ObjectMeta: named("other"), Spec: spec}),
		"create an unlabeled Service": create(services, &corev1.Service{ObjectMeta: named("derived-0123456789"), Spec: spec}),
		"unlabel a derived Service":   derived(func(s *corev1.Service) { s.Labels = nil }),
		"select Pods":                 derived(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }),
		"take over an address":        derived(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }),
		"open a node port":            derived(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
		"order a load balancer":       derived(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }),
		"be an alias": derived(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
		}),
		"change the status of a Service": func(ctx context.Context) error {
			service, err := admin.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			service.Status.Conditions = []metav1.Condition{{Type: "Forged", Status: metav1.ConditionTrue, Reason: "Forged", LastTransitionTime: metav1.Now()}}
			_, err = services.UpdateStatus(ctx, service, metav1.UpdateOptions{DryRun: dryRun})
			return err
		},
	}
}

func (i *intruder) slices(imported string) map[string]attempt {
	slices, admin := i.DiscoveryV1().EndpointSlices(i.namespace), west().Kubernetes.DiscoveryV1().EndpointSlices(i.namespace)
	forged := &discoveryv1.EndpointSlice{ObjectMeta: named("forged"), AddressType: discoveryv1.AddressTypeIPv4}
	labels(forged)
	derivedFrom := forged.DeepCopy()
	delete(derivedFrom.Labels, multicluster.ServiceNameLabel)
	derivedFrom.Labels[multicluster.DerivedFromLabel] = "web"
	return map[string]attempt{
		"change an EndpointSlice":                         update(slices, admin, "web-ipv4", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.0.2.1" }),
		"label an EndpointSlice as imported":              update(slices, admin, "web-ipv4", func(s *discoveryv1.EndpointSlice) { labels(s) }),
		"delete an EndpointSlice":                         remove(slices, "web-ipv4"),
		"add endpoints to a Service":                      create(slices, forged),
		"add endpoints to a Service, as of a derived one": create(slices, derivedFrom),
		"move endpoints to a Service":                     update(slices, admin, imported, func(s *discoveryv1.EndpointSlice) { labels(s) }),
		"unlabel an imported EndpointSlice": update(slices, admin, imported, func(s *discoveryv1.EndpointSlice) {
			delete(s.Labels, multicluster.ServiceNameLabel)
		}),
	}
}

// installationObjects are attempts in the namespaces of the installation.
func (i *intruder) installationObjects() map[string]attempt {
	secrets, admin := i.CoreV1().Secrets(installation.Namespace), west().Kubernetes.CoreV1().Secrets(installation.Namespace)
	member := func(change func(*corev1.Secret)) attempt {
		return update(secrets, admin, clusterset.MemberSecretName("east"), change)
	}
	return map[string]attempt{
		"create a Secret": create(secrets, &corev1.Secret{ObjectMeta: named("other")}),
		"get the token of another account": create(secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{corev1.ServiceAccountNameKey: clusterset.PeerAccountName("east")}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}),
		"change a Secret": update(secrets, admin, "of-the-administrator", func(s *corev1.Secret) { s.Data = map[string][]byte{"a": []byte("c")} }),
		"make a member":   create(secrets, &corev1.Secret{ObjectMeta: named("member-other"), Type: clusterset.MemberSecretType}),
		"grant a member more namespaces": member(func(s *corev1.Secret) {
			s.Data[clusterset.MemberSecretAllowedNamespaces] = []byte("kube-system")
		}),
		"renew the credential in a member Secret":  member(func(s *corev1.Secret) { s.Data[clusterset.MemberSecretKubeconfig] = []byte("renewed") }), // R385
		"keep a renewed credential":                create(secrets, renewedCredential("other", func(s *corev1.Secret) { s.Finalizers = []string{"example.com/keep"} })),
		"hide data in a renewed credential":        create(secrets, renewedCredential("other", func(s *corev1.Secret) { s.Data["x"] = nil })),
		"seal a renewed credential":                create(secrets, renewedCredential("other", func(s *corev1.Secret) { s.Immutable = ptr.To(true) })),
		"name a renewed credential otherwise":      create(secrets, renewedCredential("other", func(s *corev1.Secret) { s.Name = "other" })),
		"let a ConfigMap own a renewed credential": create(secrets, renewedCredential("other", func(s *corev1.Secret) { s.OwnerReferences = owner() })),
		"block the deletion of a member": create(secrets, renewedCredential("other", func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "member-east", UID: "x", BlockOwnerDeletion: ptr.To(true)}}
		})),
		"revoke the ID of a member":  member(func(s *corev1.Secret) { delete(s.Data, clusterset.MemberSecretClusterID) }),
		"annotate a member":          member(func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} }),
		"label a member":             member(func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }),
		"own a member":               member(func(s *corev1.Secret) { s.OwnerReferences = owner() }),
		"keep a member":              member(func(s *corev1.Secret) { s.Finalizers = []string{"example.com/keep"} }),
		"seal a member":              member(func(s *corev1.Secret) { s.Immutable = ptr.To(true) }),
		"create a ConfigMap":         create(i.CoreV1().ConfigMaps(installation.Namespace), &corev1.ConfigMap{ObjectMeta: named("other")}),
		"detach the API":             create(i.CoreV1().ConfigMaps(installation.Namespace), &corev1.ConfigMap{ObjectMeta: named(clusterset.DetachedConfigMap)}),
		"migrate":                    create(i.CoreV1().ConfigMaps(installation.Namespace), &corev1.ConfigMap{ObjectMeta: named(clusterset.MigrationConfigMap)}), // R474
		"create a Lease":             create(i.CoordinationV1().Leases(installation.Namespace), &coordinationv1.Lease{ObjectMeta: named("other")}),
		"change the status of a Pod": i.patchPod("of-the-administrator", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
		"move a Pod of ours":         i.patchPod("ours", `{"status":{"podIPs":[{"ip":"192.0.2.1"}],"podIP":"192.0.2.1"}}`),
		"mark a Pod as ready":        i.patchPod("ours", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
		"let Pods of its namespace do anything": func(ctx context.Context) error {
			_, err := i.CoreV1().Namespaces().Patch(ctx, installation.Namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		},
		"show a cluster of another manager": create(i.own.MulticlusterXV1alpha1().ClusterProfiles(installation.Namespace), &multiclusterxv1alpha1.ClusterProfile{
			ObjectMeta: named("other"), Spec: multiclusterxv1alpha1.ClusterProfileSpec{ClusterManager: multiclusterxv1alpha1.ClusterManager{Name: "other"}},
		}),
		"redirect clients of a member": func(ctx context.Context) error {
			profile, err := west().Clientset.MulticlusterXV1alpha1().ClusterProfiles(installation.Namespace).Get(ctx, "east", metav1.GetOptions{})
			if err != nil {
				return err
			}
			profile.Status.AccessProviders = []multiclusterxv1alpha1.AccessProvider{{Name: "other", Cluster: multiclusterxv1alpha1.Cluster{Server: "https://192.0.2.1"}}}
			_, err = i.own.MulticlusterXV1alpha1().ClusterProfiles(installation.Namespace).UpdateStatus(ctx, profile, metav1.UpdateOptions{DryRun: dryRun})
			return err
		},
		// The kube-apiserver itself keeps the owners of a Pod.
		"label a Pod of ours":    i.patchPod("ours", `{"metadata":{"labels":{"a":"b"}}}`),
		"annotate a Pod of ours": i.patchPod("ours", `{"metadata":{"annotations":{"a":"b"}}}`),
		"keep a Pod of ours":     i.patchPod("ours", `{"metadata":{"finalizers":["example.com/keep"]}}`),
	}
}

func (i *intruder) patchPod(name, patch string) attempt {
	return func(ctx context.Context) error {
		_, err := i.CoreV1().Pods(installation.Namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	}
}

func (i *intruder) clusterObjects() map[string]attempt {
	apiServices := i.aggregator.ApiregistrationV1().APIServices()
	ours := func(change func(*apiregistrationv1.APIService)) attempt {
		return update(apiServices, west().Aggregator.ApiregistrationV1().APIServices(), "v1.multicluster.k8s.io", change)
	}
	return map[string]attempt{
		"define a resource":           i.define(func(d *unstructured.Unstructured) { rename(d, "widgets.example.com") }),
		"define resources of another": i.define(func(d *unstructured.Unstructured) { d.SetLabels(nil) }),
		"convert resources": i.define(func(d *unstructured.Unstructured) {
			_ = unstructured.SetNestedMap(d.Object, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://192.0.2.1/"},
			}}, "spec", "conversion")
		}),
		"register another API": create(apiServices, &apiregistrationv1.APIService{
			ObjectMeta: named("v1.example.com"),
			Spec: apiregistrationv1.APIServiceSpec{Group: "example.com", Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1,
				Service: &apiregistrationv1.ServiceReference{Namespace: installation.Namespace, Name: "mcs-apiserver"}},
		}),
		"serve the API elsewhere":       ours(func(a *apiregistrationv1.APIService) { a.Spec.Service.Namespace = "default" }),
		"serve the API without a check": ours(func(a *apiregistrationv1.APIService) { a.Spec.CABundle, a.Spec.InsecureSkipTLSVerify = nil, true }),
		"change the usage of a quota":   i.changeQuota(uses(corev1.ResourceServices)),
		"label a quota":                 i.changeQuota(func(q *corev1.ResourceQuota) { q.Labels = map[string]string{"a": "b"} }),
		"annotate a quota":              i.changeQuota(func(q *corev1.ResourceQuota) { q.Annotations = map[string]string{"a": "b"} }),
		"let a quota be collected":      i.changeQuota(func(q *corev1.ResourceQuota) { q.OwnerReferences = owner() }),
		"keep a quota":                  i.changeQuota(func(q *corev1.ResourceQuota) { q.Finalizers = []string{"example.com/keep"} }),
		"report an Event as another":    create(i.EventsV1().Events(i.namespace), i.event("kubelet")),
		"make a claim": create(i.own.MulticlusterV1().ClusterClaims(), &multiclusterv1.ClusterClaim{
			ObjectMeta: named("region.example.com"), Spec: multiclusterv1.ClusterClaimSpec{Value: "here"},
		}),
	}
}

// define creates a CustomResourceDefinition that mcs-controller publishes, changed.
func (i *intruder) define(change func(*unstructured.Unstructured)) attempt {
	return func(ctx context.Context) error {
		definitions, err := crd.Definitions()
		if err != nil {
			return err
		}
		definitions[0].SetLabels(apiconflict.RegisteredLabels)
		change(definitions[0])
		_, err = i.crds.Create(ctx, definitions[0], metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

// rename renames a CustomResourceDefinition, and what it defines.
func rename(definition *unstructured.Unstructured, name string) {
	plural, group, _ := strings.Cut(name, ".")
	definition.SetName(name)
	_ = unstructured.SetNestedField(definition.Object, group, "spec", "group")
	_ = unstructured.SetNestedMap(definition.Object, map[string]any{"plural": plural, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}, "spec", "names")
}

// owner is an owner that does not exist: the garbage collector deletes what it owns.
func owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "gone"}}
}

// uses changes the usage of a resource in a quota.
func uses(name corev1.ResourceName) func(*corev1.ResourceQuota) {
	return func(quota *corev1.ResourceQuota) {
		if quota.Status.Used == nil {
			quota.Status.Used = corev1.ResourceList{}
		}
		quota.Status.Used[name] = resource.MustParse("7")
	}
}

// changeQuota updates the quota of the namespace through its status.
func (i *intruder) changeQuota(change func(*corev1.ResourceQuota)) attempt {
	return func(ctx context.Context) error {
		quota, err := i.CoreV1().ResourceQuotas(i.namespace).Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(quota)
		_, err = i.CoreV1().ResourceQuotas(i.namespace).UpdateStatus(ctx, quota, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
}

func (i *intruder) event(controller string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: i.namespace}, EventTime: metav1.NowMicro(), ReportingController: controller, ReportingInstance: "one",
		Type: corev1.EventTypeNormal, Reason: "Forged", Action: "Forge", Regarding: corev1.ObjectReference{Kind: "Service", Namespace: i.namespace, Name: "web"},
	}
}

// renewedCredential returns a renewed credential of a member.
func renewedCredential(member string, changes ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.RenewedSecretName(clusterset.MemberSecretName(member))}, Type: clusterset.RenewedSecretType,
		Data: map[string][]byte{"v1-" + strings.Repeat("0", 64): []byte("renewed")},
	}
	for _, change := range changes {
		change(secret)
	}
	return secret
}

// bystanders creates objects in the namespace of the installation: a Secret and a Pod of the
// administrator, and a Pod of mcs-apiserver.
func bystanders(t *testing.T) {
	t.Helper()
	core := west().Kubernetes.CoreV1()
	expect.Must(core.Secrets(installation.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: named("of-the-administrator")}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		expect.NoError(t, core.Secrets(installation.Namespace).Delete(context.Background(), "of-the-administrator", metav1.DeleteOptions{}))
	})
	for name, app := range map[string]string{"of-the-administrator": "other", "ours": "mcs-apiserver"} {
		expect.Must(core.Pods(installation.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": app}},
			Spec: corev1.PodSpec{
				ServiceAccountName: "mcs-apiserver", // that of the namespace may not have been created yet
				SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: "main", Image: "main", SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				}}},
			},
		}, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			expect.NoError(t, core.Pods(installation.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		})
	}
}

// R260: with the credential of mcs-apiserver and mcs-controller, no objects of others can be
// written, although RBAC allows it: the error is that of the policy.
func TestAccountIsConfinedToItsOwnObjects(t *testing.T) {
	intruder := newIntruder(t, "confined")
	bystanders(t)
	imported := expect.Must(importedSlices(t.Context(), west(), intruder.namespace, "web"))(t)
	for _, attempts := range []map[string]attempt{
		intruder.services(), intruder.slices(imported[0].Name), intruder.installationObjects(), intruder.clusterObjects(),
	} {
		for what, write := range attempts {
			t.Run(what, func(t *testing.T) {
				expect.Eventually(t, "refusal", func(ctx context.Context) error {
					err := write(ctx)
					if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), accountPolicy) {
						return fmt.Errorf("error is %w, want that of policy %s", orNone(err), accountPolicy)
					}
					return nil
				})
			})
		}
	}
}

// requestToken requests a token of a service account in the namespace of the installation.
func (i *intruder) requestToken(name string) attempt {
	return func(ctx context.Context) error {
		_, err := i.CoreV1().ServiceAccounts(installation.Namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

// R474: RBAC refuses to write what is copied from CRDs, and to act as any service account but
// the one that exists during a migration.
func TestAccountMayNotWriteWhatIsCopiedFromCRDs(t *testing.T) {
	intruder := newIntruder(t, "uncopied")
	exports, admin := intruder.own.MulticlusterXV1beta1().ServiceExports(intruder.namespace), west().Clientset.MulticlusterXV1beta1().ServiceExports(intruder.namespace)
	for what, write := range map[string]attempt{
		"create a ServiceExport": create(exports, &multiclusterxv1beta1.ServiceExport{ObjectMeta: named("other")}),
		"update a ServiceExport": update(exports, admin, "web", func(e *multiclusterxv1beta1.ServiceExport) { e.Annotations = map[string]string{"a": "b"} }),
		"delete a ServiceExport": remove(exports, "web"),
		"create a PlacementDecision": create(intruder.own.MulticlusterXV1alpha1().PlacementDecisions(intruder.namespace),
			&multiclusterxv1alpha1.PlacementDecision{ObjectMeta: named("other")}),
		"act as another service account": intruder.requestToken("default"),
		"act as itself":                  intruder.requestToken("mcs-apiserver"),
	} {
		t.Run(what, func(t *testing.T) {
			if err := write(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot") {
				t.Errorf("error is %v, want that of RBAC", orNone(err))
			}
		})
	}
	if err := intruder.requestToken(crdmigration.Account)(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("error for the service account that copies is %v, want that it does not exist without a migration", orNone(err))
	}
}

func orNone(err error) error {
	if err == nil {
		return errors.New("none")
	}
	return err
}

// R260: what the two programs write is allowed, and imports are kept up to date.
func TestAccountMayWriteItsOwnObjects(t *testing.T) {
	intruder := newIntruder(t, "unhindered")
	bystanders(t)
	imported := expect.Must(importedSlices(t.Context(), west(), intruder.namespace, "web"))(t)
	core, admin, ns := intruder.CoreV1(), west().Kubernetes, intruder.namespace
	for what, write := range map[string]attempt{
		"delete a derived Service":         remove(core.Services(ns), intruder.derived),
		"delete an imported EndpointSlice": remove(intruder.DiscoveryV1().EndpointSlices(ns), imported[0].Name),
		"restore an imported EndpointSlice": update(intruder.DiscoveryV1().EndpointSlices(ns), admin.DiscoveryV1().EndpointSlices(ns), imported[0].Name,
			func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }),
		"give a derived Service a shared ClusterSet IP": update(core.Services(ns), admin.CoreV1().Services(ns), intruder.derived, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(clusterset.GroupName+"/clusterset-ip")
		}),
		"change the type of a derived Service": update(core.Services(ns), admin.CoreV1().Services(ns), intruder.derived, func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web." + ns + ".svc.clusterset.local"}
		}),
		"renew a peer credential":       create(core.Secrets(installation.Namespace), renewedCredential("east")),
		"take a replica out of service": intruder.patchPod("ours", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
		"count an export":               intruder.changeQuota(uses("count/serviceexports.multicluster.x-k8s.io")),
		"count a profile":               intruder.changeQuota(uses("count/clusterprofiles.multicluster.x-k8s.io")),
		"count a decision":              intruder.changeQuota(uses("count/placementdecisions.multicluster.x-k8s.io")),
		"report an Event":               create(intruder.EventsV1().Events(ns), intruder.event("mcs-controller")),
	} {
		t.Run(what, func(t *testing.T) { // others, such as the quota controller, write as well
			expect.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { return write(t.Context()) }))
		})
	}
	expect.Must(west().EndpointSlice(t.Context(), ns, "web", []string{"10.8.0.2"}))(t)
	awaitEndpoints(t, west(), ns, "web", from{"west": {"10.8.0.2"}})
}
