// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Export is a Service as one cluster exports it, together with its endpoints.
// It is computed and passed between packages, never served.
//
// +k8s:deepcopy-gen=false
type Export struct {
	Service *ExportedService
	Slices  []*ExportedEndpointSlice
}

// Since returns the time from which the age of the export counts.
func (s *ExportedServiceSpec) Since() metav1.Time { return Since(s.ExportedAt, s.EffectiveAt) }

// Since returns the time from which the age of an export counts. A cluster with an
// older release does not report when its export took effect.
func Since(exportedAt, effectiveAt metav1.Time) metav1.Time {
	if effectiveAt.Before(&exportedAt) {
		return exportedAt
	}
	return effectiveAt
}
