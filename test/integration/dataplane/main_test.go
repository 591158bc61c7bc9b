// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane tests the objects that mcs-controller derives from
// ServiceImports and ServiceExports, and how much it writes, on real control
// planes.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// clusters are joined by TestMain; a test that changes membership restores it.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"}, ClusterSet: "everywhere",
		Configure: func(_ string, plane *controlplane.Config, installed *installation.Config) {
			plane.APIServerFlags = []string{"--audit-policy-file=testdata/audit.yaml", "--audit-log-path=" + auditLog(installed.Dir)}
			installed.StorageFlags = installed.EmbeddedStorage()
			installed.APIServerFlags = []string{"--member-ttl=30s"} // the minimum, to keep the tests short
		},
	})
}

func auditLog(dir string) string { return filepath.Join(dir, "writes.log") }

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// unexport deletes the ServiceExport web.
func unexport(t *testing.T, in *fleet.Cluster, ns string) {
	t.Helper()
	expect.NoError(t, in.Unexport(t.Context(), ns, "web"))
}

func makeHeadless(service *corev1.Service) { service.Spec.ClusterIP = corev1.ClusterIPNone }

// derivedService returns the derived Service of an import, or nil.
func derivedService(ctx context.Context, in *fleet.Cluster, ns, name string) (*corev1.Service, error) {
	service, err := in.Kubernetes.CoreV1().Services(ns).Get(ctx, multicluster.DerivedServiceName(ns, name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// importedSlices returns the EndpointSlices of an import.
func importedSlices(ctx context.Context, in *fleet.Cluster, ns, name string) ([]discoveryv1.EndpointSlice, error) {
	list, err := in.Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + multicluster.DerivedServiceName(ns, name),
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// endpoints returns the addresses of an import by source cluster.
func endpoints(slices []discoveryv1.EndpointSlice) map[string][]string {
	found := map[string][]string{}
	for _, slice := range slices {
		source := slice.Labels[multicluster.SourceClusterLabel]
		for _, endpoint := range slice.Endpoints {
			found[source] = append(found[source], endpoint.Addresses...)
		}
	}
	return found
}

// from maps source clusters to the expected endpoints of an import.
type from map[string][]string

// awaitEndpoints waits until an import has a derived Service, and slices with
// exactly the given endpoints.
func awaitEndpoints(t *testing.T, in *fleet.Cluster, ns, name string, want from) (service *corev1.Service, found []discoveryv1.EndpointSlice) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("endpoints of %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		var err error
		if service, err = derivedService(ctx, in, ns, name); err != nil || service == nil {
			return errors.Join(err, errors.New("derived Service does not exist"))
		}
		if found, err = importedSlices(ctx, in, ns, name); err != nil {
			return err
		}
		have := endpoints(found)
		for cluster := range have {
			if want[cluster] == nil {
				return fmt.Errorf("unexpected endpoints of %s", cluster)
			}
		}
		for cluster, addresses := range want {
			slices.Sort(have[cluster])
			slices.Sort(addresses)
			if !slices.Equal(have[cluster], addresses) {
				return fmt.Errorf("endpoints of %s are %v, want %v", cluster, have[cluster], addresses)
			}
		}
		return nil
	})
	return service, found
}

// awaitNothing waits until all objects of an import are removed.
func awaitNothing(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("end of %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		service, err := derivedService(ctx, in, ns, name)
		if err != nil || service != nil {
			return errors.Join(err, errors.New("derived Service still exists"))
		}
		slices, err := importedSlices(ctx, in, ns, name)
		if err != nil || len(slices) > 0 {
			return errors.Join(err, fmt.Errorf("%d slices still exist", len(slices)))
		}
		return nil
	})
}

// awaitImport waits until the condition Ready of the import web has the given
// status and a message that contains all parts.
func awaitImport(t *testing.T, in *fleet.Cluster, ns string, ready metav1.ConditionStatus, parts ...string) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	return in.AwaitImportThat(t, ns, "web", func(found *multiclusterxv1beta1.ServiceImport) error {
		condition := meta.FindStatusCondition(found.Status.Conditions, multicluster.ServiceImportReady)
		if condition == nil || condition.Status != ready {
			return fmt.Errorf("conditions are %+v", found.Status.Conditions)
		}
		for _, part := range parts {
			if !strings.Contains(condition.Message, part) {
				return fmt.Errorf("%q is missing in %q", part, condition.Message)
			}
		}
		return nil
	})
}
