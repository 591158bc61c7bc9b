// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// R15, R24, R25, R26, R27, R28, R119: while any cluster exports a service, its
// import exists in exactly the clusters that have the namespace: remote only,
// remote and local, or local only.
func TestImportExistsWhereItsNamespaceExists(t *testing.T) {
	ns := fleet.CreateNamespace(t, "shop", east(), west())
	export(t, east(), ns, "web")
	east().AwaitImport(t, ns, "web", "east")
	west().AwaitImport(t, ns, "web", "east")
	awaitExported(t, north(), ns, "web.east") // the export is known in north, but not imported
	north().AwaitNoImport(t, ns, "web")
	if _, err := north().Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace was created in north: %v", err)
	}
	fleet.CreateNamespace(t, ns, north())
	north().AwaitImport(t, ns, "web", "east")

	export(t, west(), ns, "web")
	for _, cluster := range clusters.Clusters {
		cluster.AwaitImport(t, ns, "web", "east", "west")
	}
	unexport(t, east(), ns, "web")
	for _, cluster := range clusters.Clusters {
		cluster.AwaitImport(t, ns, "web", "west")
	}
	unexport(t, west(), ns, "web")
	for _, cluster := range clusters.Clusters {
		cluster.AwaitNoImport(t, ns, "web")
	}
}

// R25: a namespace that is being deleted does not count, and its deletion does
// not affect other clusters.
func TestImportGoesWithItsNamespace(t *testing.T) {
	ns := fleet.CreateNamespace(t, "closing", east(), west())
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	// A finalizer keeps the namespace in phase Terminating.
	held := expect.Must(west().Kubernetes.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}},
	}, metav1.CreateOptions{}))(t)
	if err := west().Kubernetes.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	west().AwaitNoImport(t, ns, "web")
	east().AwaitImport(t, ns, "web", "east")
	held.Finalizers = nil
	expect.Must(west().Kubernetes.CoreV1().ConfigMaps(ns).Update(t.Context(), held, metav1.UpdateOptions{}))(t)
	expect.Eventually(t, "end of the namespace", func(ctx context.Context) error {
		if _, err := west().Kubernetes.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace still exists: %w", err)
		}
		return nil
	})
	fleet.CreateNamespace(t, ns, west())
	west().AwaitImport(t, ns, "web", "east")
}

// R17, R206: no namespace is barred from exporting. Others do not import into
// namespaces of the system unless their administrators allow it.
func TestEveryNamespaceCanExport(t *testing.T) {
	export(t, east(), metav1.NamespaceDefault, "anywhere")
	west().AwaitImport(t, metav1.NamespaceDefault, "anywhere", "east")
	unexport(t, east(), metav1.NamespaceDefault, "anywhere")
	west().AwaitNoImport(t, metav1.NamespaceDefault, "anywhere")

	export(t, east(), metav1.NamespaceSystem, "anywhere")
	east().AwaitImport(t, metav1.NamespaceSystem, "anywhere", "east")
	synced := func(status metav1.ConditionStatus, message string) func(*clustersetv1alpha1.Member) error {
		return func(found *clustersetv1alpha1.Member) error {
			condition := meta.FindStatusCondition(found.Status.Conditions, "Synced")
			if condition == nil || condition.Status != status || !strings.Contains(condition.Message, message) {
				return fmt.Errorf("condition is %+v", condition)
			}
			return nil
		}
	}
	west().AwaitMember(t, "east", synced(metav1.ConditionFalse, `member may not export into namespace "kube-system"`))
	west().AwaitNoImport(t, metav1.NamespaceSystem, "anywhere")
	unexport(t, east(), metav1.NamespaceSystem, "anywhere")
	west().AwaitMember(t, "east", synced(metav1.ConditionTrue, ""))
}

// R19, R33, R123: an export without its Service contributes nothing and recovers
// when the Service is created; an export without endpoints is listed. An import
// that is created again has a new identity.
func TestImportFollowsTheService(t *testing.T) {
	ns := fleet.CreateNamespace(t, "coming", east(), west())
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	awaitExportSeen(t, east(), ns, "web")
	west().AwaitNoImport(t, ns, "web")
	expect.Must(east().Service(t.Context(), ns, "web"))(t)
	first := west().AwaitImport(t, ns, "web", "east")
	if err := east().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	west().AwaitNoImport(t, ns, "web")
	expect.Must(east().Service(t.Context(), ns, "web"))(t)
	second := west().AwaitImport(t, ns, "web", "east")
	if first.UID == second.UID || first.UID == "" || second.UID == "" {
		t.Errorf("UIDs are %q and %q, want different UIDs", first.UID, second.UID)
	}
}

// R9, R10, R11, R18: Services that are not exported, or cannot be exported, appear
// in no feed and no import, and do not affect other exporters.
func TestUnexportedServicesAppearNowhere(t *testing.T) {
	ns := fleet.CreateNamespace(t, "quiet", clusters.Clusters...)
	expect.Must(east().Service(t.Context(), ns, "private"))(t)
	expect.Must(east().EndpointSlice(t.Context(), ns, "private", []string{"10.9.0.9"}))(t)
	expect.Must(east().Service(t.Context(), ns, "outside", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	}))(t)
	expect.Must(east().Export(t.Context(), ns, "outside"))(t)
	export(t, west(), ns, "outside")
	export(t, east(), ns, "public")
	for _, cluster := range clusters.Clusters {
		awaitExported(t, cluster, ns, "public.east")
		cluster.AwaitImport(t, ns, "public", "east")
		cluster.AwaitImport(t, ns, "outside", "west")
		cluster.AwaitNoImport(t, ns, "private")
		services := expect.Must(cluster.Clientset.ClusterSetV1alpha1().ExportedServices(ns).List(t.Context(), metav1.ListOptions{}))(t)
		if len(services.Items) != 2 {
			t.Errorf("%s knows %d exported services, want public.east and outside.west", cluster.ID, len(services.Items))
		}
		slices := expect.Must(cluster.Clientset.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(t.Context(), metav1.ListOptions{}))(t)
		for _, slice := range slices.Items {
			if slice.Spec.Service == "private" || slice.Labels[multicluster.ServiceNameLabel] == "private" {
				t.Errorf("%s knows endpoints of a Service that is not exported: %+v", cluster.ID, slice)
			}
		}
	}
}

// R12, R13, R14, R34, R36, R38, R39: the import reflects the Service and the spec
// of the export, under upstream's field names, and nothing else.
func TestImportReflectsTheService(t *testing.T) {
	ns := fleet.CreateNamespace(t, "carried", east(), west())
	expect.Must(east().Service(t.Context(), ns, "web", func(s *corev1.Service) {
		s.Labels, s.Annotations = map[string]string{"private": "label"}, map[string]string{"private": "annotation"}
		s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](7)}}
		s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "http", Port: 80, AppProtocol: ptr.To("http")}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "sctp", Port: 54, Protocol: corev1.ProtocolSCTP},
		}
	}))(t)
	expect.Must(east().Export(t.Context(), ns, "web", func(e *multiclusterxv1beta1.ServiceExport) {
		e.Labels = map[string]string{"private": "label"}
		e.Spec.ExportedLabels, e.Spec.ExportedAnnotations = map[string]string{"tier": "front"}, map[string]string{"note": "x"}
	}))(t)
	found := west().AwaitImport(t, ns, "web", "east")
	spec := found.Spec
	if spec.Type != multiclusterxv1beta1.ClusterSetIP || spec.SessionAffinity != corev1.ServiceAffinityClientIP || *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds != 7 ||
		*spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal || *spec.TrafficDistribution != corev1.ServiceTrafficDistributionPreferSameZone ||
		fmt.Sprint(spec.IPFamilies) != "[IPv4 IPv6]" {
		t.Errorf("spec is %+v", spec)
	}
	want := []multiclusterxv1beta1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, AppProtocol: ptr.To("http")},
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 54},
	}
	if !equalJSON(want, spec.Ports) {
		t.Errorf("ports are %+v", spec.Ports)
	}
	annotations := map[string]string{"note": "x", multicluster.DerivedServiceAnnotation: multicluster.DerivedServiceName(ns, "web")}
	if !equalJSON(map[string]string{"tier": "front"}, found.Labels) || !equalJSON(annotations, found.Annotations) {
		t.Errorf("labels %v, annotations %v", found.Labels, found.Annotations)
	}
}

// R124: endpoints are Pod addresses with the fields that routing and DNS need, and
// follow every change.
func TestEndpointsFollowTheService(t *testing.T) {
	ns := fleet.CreateNamespace(t, "pods", east(), west())
	export(t, east(), ns, "web")
	addresses := func() string {
		list := expect.Must(west().Clientset.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(t.Context(), metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=east"}))(t)
		var found []string
		for _, slice := range list.Items {
			for _, endpoint := range slice.Spec.Endpoints {
				found = append(found, endpoint.Addresses...)
			}
		}
		return fmt.Sprint(found)
	}
	await := func(want string) {
		t.Helper()
		expect.Eventually(t, "endpoints", func(context.Context) error {
			if got := addresses(); got != want {
				return fmt.Errorf("%s, want %s", got, want)
			}
			return nil
		})
	}
	await("[10.9.0.1 10.9.0.2]")
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.2", "10.9.0.3"}))(t)
	await("[10.9.0.2 10.9.0.3]")
}

// R31, R36, R48: an import is ready when its derived Service exists, and keeps its
// IPs when that Service is deleted.
func TestImportIsReadyWithItsDerivedService(t *testing.T) {
	ns := fleet.CreateNamespace(t, "standing", east(), west())
	export(t, east(), ns, "web", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) })
	before := awaitReady(t, west(), ns, "web")
	derived := derivedService(t, west(), ns, "web")
	if fmt.Sprint(before.Spec.IPs) != fmt.Sprint(derived.Spec.ClusterIPs) || len(before.Spec.IPs) != 2 {
		t.Errorf("import has IPs %v, derived Service has %v", before.Spec.IPs, derived.Spec.ClusterIPs)
	}
	if err := west().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), derived.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "another derived Service", func(ctx context.Context) error {
		again, err := west().Kubernetes.CoreV1().Services(ns).Get(ctx, derived.Name, metav1.GetOptions{})
		if err == nil && again.UID == derived.UID {
			err = errors.New("derived Service was not replaced")
		}
		return err
	})
	after := awaitReady(t, west(), ns, "web")
	if fmt.Sprint(after.Spec.IPs) != fmt.Sprint(before.Spec.IPs) {
		t.Errorf("import had IPs %v, has %v", before.Spec.IPs, after.Spec.IPs)
	}
	if after.UID != before.UID || !after.CreationTimestamp.Equal(&before.CreationTimestamp) {
		t.Error("import was replaced")
	}
}

// R21, R110: without a ClusterSet nothing is exported or imported; joining again
// restores all exports and imports.
func TestLeavingTheClusterSetEndsExportsAndImports(t *testing.T) {
	ns := fleet.CreateNamespace(t, "leaving", clusters.Clusters...)
	export(t, east(), ns, "of-east")
	export(t, north(), ns, "of-north")
	north().AwaitImport(t, ns, "of-east", "east")
	east().AwaitImport(t, ns, "of-north", "north")
	claims := north().Clientset.MulticlusterV1().ClusterClaims()
	if err := claims.Delete(t.Context(), multicluster.ClusterSetClaim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	north().AwaitNoImport(t, ns, "of-east")
	north().AwaitNoImport(t, ns, "of-north")
	east().AwaitNoImport(t, ns, "of-north")
	west().AwaitImport(t, ns, "of-east", "east")
	if err := north().Claim(t.Context(), "north", "everywhere"); err != nil {
		t.Fatal(err)
	}
	north().AwaitImport(t, ns, "of-east", "east")
	east().AwaitImport(t, ns, "of-north", "north")
}

// awaitReady waits until an import is ready.
func awaitReady(t *testing.T, in *fleet.Cluster, ns, name string) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	awaitCondition(t, in, ns, name, multicluster.ServiceImportReady, metav1.ConditionTrue, multicluster.ServiceImportReasonReady)
	return expect.Must(in.Import(t.Context(), ns, name))(t)
}

// derivedService returns the derived Service of an import.
func derivedService(t *testing.T, in *fleet.Cluster, ns, name string) *corev1.Service {
	t.Helper()
	return expect.Must(in.Kubernetes.CoreV1().Services(ns).Get(t.Context(), multicluster.DerivedServiceName(ns, name), metav1.GetOptions{}))(t)
}

// awaitExported waits until a cluster knows an export.
func awaitExported(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	expect.Eventually(t, "exported service "+name+" in "+in.ID, func(ctx context.Context) error {
		_, err := in.Clientset.ClusterSetV1alpha1().ExportedServices(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

// awaitExportSeen waits until a cluster has processed an earlier export, by
// exporting another service and waiting for its import.
func awaitExportSeen(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	if name == "later" {
		t.Fatal(errors.New("name is already used"))
	}
	export(t, in, ns, "later")
	in.AwaitImport(t, ns, "later", in.ID)
}
