// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func export(change func(*multicluster.ServiceExport)) *multicluster.ServiceExport {
	export := &multicluster.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", ResourceVersion: "1"}}
	if change != nil {
		change(export)
	}
	return export
}

func TestValidateServiceExport(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*multicluster.ServiceExport)
		// want are the paths of all errors, in order.
		want []string
	}{
		{name: "a plain export"},
		{name: "labels and annotations", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{"app.kubernetes.io/name": "web", "tier": ""}
			e.Spec.ExportedAnnotations = map[string]string{"example.com/note": "anything\nat all"}
		}},
		{name: "a name that starts with a digit", change: func(e *multicluster.ServiceExport) { e.Name = "9to5" }},
		{name: "a dotted name", change: func(e *multicluster.ServiceExport) { e.Name = "web.v2" }, want: []string{"metadata.name"}},
		{name: "an upper-case name", change: func(e *multicluster.ServiceExport) { e.Name = "Web" }, want: []string{"metadata.name"}},
		{name: "a name of 64 characters", change: func(e *multicluster.ServiceExport) { e.Name = strings.Repeat("a", 64) }, want: []string{"metadata.name"}},
		{name: "no namespace", change: func(e *multicluster.ServiceExport) { e.Namespace = "" }, want: []string{"metadata.namespace"}},
		{name: "a bad label value", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{"app": "not a label value"}
		}, want: []string{"spec.exportedLabels"}},
		{name: "a bad annotation key", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedAnnotations = map[string]string{"not a key": "x"}
		}, want: []string{"spec.exportedAnnotations"}},
		{name: "annotations that are too long", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedAnnotations = map[string]string{"example.com/note": strings.Repeat("x", 1<<18)}
		}, want: []string{"spec.exportedAnnotations"}},
		// R14
		{name: "keys of the implementation", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{
				"multicluster.kubernetes.io/source-cluster": "forged",
				"clusterset.mcs-apiserver.io/mine":          "forged",
			}
			e.Spec.ExportedAnnotations = map[string]string{"multicluster.kubernetes.io/derived-service": "forged"}
		}, want: []string{
			"spec.exportedLabels[clusterset.mcs-apiserver.io/mine]",
			"spec.exportedLabels[multicluster.kubernetes.io/source-cluster]",
			"spec.exportedAnnotations[multicluster.kubernetes.io/derived-service]",
		}},
		{name: "keys that only resemble the implementation's", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{"my-multicluster.kubernetes.io/x": "y", "multicluster.kubernetes.io.example/x": "y"}
		}},
		{name: "every error is reported", change: func(e *multicluster.ServiceExport) {
			e.Name = "Web"
			e.Spec.ExportedLabels = map[string]string{"app": "not a label value"}
			e.Spec.ExportedAnnotations = map[string]string{"not a key": "x"}
		}, want: []string{"metadata.name", "spec.exportedLabels", "spec.exportedAnnotations"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := export(test.change)
			expectPaths(t, ValidateServiceExport(e), test.want)
		})
	}
}

func TestValidateServiceExportUpdateChecksTheSpecAgain(t *testing.T) {
	bad := export(func(e *multicluster.ServiceExport) {
		e.Spec.ExportedLabels = map[string]string{"app": "not a label value"}
	})
	expectPaths(t, ValidateServiceExportUpdate(bad, export(nil)), []string{"spec.exportedLabels"})
	expectPaths(t, ValidateServiceExportUpdate(export(nil), export(nil)), nil)
}

func TestValidateServiceExportStatusUpdateChecksConditions(t *testing.T) {
	condition := metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", LastTransitionTime: metav1.Now()}
	joined := metav1.Condition{Type: "Conflict", Status: metav1.ConditionTrue, Reason: "PortConflict,TypeConflict", LastTransitionTime: metav1.Now()}
	good := export(func(e *multicluster.ServiceExport) { e.Status.Conditions = []metav1.Condition{condition, joined} })
	expectPaths(t, ValidateServiceExportStatusUpdate(good, export(nil)), nil)

	twice := export(func(e *multicluster.ServiceExport) {
		e.Status.Conditions = []metav1.Condition{condition, condition, {Type: "Ready", Status: "Maybe"}}
	})
	expectPaths(t, ValidateServiceExportStatusUpdate(twice, export(nil)), []string{
		"status.conditions[1].type",
		"status.conditions[2].status",
		"status.conditions[2].lastTransitionTime",
		"status.conditions[2].reason",
	})
}

func TestValidateClusterClaim(t *testing.T) {
	for _, test := range []struct {
		name, claim, value string
		want               []string
	}{
		{name: "a dotted name", claim: "id.k8s.io", value: "east"},
		{name: "an empty value", claim: "region.example.com"},
		{name: "the longest value", claim: "region.example.com", value: strings.Repeat("x", MaxClaimValueBytes)},
		// R95
		{name: "a value that is one byte too long", claim: "region.example.com", value: strings.Repeat("x", MaxClaimValueBytes+1), want: []string{"spec.value"}},
		{name: "bytes count, not characters", claim: "region.example.com", value: strings.Repeat("é", MaxClaimValueBytes/2+1), want: []string{"spec.value"}},
		// R94
		{name: "a name that is no DNS subdomain", claim: "Region", want: []string{"metadata.name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := &multicluster.ClusterClaim{
				ObjectMeta: metav1.ObjectMeta{Name: test.claim, ResourceVersion: "1"},
				Spec:       multicluster.ClusterClaimSpec{Value: test.value},
			}
			expectPaths(t, ValidateClusterClaim(claim), test.want)
			if old := claim.DeepCopy(); test.claim == "region.example.com" {
				old.Spec.Value = "before"
				expectPaths(t, ValidateClusterClaimUpdate(claim, old), test.want)
			}
		})
	}
}

func expectPaths(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	got := []string{}
	for _, err := range errs {
		got = append(got, err.Field)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("errors at %q, want them at %q: %v", got, want, errs.ToAggregate())
	}
}
