// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// awaitExport waits until an export has the given conditions, such as
// "True/Valid". The text after a space must be part of the message.
func awaitExport(t *testing.T, in *fleet.Cluster, ns string, valid, ready, conflict string) []metav1.Condition {
	t.Helper()
	var found []metav1.Condition
	expect.Eventually(t, fmt.Sprintf("conditions of %s in %s", ns, in.ID), func(ctx context.Context) error {
		export, err := in.Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found = export.Status.Conditions
		for conditionType, want := range map[string]string{
			multicluster.ServiceExportValid: valid, multicluster.ServiceExportReady: ready, multicluster.ServiceExportConflict: conflict,
		} {
			want, part, _ := strings.Cut(want, " ")
			condition := meta.FindStatusCondition(found, conditionType)
			if condition == nil || string(condition.Status)+"/"+condition.Reason != want || !strings.Contains(condition.Message, part) || condition.ObservedGeneration != export.Generation {
				return fmt.Errorf("%s is %+v, want %s with %q", conditionType, condition, want, part)
			}
		}
		return nil
	})
	return found
}

// awaitEvents waits until an export has exactly these Events.
func awaitEvents(t *testing.T, in *fleet.Cluster, ns string, want ...string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("Events of %s in %s", ns, in.ID), func(ctx context.Context) error {
		events, err := in.Kubernetes.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, event := range events.Items {
			if event.Regarding.Kind == "ServiceExport" && event.Regarding.Name == "web" {
				found[describe(event)] = true
			}
		}
		if len(found) != len(want) {
			return fmt.Errorf("Events are %v, want %v", found, want)
		}
		for _, event := range want {
			if !found[event] {
				return fmt.Errorf("%q is missing in %v", event, found)
			}
		}
		return nil
	})
}

func describe(event eventsv1.Event) string { return event.Type + " " + event.Reason }

// R18, R19, R20, R22, R23: conditions and Events report the state of an export.
func TestConditionsAndEventsReportTheStateOfAnExport(t *testing.T) {
	ns := fleet.CreateNamespace(t, "reported", east(), west())
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	awaitExport(t, east(), ns, "False/NoService "+ns, "False/Failed not valid", "False/NoConflicts")
	awaitEvents(t, east(), ns, "Warning NoService")
	expect.Must(east().Service(t.Context(), ns, "web", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	}))(t)
	awaitExport(t, east(), ns, "False/InvalidServiceType ExternalName", "False/Failed", "False/NoConflicts")
	awaitEvents(t, east(), ns, "Warning NoService", "Warning InvalidServiceType")
	expect.NoError(t, east().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	awaitExport(t, east(), ns, "False/NoService", "False/Failed", "False/NoConflicts")
	expect.Must(east().Service(t.Context(), ns, "web"))(t)
	before := awaitExport(t, east(), ns, "True/Valid", "True/Ready", "False/NoConflicts")
	awaitEvents(t, east(), ns, "Warning NoService", "Warning InvalidServiceType", "Normal Exported")

	// Transition times change only with the status.
	exports := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	expect.Eventually(t, "a change of the export", func(ctx context.Context) error {
		export, err := exports.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		export.Spec.ExportedLabels = map[string]string{"tier": "front"}
		_, err = exports.Update(ctx, export, metav1.UpdateOptions{})
		return err
	})
	for _, condition := range awaitExport(t, east(), ns, "True/Valid", "True/Ready", "False/NoConflicts") {
		if old := meta.FindStatusCondition(before, condition.Type); !old.LastTransitionTime.Equal(&condition.LastTransitionTime) || condition.ObservedGeneration == old.ObservedGeneration {
			t.Errorf("%+v was %+v", condition, old)
		}
	}
	// A derived Service cannot be exported.
	name := multicluster.DerivedServiceName(ns, "web")
	expect.Must(east().Export(t.Context(), ns, name))(t)
	expect.Eventually(t, "refusal of the derived Service", func(ctx context.Context) error {
		export, err := exports.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionFalse(export.Status.Conditions, multicluster.ServiceExportValid) {
			err = fmt.Errorf("%+v", export.Status.Conditions)
		}
		return err
	})
}

// R22, R51, R55, R121: a conflict and its end are reported on the exports of both
// clusters, in conditions and Events. A conflict does not make an export invalid.
func TestConflictShowsOnAllExports(t *testing.T) {
	ns := fleet.CreateNamespace(t, "disputed", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	awaitNextSecond(t) // the export of east is the oldest
	west().ExportService(t, ns, "web", []string{"10.8.0.1"}, makeHeadless, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	for _, cluster := range clusters.Clusters {
		awaitExport(t, cluster, ns, "True/Valid", "True/Ready", `True/TypeConflict,PortConflict Using "ClusterSetIP" from oldest service export in "east". 1/2 clusters disagree.`)
		awaitEvents(t, cluster, ns, "Normal Exported", "Warning Conflict")
	}
	unexport(t, west(), ns)
	awaitExport(t, east(), ns, "True/Valid", "True/Ready", "False/NoConflicts")
	expect.Must(west().Export(t.Context(), ns, "web"))(t)
	for _, cluster := range clusters.Clusters {
		awaitExport(t, cluster, ns, "True/Valid", "True/Ready", "True/TypeConflict,PortConflict")
	}
	expect.NoError(t, west().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	expect.Must(west().Service(t.Context(), ns, "web"))(t)
	for _, cluster := range clusters.Clusters {
		awaitExport(t, cluster, ns, "True/Valid", "True/Ready", "False/NoConflicts")
	}
	awaitEvents(t, east(), ns, "Normal Exported", "Warning Conflict", "Normal ConflictResolved")
}
