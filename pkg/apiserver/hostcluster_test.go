// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Secrets of members may be applied before the first start, and a lease for leader
// election exists as soon as mcs-controller runs.
func TestOnlyObjectsOfMCSControllerShowThatStorageWasInUse(t *testing.T) {
	managed := map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}
	meta := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	client := fake.NewClientset(
		&corev1.Service{ObjectMeta: meta("shop", "web", nil)},
		&corev1.Secret{ObjectMeta: meta("mcs-system", "east", nil), Type: clusterset.MemberSecretType},
		&coordinationv1.Lease{ObjectMeta: meta("mcs-system", "mcs-controller", nil)},
		&coordinationv1.Lease{ObjectMeta: meta("other", "member-east", managed)},
	)
	cluster := hostCluster{client, "mcs-system"}
	if traces, err := cluster.Traces(t.Context()); err != nil || len(traces) != 0 {
		t.Errorf("before the first start: %v, %v", traces, err)
	}
	if _, err := client.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{ObjectMeta: meta("shop", "derived-0123456789", managed)}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoordinationV1().Leases("mcs-system").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: meta("mcs-system", "member-east", managed)}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "derived Service shop/derived-0123456789, Lease mcs-system/member-east"
	if traces, err := cluster.Traces(t.Context()); err != nil || strings.Join(traces, ", ") != want {
		t.Errorf("got %v, %v, want %s", traces, err, want)
	}
}

func TestReasonWhyStorageCannotBeUsedIsAnEventOfTheDeployment(t *testing.T) {
	client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "mcs-apiserver", UID: "uid"}})
	if err := (hostCluster{client, "mcs-system"}).Report(t.Context(), errors.New("marker is missing: "+strings.Repeat("x", 2000))); err != nil {
		t.Fatal(err)
	}
	events, err := client.EventsV1().Events("mcs-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) != 1 {
		t.Fatalf("got %+v, %v, want one Event", events, err)
	}
	event := events.Items[0]
	if event.Reason != "StorageUnavailable" || event.Type != corev1.EventTypeWarning || event.Regarding.UID != "uid" ||
		!strings.HasPrefix(event.Note, "Storage cannot be used: marker is missing: xxx") || len(event.Note) > 1024 {
		t.Errorf("got %+v", event)
	}
}
