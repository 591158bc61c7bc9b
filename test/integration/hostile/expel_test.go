// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// awaitNothing waits until nothing is left of a former member in the importer: for a
// minute at most. Its Lease is deleted last.
func awaitNothing(t *testing.T, id string, leases bool) {
	t.Helper()
	expect.Within(t, time.Minute, "end of "+id, func(ctx context.Context) error {
		left, err := leftovers(ctx, id, leases)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d objects are left, such as %s", len(left), left[0])
		}
		return err
	})
}

// leftovers returns what there is of a former member.
func leftovers(ctx context.Context, id string, leases bool) (left []string, err error) {
	own, source := importer().Clientset, metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=" + id}
	found := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	members, err := own.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, member := range members.Items {
		if strings.Contains(member.Name, id) {
			found("Member %s", member.Name)
		}
	}
	exported, err := own.ClusterSetV1alpha1().ExportedServices("").List(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, service := range exported.Items {
		found("ExportedService %s", service.Name)
	}
	imports, err := own.MulticlusterXV1beta1().ServiceImports("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range imports.Items {
		names[multicluster.DerivedServiceName(imports.Items[i].Namespace, imports.Items[i].Name)] = true
		if slices.Contains(exporters(&imports.Items[i]), id) {
			found("ServiceImport %s", imports.Items[i].Name)
		}
	}
	inHost, err := leftoversInHost(ctx, id, names)
	left = append(left, inHost...)
	if err != nil || !leases {
		return left, err
	}
	lease, err := importer().Kubernetes.CoordinationV1().Leases(installation.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, lease := range lease.Items {
		if lease.Name == "member-"+id {
			found("Lease %s", lease.Name)
		}
	}
	return left, nil
}

// leftoversInHost returns the objects of the host cluster: derived Services without an
// import, imported EndpointSlices, and records of the member.
func leftoversInHost(ctx context.Context, id string, derived map[string]bool) (left []string, err error) {
	host := importer().Kubernetes
	services, err := host.CoreV1().Services("").List(ctx, metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel})
	if err != nil {
		return nil, err
	}
	for _, service := range services.Items {
		if !derived[service.Name] {
			left = append(left, "derived Service "+service.Name)
		}
	}
	slices, err := host.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=" + id})
	if err != nil {
		return nil, err
	}
	for _, slice := range slices.Items {
		left = append(left, "imported EndpointSlice "+slice.Name)
	}
	stored, err := host.CoreV1().ConfigMaps("mcs-storage").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, record := range stored.Items {
		if strings.Contains(record.Name, id) || strings.Contains(record.Data["key"], id) {
			left = append(left, "record "+record.Name)
		}
	}
	return left, nil
}
