// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	elected = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "mcs_apiserver", Subsystem: "member_records", Name: "elected", StabilityLevel: metrics.ALPHA,
		Help: "1 for the replica that records what members export, 0 for all others.",
	})
	pendingRecords = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "mcs_apiserver", Subsystem: "member_records", Name: "pending", StabilityLevel: metrics.ALPHA,
		Help: "Records of what members export that have to be compared with the storage, and written if they differ. 0 unless this replica is elected.",
	})
	recordWrites = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "mcs_apiserver", Subsystem: "member_records", Name: "writes_total", StabilityLevel: metrics.ALPHA,
		Help: "Writes of records of what members export, by result: success or error.",
	}, []string{"result"})
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(elected, pendingRecords, recordWrites) })
