// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane tests what mcs-controller makes of ServiceImports and
// ServiceExports in the cluster, and how much it writes for it, on real control
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

// clusters are joined by TestMain; a test that changes that puts it back.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"}, ClusterSet: "everywhere",
		Configure: func(_ string, plane *controlplane.Config, installed *installation.Config) {
			plane.APIServerFlags = []string{"--audit-policy-file=testdata/audit.yaml", "--audit-log-path=" + auditLog(installed.Dir)}
			installed.APIServerFlags = []string{"--member-ttl=30s"} // the least, so that nobody waits for longer
		},
	})
}

func auditLog(dir string) string { return filepath.Join(dir, "writes.log") }

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// unexport ends the export of web.
func unexport(t *testing.T, in *fleet.Cluster, ns string) {
	t.Helper()
	expect.NoError(t, in.Unexport(t.Context(), ns, "web"))
}

func makeHeadless(service *corev1.Service) { service.Spec.ClusterIP = corev1.ClusterIPNone }

// derivedService is the Service that stands for an import, or nil.
func derivedService(ctx context.Context, in *fleet.Cluster, ns, name string) (*corev1.Service, error) {
	service, err := in.Kubernetes.CoreV1().Services(ns).Get(ctx, multicluster.DerivedServiceName(ns, name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// importedSlices are the EndpointSlices of an import, whoever made them.
func importedSlices(ctx context.Context, in *fleet.Cluster, ns, name string) ([]discoveryv1.EndpointSlice, error) {
	list, err := in.Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + multicluster.DerivedServiceName(ns, name),
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// endpoints are the addresses of an import, by source cluster.
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

// from says of which clusters an import is to have which endpoints.
type from map[string][]string

// awaitEndpoints waits until an import has a Service, and slices with exactly
// these endpoints of the given clusters and of no others.
func awaitEndpoints(t *testing.T, in *fleet.Cluster, ns, name string, want from) (service *corev1.Service, found []discoveryv1.EndpointSlice) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("endpoints of %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		var err error
		if service, err = derivedService(ctx, in, ns, name); err != nil || service == nil {
			return errors.Join(err, errors.New("there is no Service"))
		}
		if found, err = importedSlices(ctx, in, ns, name); err != nil {
			return err
		}
		have := endpoints(found)
		for cluster := range have {
			if want[cluster] == nil {
				return fmt.Errorf("there are endpoints of %s", cluster)
			}
		}
		for cluster, addresses := range want {
			slices.Sort(have[cluster])
			slices.Sort(addresses)
			if !slices.Equal(have[cluster], addresses) {
				return fmt.Errorf("the endpoints of %s are %v, want %v", cluster, have[cluster], addresses)
			}
		}
		return nil
	})
	return service, found
}

// awaitNothing waits until nothing is left of an import.
func awaitNothing(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("end of %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		service, err := derivedService(ctx, in, ns, name)
		if err != nil || service != nil {
			return errors.Join(err, errors.New("the Service is still there"))
		}
		slices, err := importedSlices(ctx, in, ns, name)
		if err != nil || len(slices) > 0 {
			return errors.Join(err, fmt.Errorf("%d slices are still there", len(slices)))
		}
		return nil
	})
}

// awaitImport waits until the condition Ready of the import web is so, and its
// message has these parts.
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
