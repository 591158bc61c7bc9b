// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// Same reports whether two slices differ in nothing but when they changed: that alone is no
// change.
func (s *ExportedEndpointSlice) Same(other *ExportedEndpointSlice) bool {
	if !SameEndpoints(s.Spec.Endpoints, other.Spec.Endpoints) {
		return false
	}
	a, b := *s, *other
	a.Spec.Endpoints, b.Spec.Endpoints = nil, nil
	a.Spec.ChangedAt, b.Spec.ChangedAt = nil, nil
	return apiequality.Semantic.DeepEqual(&a, &b)
}

const (
	// MaxClockError is how far off a time may be that was converted between clocks.
	MaxClockError = 500 * time.Millisecond
	// maxChangeAge is how long endpoints may have been on their way, in an outage.
	maxChangeAge = 24 * time.Hour
)

// PlausibleChange reports whether endpoints that are read now can have changed at a time. Such a
// time can also be encoded, which is not the case of every time that can be decoded: with another
// one, a list could not be read.
func PlausibleChange(at, now time.Time) bool {
	return at.After(now.Add(-maxChangeAge)) && !at.After(now.Add(MaxClockError))
}
