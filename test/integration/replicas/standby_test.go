// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// exportReady exports a service and waits until its import is ready.
func exportReady(t *testing.T, ns, name string) {
	t.Helper()
	east().ExportService(t, ns, name, []string{"10.9.0.1"})
	east().AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		if !meta.IsStatusConditionTrue(found.Status.Conditions, multicluster.ServiceImportReady) {
			return fmt.Errorf("conditions are %+v", found.Status.Conditions)
		}
		return nil
	})
}

// versions returns the resourceVersions of all derived Services and imported EndpointSlices.
func versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	found := map[string]string{}
	options := metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel}
	services, err := east().Kubernetes.CoreV1().Services(ns).List(t.Context(), options)
	expect.NoError(t, err)
	for _, service := range services.Items {
		found["service "+service.Name] = service.ResourceVersion
	}
	slices, err := east().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(t.Context(), options)
	expect.NoError(t, err)
	for _, slice := range slices.Items {
		found["slice "+slice.Name] = slice.ResourceVersion
	}
	return found
}

// One controller is active. When it is killed, another takes over within the lease
// duration and does not write existing objects.
func TestStandbyTakesOverWithoutWriting(t *testing.T) {
	const ns = "standby"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	for i := range 10 {
		exportReady(t, ns, fmt.Sprintf("before-%d", i))
	}
	before := versions(t, ns)
	if len(before) != 20 {
		t.Fatalf("%d objects, want 10 Services and 10 slices", len(before))
	}
	standby, err := east().StartStandby(t.Context())
	expect.NoError(t, err)
	killed := time.Now()
	east().Controller.Kill()
	<-east().Controller.Exited()
	t.Cleanup(func() {
		if err := standby.Stop(time.Minute); err != nil {
			t.Error(err)
		}
		expect.NoError(t, east().StartController(context.Background()))
	})
	exportReady(t, ns, "after")
	took := time.Since(killed)
	t.Logf("standby took over after %s", took.Round(time.Millisecond))
	if took > 30*time.Second { // lease duration of 15 s, and the time to start
		t.Errorf("takeover took %s, want at most 30s", took)
	}
	after := versions(t, ns)
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s was written: version %s became %s", name, version, after[name])
		}
	}
}
