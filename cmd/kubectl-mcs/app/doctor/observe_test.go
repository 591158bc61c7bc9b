// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// observing returns an observer of a cluster with objects of Kubernetes, and of mcs-apiserver.
func observing(kubernetes []runtime.Object, mcs ...runtime.Object) (*observer, *kubernetesfake.Clientset) {
	client := kubernetesfake.NewClientset(kubernetes...)
	c := clustertest.NewCluster(mcs...)
	c.Kubernetes = client
	return &observer{Cluster: c, namespace: "shop", service: "web", registrations: aggregatorfake.NewSimpleClientset()}, client
}

var installedIn = metav1.ObjectMeta{Namespace: "tools", Name: "mcs-apiserver", Labels: map[string]string{"app.kubernetes.io/name": "mcs-apiserver"}}

// R545: what keeps replicas from being ready is read, with the latest warning.
func TestDeploymentIsObserved(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: installedIn, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mcs-apiserver", Image: "mcs-apiserver:v1"}, {Name: "mcs-controller", Image: "mcs-controller:v1"}}},
	}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: "mcs-apiserver-1", Labels: installedIn.Labels}, Status: corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{{Name: "mcs-apiserver", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}},
	}}
	event := func(name, reason string, age time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: name}, InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Name: "mcs-apiserver"},
			Type: corev1.EventTypeWarning, Reason: reason, Message: "message of " + name, LastTimestamp: clustertest.Before(age),
		}
	}
	o, _ := observing([]runtime.Object{deployment, pod, event("old", "RegistrationRefused", time.Hour), event("new", "StorageUnavailable", time.Minute), event("older", "Detached", 2*time.Hour)})
	want := diagnosis.Of(&diagnosis.Deployment{
		Namespace: "tools", Name: "mcs-apiserver", Replicas: 2, Image: "mcs-controller:v1", UnreadyBecauseOf: "Pod mcs-apiserver-1: container mcs-apiserver: CrashLoopBackOff",
		Reason: "StorageUnavailable", Message: "message of new",
	})
	if diff := cmp.Diff(want, o.deployment(t.Context(), "tools")); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	empty, _ := observing(nil)
	if got := empty.deployment(t.Context(), "tools"); got.Value != nil || got.Failure != "" {
		t.Errorf("got %+v where nothing is installed", got)
	}
}

// R546: only what the registered APIServices refer to is taken for mcs-apiserver. Users of other namespaces
// must not decide which image runs, nor whose Lease and Secrets are read.
func TestDeploymentsOfOtherNamespacesAreIgnored(t *testing.T) {
	deployed := func(namespace, image string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mcs-apiserver", Labels: installedIn.Labels}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mcs-controller", Image: image}}},
		}}}
	}
	registered := func(version, namespace string) *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + ".clusterset.mcs-apiserver.io"}, Spec: apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: "mcs-apiserver"},
		}}
	}
	for _, test := range []struct {
		name          string
		registrations []runtime.Object
		deployments   []runtime.Object
		// want is the image, and failure is a part of why it is not known.
		want, failure string
	}{
		{"registered elsewhere", []runtime.Object{registered("v1", "tools")}, []runtime.Object{deployed("attack", "evil"), deployed("mcs-system", "other"), deployed("tools", "good")}, "good", ""},
		{"only planted", []runtime.Object{registered("v1", "tools")}, []runtime.Object{deployed("attack", "evil")}, "", ""},
		{"nothing is registered", nil, []runtime.Object{deployed("attack", "evil"), deployed("mcs-system", "good")}, "good", ""},
		{"nothing is registered, only planted", nil, []runtime.Object{deployed("attack", "evil")}, "", ""},
		{"in doubt", []runtime.Object{registered("v1", "attack"), registered("v2", "mcs-system")}, []runtime.Object{deployed("attack", "evil"), deployed("mcs-system", "good")}, "", "several namespaces: attack, mcs-system"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "attack", Name: "mcs-controller"}, Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(clustertest.Noon))}}
			o, client := observing(append(test.deployments, lease), clustertest.Local())
			o.registrations = aggregatorfake.NewSimpleClientset(test.registrations...)
			found := diagnosis.Cluster{}
			o.installation(t.Context(), &found)
			image := ""
			if found.Deployment.Value != nil {
				image = found.Deployment.Value.Image
			}
			if image != test.want || found.Lease.Value != nil || !strings.Contains(found.Deployment.Failure, test.failure) || test.failure == "" && found.Deployment.Failure != "" {
				t.Errorf("got image %q, failure %q, Lease %+v", image, found.Deployment.Failure, found.Lease.Value)
			}
			for _, action := range client.Actions() {
				if action.GetNamespace() == "attack" || action.GetNamespace() == metav1.NamespaceAll {
					t.Errorf("read %s of namespace %q", action.GetResource().Resource, action.GetNamespace())
				}
			}
		})
	}
}

func TestWhyPodsAreNotReady(t *testing.T) {
	condition := func(name corev1.PodConditionType, message string) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: name, Status: corev1.ConditionFalse, Message: message}}}
	}
	state := func(state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: state}}}
	}
	for want, status := range map[string]corev1.PodStatus{
		"":                                       {},
		"0/1 nodes":                              condition(corev1.PodScheduled, "0/1 nodes"),
		"containers with unready status: [b]":    condition(corev1.PodReady, "containers with unready status: [b]"),
		"container a: ErrImagePull: no such tag": state(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such tag"}}),
		"container a ended with exit code 1":     state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}),
	} {
		if got := whyNotReady(&corev1.Pod{Status: status}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// R545: the Lease of mcs-controller tells which replica leads.
func TestLeaseIsObserved(t *testing.T) {
	o, _ := observing([]runtime.Object{&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: "mcs-controller"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("pod-1"), LeaseDurationSeconds: ptr.To[int32](5), RenewTime: ptr.To(metav1.NewMicroTime(clustertest.Noon)),
	}}})
	want := diagnosis.Of(&diagnosis.Lease{Namespace: "tools", Name: "mcs-controller", Holder: "pod-1", Renewed: clustertest.Noon, Duration: 5 * time.Second})
	before := time.Now()
	got := o.lease(t.Context(), "tools")
	if read := got.Value.ReadAt; read.Before(before) || read.After(time.Now()) {
		t.Errorf("read at %s", read)
	}
	got.Value.ReadAt = time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	if got := o.lease(t.Context(), "mcs-system"); got.Value != nil || got.Failure != "" {
		t.Errorf("got %+v where there is none", got)
	}
}

// R545: the expiry of declared and of renewed credentials is read.
func TestCredentialsAreObserved(t *testing.T) {
	issued := time.Now().Truncate(time.Second)
	expires := issued.Add(time.Hour)
	member, err := plan.NewMemberSecret("mcs-system", plan.Membership{
		ID: "west", Access: plan.Access{Server: "https://west.invalid"}, Token: membertest.Token(t, issued, time.Hour), Secret: "member-west",
	})
	if err != nil {
		t.Fatal(err)
	}
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "other"}, Data: member.Data}
	o, _ := observing([]runtime.Object{member, other})
	got := o.credentials(t.Context(), "mcs-system")
	if got.Failure != "" || len(got.Value) != 1 || got.Value[0].ClusterID != "west" || got.Value[0].Secret != "member-west" || !got.Value[0].Expires.Equal(expires) {
		t.Errorf("got %+v", got)
	}
}

// R543: what is forbidden is not read, with the permission that is missing.
func TestForbidden(t *testing.T) {
	o, client := observing(nil)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "", nil)
		err.ErrStatus.Message = `secrets is forbidden: User "dev" cannot list resource "secrets"`
		return true, nil, err
	})
	found := diagnosis.Cluster{}
	o.installation(t.Context(), &found)
	path := o.path(t.Context(), true)
	for what, failure := range map[string]string{
		"deployment": found.Deployment.Failure, "lease": found.Lease.Failure, "credentials": found.Credentials.Failure,
		"namespace": path.Namespace.Failure, "service": path.Service.Failure, "derived": path.Derived.Failure, "slices": path.Slices.Failure, "policies": path.Egress.Failure,
	} {
		if !strings.Contains(failure, "permission denied: ask for this permission") || !strings.Contains(failure, `cannot list resource "secrets"`) {
			t.Errorf("%s: %q", what, failure)
		}
	}
}

// R545: everything on the path of a service is read.
func TestPathIsObserved(t *testing.T) {
	derived := clustertest.NewService(multicluster.DerivedServiceName("shop", "web"))
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{discoveryv1.LabelServiceName: derived.Name}}}
	foreign := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}}
	policy := func(name string, kind networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{kind}}}
	}
	other := policy("of another application", networkingv1.PolicyTypeEgress)
	other.Spec.PodSelector.MatchLabels = map[string]string{"app": "other"}
	selected := policy("selected", networkingv1.PolicyTypeEgress)
	selected.Spec.PodSelector.MatchLabels = map[string]string{"app": "web"}
	o, _ := observing([]runtime.Object{
		other, selected, derived, slice, foreign, clustertest.NewService("web"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		policy("in", networkingv1.PolicyTypeIngress), policy("out", networkingv1.PolicyTypeEgress),
	}, clustertest.NewExported("west", time.Hour), clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1"), clustertest.NewImport(), clustertest.NewServiceExport("web"))
	o.podLabels = podLabels(map[string]string{"app": "web"})
	path := o.path(t.Context(), true)
	if len(path.Exports.Value) != 1 || len(path.Endpoints.Value) != 1 || path.ServiceExport.Value == nil || path.Service.Value == nil || path.Namespace.Value == nil ||
		path.Import.Value == nil || path.Derived.Value == nil || len(path.Slices.Value) != 1 || !cmp.Equal(path.Egress.Value, []string{"out", "selected"}) {
		t.Errorf("got %+v", path)
	}
	if other := o.path(t.Context(), false); other.Import.Value != nil || other.Service.Value == nil || other.ServiceExport.Value == nil {
		t.Errorf("got %+v of another cluster", other)
	}
	inOffice := clustertest.NewExported("west", time.Hour)
	inOffice.Namespace = "office"
	o, _ = observing(nil, inOffice)
	if path := o.path(t.Context(), true); !cmp.Equal(path.Elsewhere, []string{"office"}) || path.Namespace.Value != nil || path.Namespace.Failure != "" || path.Import.Value != nil || path.Import.Failure != "" {
		t.Errorf("got %+v", path)
	}
}

func TestAPIIsNotServed(t *testing.T) {
	o, _ := observing(nil)
	clustertest.FakeOf(o.Cluster).PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("no endpoints")
	})
	found := diagnosis.Cluster{}
	o.installation(t.Context(), &found)
	if path := o.path(t.Context(), true); !found.Members.Unserved || !path.Import.Unserved || !strings.Contains(found.Members.Failure, "not available") {
		t.Errorf("got %+v, %+v", found.Members, path.Import)
	}
}

// R548: the Pod tries the IPs of the service, and some ready endpoints of every cluster.
func TestTargets(t *testing.T) {
	imported := clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.IPs = append(i.Spec.IPs, "fd00::7")
		i.Spec.Ports = append(i.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53})
	})
	slice := func(cluster string, addresses ...string) discoveryv1.EndpointSlice {
		source := clustertest.NewSlice(cluster, discoveryv1.AddressTypeIPv4, addresses...)
		ports := append(source.Spec.Ports, discoveryv1.EndpointPort{Port: ptr.To[int32](5353), Protocol: ptr.To(corev1.ProtocolUDP)}, discoveryv1.EndpointPort{})
		return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{multicluster.SourceClusterLabel: cluster}}, AddressType: source.Spec.AddressType, Endpoints: source.Spec.Endpoints, Ports: ports}
	}
	facts := diagnosis.Facts{Namespace: "shop", Service: "web"}
	facts.Importing.Path = diagnosis.Path{Import: diagnosis.Of(imported), Slices: diagnosis.Of([]discoveryv1.EndpointSlice{
		slice("west", "!10.2.0.9", "10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4"), slice("north", "10.3.0.1"),
	})}
	found := newTargets(facts)
	want, ips := []string{"10.2.0.1:8080", "10.2.0.2:8080", "10.2.0.3:8080", "10.3.0.1:8080"}, []string{"10.0.0.7:80", "[fd00::7]:80"}
	if diff := cmp.Diff(want, found.request.Addresses); diff != "" || found.request.Name != "web.shop.svc.clusterset.local" || !cmp.Equal(found.request.ServiceAddresses, ips) || found.clusters["10.3.0.1:8080"] != "north" {
		t.Errorf("got %+v (-want +got):\n%s", found, diff)
	}
	facts.Importing.Path.Import.Value.Spec.Type, facts.Importing.Path.Import.Value.Spec.IPs = multiclusterxv1beta1.Headless, nil
	if found := newTargets(facts); len(found.request.ServiceAddresses) > 0 || !cmp.Equal(found.request.Addresses, want) {
		t.Errorf("headless: got %+v", found)
	}
	derived := clustertest.NewService("derived", func(service *corev1.Service) {
		service.Spec.ClusterIPs, service.Spec.Ports = []string{"10.0.0.7"}, []corev1.ServicePort{{Port: 80}, {Port: 53, Protocol: corev1.ProtocolUDP}}
	})
	derived.Spec.ClusterIPs = append(derived.Spec.ClusterIPs, "fd00::7") // of a family without endpoints
	facts.Importing.Path = diagnosis.Path{
		Import: diagnosis.Failed[*multiclusterxv1beta1.ServiceImport]("not served"), Derived: diagnosis.Of(derived), Slices: diagnosis.Of([]discoveryv1.EndpointSlice{slice("west", "10.2.0.1")}),
	}
	if found := newTargets(facts); !cmp.Equal(found.request.Addresses, want[:1]) || !cmp.Equal(found.request.ServiceAddresses, ips[:1]) {
		t.Errorf("without import: got %+v", found)
	}
}

// R548: of many clusters, fewer endpoints are tried, so that the Pod completes in time.
func TestTargetsAreLimited(t *testing.T) {
	facts := diagnosis.Facts{Namespace: "shop", Service: "web"}
	facts.Importing.Path.Import = diagnosis.Of(clustertest.NewImport())
	add := func(from, to int) {
		for i := from; i < to; i++ {
			source := clustertest.NewSlice(fmt.Sprintf("c%d", i), discoveryv1.AddressTypeIPv4, fmt.Sprintf("10.%d.0.1", i), fmt.Sprintf("10.%d.0.2", i), fmt.Sprintf("10.%d.0.3", i))
			facts.Importing.Path.Slices.Value = append(facts.Importing.Path.Slices.Value, discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{multicluster.SourceClusterLabel: source.Spec.Cluster}}, Endpoints: source.Spec.Endpoints, Ports: source.Spec.Ports,
			})
		}
	}
	for _, step := range []struct{ clusters, want int }{{80, 80 * 3}, {120, 120 * 2}, {250, 250}, {300, maxAddresses}} {
		add(len(facts.Importing.Path.Slices.Value), step.clusters)
		if got := newTargets(facts).request; len(got.Addresses) != step.want || !slices.Equal(got.ServiceAddresses, []string{"10.0.0.7:80"}) {
			t.Errorf("%d clusters: %d addresses, want %d", step.clusters, len(got.Addresses), step.want)
		}
	}
}

// R543: members that may not be read are not taken for none.
func TestMembersAreForbidden(t *testing.T) {
	o, _ := observing(nil, clustertest.Local())
	clustertest.WithoutMembers(o.Cluster)
	found := diagnosis.Cluster{}
	o.installation(t.Context(), &found)
	if found.Members.Failure == "" || found.Members.Unserved {
		t.Errorf("got %+v", found.Members)
	}
}
