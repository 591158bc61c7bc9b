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
		// want lists the field paths of all errors, in order.
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
		}, want: []string{"spec", "spec.exportedAnnotations"}},
		// R265
		{name: "the largest export", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{"tier": "web"}
			e.Spec.ExportedAnnotations = map[string]string{"note": strings.Repeat("x", MaxExportedMetadataBytes-len("tierwebnote"))}
		}},
		{name: "an export that is too large", change: func(e *multicluster.ServiceExport) {
			e.Spec.ExportedLabels = map[string]string{"tier": "web"}
			e.Spec.ExportedAnnotations = map[string]string{"note": strings.Repeat("x", MaxExportedMetadataBytes-len("tierwebnote")+1)}
		}, want: []string{"spec"}},
		// R14
		{name: "reserved keys", change: func(e *multicluster.ServiceExport) {
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
		{name: "keys that resemble reserved keys", change: func(e *multicluster.ServiceExport) {
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

func TestServiceExportUpdateValidatesTheSpec(t *testing.T) {
	bad := export(func(e *multicluster.ServiceExport) {
		e.Spec.ExportedLabels = map[string]string{"app": "not a label value"}
	})
	expectPaths(t, ValidateServiceExportUpdate(bad, export(nil)), []string{"spec.exportedLabels"})
	expectPaths(t, ValidateServiceExportUpdate(export(nil), export(nil)), nil)
}

// R265: an export that predates the limit can be changed, but cannot grow.
func TestServiceExportUpdateMayNotExceedTheSize(t *testing.T) {
	sized := func(size int) *multicluster.ServiceExport {
		return export(func(e *multicluster.ServiceExport) {
			e.Spec.ExportedAnnotations = map[string]string{"note": strings.Repeat("x", size)}
		})
	}
	const beyond = MaxExportedMetadataBytes + 1000
	expectPaths(t, ValidateServiceExportUpdate(sized(beyond), sized(10)), []string{"spec"})
	expectPaths(t, ValidateServiceExportUpdate(sized(beyond), sized(beyond)), nil)
	expectPaths(t, ValidateServiceExportUpdate(sized(beyond-1), sized(beyond)), nil)
	expectPaths(t, ValidateServiceExportUpdate(sized(beyond+1), sized(beyond)), []string{"spec"})
}

// R601: an invalid preference is refused, unless it is as it was before.
func TestPreferenceIsValidated(t *testing.T) {
	preferring := func(tiers, minReady string) *multicluster.ServiceExport {
		return export(func(e *multicluster.ServiceExport) {
			e.Annotations = map[string]string{multicluster.ClusterPreferenceAnnotation: tiers, multicluster.PreferenceMinReadyAnnotation: minReady}
		})
	}
	tiers := "metadata.annotations[" + multicluster.ClusterPreferenceAnnotation + "]"
	minReady := "metadata.annotations[" + multicluster.PreferenceMinReadyAnnotation + "]"
	expectPaths(t, ValidateServiceExport(preferring("cluster,property:region.example.com", "2")), nil)
	expectPaths(t, ValidateServiceExport(preferring("nearest", "0")), []string{tiers, minReady})
	expectPaths(t, ValidateServiceExportUpdate(preferring("nearest", "1"), export(nil)), []string{tiers})
	expectPaths(t, ValidateServiceExportUpdate(preferring("cluster", "none"), preferring("cluster", "1")), []string{minReady})
	expectPaths(t, ValidateServiceExportUpdate(preferring("nearest", "0"), preferring("nearest", "0")), nil)
	expectPaths(t, ValidateServiceExportUpdate(export(nil), preferring("nearest", "0")), nil)
}

func TestServiceExportStatusUpdateValidatesConditions(t *testing.T) {
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

func claim(name, value string) *multicluster.ClusterClaim {
	return &multicluster.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: multicluster.ClusterClaimSpec{Value: value},
	}
}

func TestValidateClusterClaim(t *testing.T) {
	longest := strings.Repeat("x", MaxClaimValueBytes)
	for _, test := range []struct {
		name, claim, value string
		want               []string
	}{
		// R96
		{name: "an empty value", claim: "region.example.com"},
		{name: "the longest value", claim: "region.example.com", value: longest},
		{name: "a value of any bytes", claim: "region.example.com", value: "\x00 \u00e9 \n"},
		{name: "a name without dots", claim: "region", value: "x"},
		{name: "a domain with a reserved domain as suffix of a label", claim: "my-k8s.io", value: "x"},
		{name: "a domain of a project outside k8s.io", claim: "a.x-k8s.io", value: "x"},
		{name: "a domain that starts with a reserved domain", claim: "k8s.io.example.com", value: "x"},
		// R95
		{name: "a value that is one byte too long", claim: "region.example.com", value: longest + "x", want: []string{"spec.value"}},
		{name: "bytes count, not characters", claim: "region.example.com", value: strings.Repeat("é", MaxClaimValueBytes/2+1), want: []string{"spec.value"}},
		{name: "a ClusterSet name that is one byte too long", claim: "clusterset.k8s.io", value: longest + "x", want: []string{"spec.value"}},
		// R94
		{name: "a name that is not a DNS subdomain", claim: "Region", want: []string{"metadata.name"}},
		// R97
		{name: "reserved: k8s.io", claim: "region.k8s.io", value: "x", want: []string{"metadata.name"}},
		{name: "reserved: deep in k8s.io", claim: "cluster.clusterset.k8s.io", value: "x", want: []string{"metadata.name"}},
		{name: "reserved: k8s.io itself", claim: "k8s.io", value: "x", want: []string{"metadata.name"}},
		{name: "reserved: kubernetes.io", claim: "region.kubernetes.io", value: "x", want: []string{"metadata.name"}},
		{name: "reserved: sigs.k8s.io", claim: "sigs.k8s.io", value: "x", want: []string{"metadata.name"}},
		{name: "reserved: below sigs.k8s.io", claim: "a.sigs.k8s.io", value: "x", want: []string{"metadata.name"}},
		// R98
		{name: "a human-readable id", claim: "id.k8s.io", value: "east-1"},
		{name: "a UID as id", claim: "id.k8s.io", value: "721ab723-13bc-11e5-aec2-42010af0021e"},
		{name: "an id that is a number", claim: "id.k8s.io", value: "1"},
		{name: "the longest id", claim: "id.k8s.io", value: strings.Repeat("x", 63)},
		{name: "an id that is too long", claim: "id.k8s.io", value: strings.Repeat("x", 64), want: []string{"spec.value"}},
		{name: "no id", claim: "id.k8s.io", want: []string{"spec.value"}},
		{name: "an id in capitals", claim: "id.k8s.io", value: "East", want: []string{"spec.value"}},
		{name: "an id with a hyphen at its end", claim: "id.k8s.io", value: "east-", want: []string{"spec.value"}},
		// R5
		{name: "an id of two labels", claim: "id.k8s.io", value: "east.example", want: []string{"spec.value"}},
		// R111
		{name: "a ClusterSet of any name", claim: "clusterset.k8s.io", value: "Production, Europe (2)"},
		{name: "the longest name of a ClusterSet", claim: "clusterset.k8s.io", value: longest},
		{name: "a ClusterSet without a name", claim: "clusterset.k8s.io", want: []string{"spec.value"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := ValidateClusterClaim(claim(test.claim, test.value))
			expectPaths(t, errs, test.want)
			if len(test.want) > 0 && test.want[0] == "spec.value" {
				expectPaths(t, ValidateClusterClaimUpdate(claim(test.claim, test.value), claim(test.claim, "before")), test.want)
			}
		})
	}
	t.Run("the error for an id with dots explains the format", func(t *testing.T) {
		if message := ValidateClusterClaim(claim("id.k8s.io", "a.b")).ToAggregate().Error(); !strings.Contains(message, "single DNS label without dots") {
			t.Error(message)
		}
	})
}

// Claims stored under older rules can still be updated if their value is unchanged.
func TestUnchangedClaimValuesAreNotValidatedAgain(t *testing.T) {
	for _, stored := range []*multicluster.ClusterClaim{claim("id.k8s.io", "east.example"), claim("clusterset.k8s.io", ""), claim("region.k8s.io", "x")} {
		labeled := stored.DeepCopy()
		labeled.Labels = map[string]string{"a": "b"}
		expectPaths(t, ValidateClusterClaimUpdate(labeled, stored), nil)
	}
}

func expectPaths(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	got := []string{}
	for _, err := range errs {
		got = append(got, err.Field)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got errors at %q, want %q: %v", got, want, errs.ToAggregate())
	}
}
