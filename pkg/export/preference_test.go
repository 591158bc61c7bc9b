// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// R600
func TestPreferenceIsExported(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		tiers       []string
		minReady    int32
	}{
		{"none", nil, nil, 0},
		{"tiers", map[string]string{multicluster.ClusterPreferenceAnnotation: "cluster, property:region"}, []string{"cluster", "property:region"}, 1},
		{"minimum", map[string]string{multicluster.ClusterPreferenceAnnotation: "cluster", multicluster.PreferenceMinReadyAnnotation: "3"}, []string{"cluster"}, 3},
		{"a minimum alone", map[string]string{multicluster.PreferenceMinReadyAnnotation: "3"}, nil, 0},
		{"stored before it would have been refused", map[string]string{multicluster.ClusterPreferenceAnnotation: "nearest"}, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			written := &multiclusterxv1beta1.ServiceExport{}
			written.Annotations = test.annotations
			spec := Service(Origin{ID: "east"}, written, &corev1.Service{}).Spec
			if diff := cmp.Diff(test.tiers, spec.ClusterPreference); diff != "" || spec.PreferenceMinReady != test.minReady {
				t.Errorf("got at least %d ready, want %d; tiers: %s", spec.PreferenceMinReady, test.minReady, diff)
			}
		})
	}
}
