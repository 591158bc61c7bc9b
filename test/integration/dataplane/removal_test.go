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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// promptly is how soon the objects of a withdrawn import must be removed, also
// beside other tests. On an idle machine removal takes a fraction of it.
const promptly = 10 * time.Second

// R74: the objects of an import are removed promptly, whatever ended the import,
// and nothing else is written.
func TestObjectsOfEndedImportsAreRemoved(t *testing.T) {
	for _, test := range []struct {
		name string
		// end ends the import of web in west; restore undoes it as far as other cases need.
		end, restore func(t *testing.T, ns string)
		// alone is true if the export of west itself stays.
		alone bool
	}{
		{name: "unexported", alone: true,
			end:     func(t *testing.T, ns string) { unexport(t, east(), ns) },
			restore: func(*testing.T, string) {}},
		{name: "no-service", alone: true,
			end: func(t *testing.T, ns string) {
				expect.NoError(t, east().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			},
			restore: func(*testing.T, string) {}},
		{name: "no-secret", alone: true,
			end:     func(t *testing.T, _ string) { expect.NoError(t, west().Leave(t.Context(), "east")) },
			restore: func(t *testing.T, _ string) { expect.Must(west().Join(t.Context(), east(), nil))(t) }},
		{name: "no-clusterset",
			end: func(t *testing.T, _ string) {
				expect.NoError(t, west().Clientset.MulticlusterV1().ClusterClaims().Delete(t.Context(), multicluster.ClusterSetClaim, metav1.DeleteOptions{}))
			},
			restore: func(t *testing.T, _ string) { expect.NoError(t, west().Claim(t.Context(), "west", "everywhere")) }},
		{name: "no-namespace",
			end: func(t *testing.T, ns string) {
				expect.NoError(t, west().Kubernetes.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
			},
			restore: func(*testing.T, string) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := fleet.CreateNamespace(t, "ending-"+test.name, east(), west())
			east().ExportService(t, ns, "web", []string{"10.9.0.1"})
			west().ExportService(t, ns, "own", []string{"10.8.0.1"})
			awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}})
			service, slices := awaitEndpoints(t, west(), ns, "own", from{"west": {"10.8.0.1"}})
			awaitQuiet(t, ns)
			start := time.Now()
			test.end(t, ns)
			awaitNothing(t, west(), ns, "web")
			took := time.Since(start)
			t.Logf("removal took %s", took.Round(10*time.Millisecond))
			if took > promptly {
				t.Errorf("removal took %s", took)
			}
			if !test.alone {
				awaitNothing(t, west(), ns, "own")
			}
			test.restore(t, ns)
			awaitEast(t, clustersetv1alpha1.MemberConnected)
			if test.alone {
				again, sameSlices := awaitEndpoints(t, west(), ns, "own", from{"west": {"10.8.0.1"}})
				if again.ResourceVersion != service.ResourceVersion || sameSlices[0].ResourceVersion != slices[0].ResourceVersion {
					t.Error("objects of the export of west were written")
				}
			}
		})
	}
}

// awaitEast waits until west shows east in the given state.
func awaitEast(t *testing.T, want clustersetv1alpha1.MemberState) {
	t.Helper()
	expect.Eventually(t, "member east in west", func(ctx context.Context) error {
		found, err := west().Clientset.ClusterSetV1alpha1().Members().Get(ctx, "east", metav1.GetOptions{})
		if err == nil && found.Status.State != want {
			err = fmt.Errorf("state is %s, want %s", found.Status.State, want)
		}
		return err
	})
}

// foreignService creates a Service that has the name of a derived Service but is
// not managed by mcs-controller.
func foreignService(t *testing.T, in *fleet.Cluster, ns, name string, labels map[string]string) *corev1.Service {
	t.Helper()
	return expect.Must(in.Service(t.Context(), ns, multicluster.DerivedServiceName(ns, name), func(s *corev1.Service) { s.Labels = labels }))(t)
}

// A Service that merely has the name of a derived Service is neither changed nor
// deleted, and the import reports the name conflict.
func TestForeignServiceIsNotWritten(t *testing.T) {
	ns := fleet.CreateNamespace(t, "occupied", east(), west())
	foreign := foreignService(t, west(), ns, "web", map[string]string{"app": "mine"})
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	awaitEndpoints(t, east(), ns, "web", from{"east": {"10.9.0.1"}})
	awaitImport(t, west(), ns, metav1.ConditionFalse, foreign.Name, "name conflict", "delete it")
	unexport(t, east(), ns)
	expect.Eventually(t, "end of the import", func(ctx context.Context) error {
		if _, err := west().Clientset.MulticlusterXV1beta1().ServiceImports(ns).Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("ServiceImport still exists: %w", err)
		}
		return nil
	})
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	awaitImport(t, west(), ns, metav1.ConditionFalse, foreign.Name)
	if now := expect.Must(derivedService(t.Context(), west(), ns, "web"))(t); now == nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("foreign Service was %v, is %v", foreign, now)
	}
	expect.NoError(t, west().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), foreign.Name, metav1.DeleteOptions{}))
	awaitImport(t, west(), ns, metav1.ConditionTrue)
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}})
}

// Objects of imports that ended while mcs-controller was down are removed when it
// starts; objects that only resemble them stay.
func TestLeftoversAreRemovedAtStart(t *testing.T) {
	ns := fleet.CreateNamespace(t, "leftovers", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}})
	expect.NoError(t, west().StopController())
	unexport(t, east(), ns)
	managed := map[string]string{"app.kubernetes.io/managed-by": multicluster.ManagedBy, multicluster.ServiceNameLabel: "ghost"}
	foreignService(t, west(), ns, "ghost", managed)
	kept := foreignService(t, west(), ns, "kept", map[string]string{multicluster.ServiceNameLabel: "kept"})
	slice := func(name, service, managedBy string) *discoveryv1.EndpointSlice {
		return expect.Must(west().Kubernetes.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				discoveryv1.LabelServiceName: multicluster.DerivedServiceName(ns, service), discoveryv1.LabelManagedBy: managedBy,
				multicluster.ServiceNameLabel: service, multicluster.SourceClusterLabel: "gone",
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}, metav1.CreateOptions{}))(t)
	}
	slice("ghost-1", "ghost", multicluster.ManagedBy)
	keptSlice := slice("kept-1", "kept", "other-controller")
	expect.NoError(t, west().StartController(t.Context()))
	awaitNothing(t, west(), ns, "web")
	awaitNothing(t, west(), ns, "ghost")
	now := expect.Must(derivedService(t.Context(), west(), ns, "kept"))(t)
	slices := expect.Must(importedSlices(t.Context(), west(), ns, "kept"))(t)
	if now == nil || now.ResourceVersion != kept.ResourceVersion || len(slices) != 1 || slices[0].ResourceVersion != keptSlice.ResourceVersion {
		t.Errorf("objects not managed by mcs-controller are %v and %v", now, slices)
	}
}
