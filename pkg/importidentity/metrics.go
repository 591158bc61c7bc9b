// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var damagedRecords = metrics.NewCounter(&metrics.CounterOpts{
	Namespace: "mcs_apiserver", Subsystem: "imports", Name: "damaged_records_total", StabilityLevel: metrics.ALPHA,
	Help: "Records of ended ServiceImports that could not be decoded and were replaced.",
})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(damagedRecords) })
