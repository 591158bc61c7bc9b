// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// R46, R70, R71, R72, R73, R77: imports, from other clusters and from this one,
// have a derived Service and slices in every cluster, each slice of one source
// cluster; existing objects are not written.
func TestExportsBecomeServicesAndSlices(t *testing.T) {
	ns := fleet.CreateNamespace(t, "shop", east(), west())
	withNodes := func(slice *discoveryv1.EndpointSlice) {
		for i := range slice.Endpoints {
			slice.Endpoints[i].NodeName, slice.Endpoints[i].Zone = ptr.To("node-1"), ptr.To("z1")
		}
	}
	versions := map[string]string{}
	for cluster, addresses := range map[*fleet.Cluster][]string{east(): {"10.9.0.1", "10.9.0.2"}, west(): {"10.8.0.1"}} {
		service := expect.Must(cluster.Service(t.Context(), ns, "web", func(s *corev1.Service) {
			s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
		}))(t)
		slice := expect.Must(cluster.EndpointSlice(t.Context(), ns, "web", addresses, withNodes))(t)
		versions[cluster.ID] = service.ResourceVersion + " " + slice.ResourceVersion
	}
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	for _, cluster := range clusters.Clusters {
		service, slices := awaitEndpoints(t, cluster, ns, "web", from{"east": {"10.9.0.1", "10.9.0.2"}})
		checkService(t, service)
		checkSlices(t, cluster, service, slices)
	}
	expect.Must(west().Export(t.Context(), ns, "web"))(t)
	for _, cluster := range clusters.Clusters {
		service, slices := awaitEndpoints(t, cluster, ns, "web", from{"east": {"10.9.0.1", "10.9.0.2"}, "west": {"10.8.0.1"}})
		checkSlices(t, cluster, service, slices)
		found := awaitImport(t, cluster, ns, metav1.ConditionTrue)
		if fmt.Sprint(found.Spec.IPs) != fmt.Sprintf("[%s]", service.Spec.ClusterIP) {
			t.Errorf("%s: import has IPs %v, derived Service has %s", cluster.ID, found.Spec.IPs, service.Spec.ClusterIP)
		}
	}
	// R74: the slices of a cluster are removed with its export; others stay.
	unexport(t, east(), ns)
	for _, cluster := range clusters.Clusters {
		awaitEndpoints(t, cluster, ns, "web", from{"west": {"10.8.0.1"}})
	}
	unexport(t, west(), ns)
	for _, cluster := range clusters.Clusters {
		awaitNothing(t, cluster, ns, "web")
		service := expect.Must(cluster.Kubernetes.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		slice := expect.Must(cluster.Kubernetes.DiscoveryV1().EndpointSlices(ns).Get(t.Context(), "web-ipv4", metav1.GetOptions{}))(t)
		if now := service.ResourceVersion + " " + slice.ResourceVersion; now != versions[cluster.ID] {
			t.Errorf("%s: exported Service or its slice was written: versions %s, then %s", cluster.ID, versions[cluster.ID], now)
		}
	}
}

func checkService(t *testing.T, service *corev1.Service) {
	t.Helper()
	if service.Labels[multicluster.ServiceNameLabel] != "web" || service.Spec.Type != corev1.ServiceTypeClusterIP || service.Spec.Selector != nil ||
		service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone || len(service.Spec.Ports) != 2 {
		t.Errorf("derived Service is %+v with labels %v", service.Spec, service.Labels)
	}
}

func checkSlices(t *testing.T, in *fleet.Cluster, service *corev1.Service, slices []discoveryv1.EndpointSlice) {
	t.Helper()
	for _, slice := range slices {
		source := slice.Labels[multicluster.SourceClusterLabel]
		if slice.Labels[multicluster.ServiceNameLabel] != "web" || slice.Labels[discoveryv1.LabelManagedBy] != multicluster.ManagedBy ||
			clusters.Cluster(source) == nil || len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != service.UID || len(slice.Ports) != 2 {
			t.Errorf("%s: slice %s has labels %v, owners %v, ports %v", in.ID, slice.Name, slice.Labels, slice.OwnerReferences, slice.Ports)
		}
		for _, endpoint := range slice.Endpoints {
			if own := source == in.ID; own != (endpoint.NodeName != nil) || endpoint.Zone == nil {
				t.Errorf("%s: endpoint %v of %s has node %v and zone %v", in.ID, endpoint.Addresses, source, endpoint.NodeName, endpoint.Zone)
			}
		}
	}
}

// awaitNextSecond waits until new objects are younger than existing ones:
// creation timestamps have a resolution of one second.
func awaitNextSecond(t *testing.T) {
	t.Helper()
	second := time.Now().Unix()
	expect.Eventually(t, "the next second", func(context.Context) error {
		if time.Now().Unix() == second {
			return fmt.Errorf("the time is still %d", second)
		}
		return nil
	})
}
