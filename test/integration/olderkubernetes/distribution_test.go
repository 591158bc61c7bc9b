// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package olderkubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// Kubernetes 1.33 supports the traffic distribution PreferClose only. An import with
// one of a later release gets a derived Service all the same.
func TestTrafficDistributionOfLaterReleaseFallsBack(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := fleet.Start(t.Context(), fleet.Config{
		Root: root, Dir: t.TempDir(), Names: []string{"newer", "older"}, ClusterSet: "test",
		Configure: func(id string, plane *controlplane.Config, _ *installation.Config) {
			if id == "older" {
				plane.APIServerFlags = append(plane.APIServerFlags, "--emulated-version=1.33")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := clusters.Stop(); err != nil {
			t.Error(err)
		}
	})
	ns := clusters.CreateNamespace(t, "distribution")
	for name, test := range map[string]struct {
		exported string
		derived  *string
	}{
		"zone": {corev1.ServiceTrafficDistributionPreferSameZone, ptr.To(corev1.ServiceTrafficDistributionPreferClose)},
		"node": {corev1.ServiceTrafficDistributionPreferSameNode, nil},
	} {
		clusters.Cluster("newer").ExportService(t, ns, name, []string{"10.1.0.1"}, func(service *corev1.Service) {
			service.Spec.TrafficDistribution = ptr.To(test.exported)
		})
		older := clusters.Cluster("older")
		serviceImport := older.AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
			ready := meta.FindStatusCondition(found.Status.Conditions, multicluster.ServiceImportReady)
			want := fmt.Sprintf("trafficDistribution %q is not supported by this cluster", test.exported)
			if ready == nil || ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, want) {
				return fmt.Errorf("got condition %+v, want True with %q", ready, want)
			}
			return nil
		})
		if got := ptr.Deref(serviceImport.Spec.TrafficDistribution, ""); got != test.exported {
			t.Errorf("%s: import has distribution %q, want %q", name, got, test.exported)
		}
		config, err := older.Plane.AdminConfig()
		if err != nil {
			t.Fatal(err)
		}
		host, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		derived, err := host.CoreV1().Services(ns).Get(t.Context(), multicluster.DerivedServiceName(ns, name), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !ptr.Equal(derived.Spec.TrafficDistribution, test.derived) {
			t.Errorf("%s: derived Service has distribution %q, want %q", name, ptr.Deref(derived.Spec.TrafficDistribution, "none"), ptr.Deref(test.derived, "none"))
		}
	}
}
