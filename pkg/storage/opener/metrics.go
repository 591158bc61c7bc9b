// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package opener

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var available = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Subsystem: "storage", Name: "available", StabilityLevel: metrics.ALPHA,
	Help: "1 if the storage can be used, 0 if it is lost, not the storage of this cluster, or not open yet, by the value of --storage.",
}, []string{"storage"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(available) })

// observe records whether the storage can be used.
func (o *Opener) observe(closed error) {
	value := 1.0
	if closed != nil {
		value = 0
	}
	available.WithLabelValues(o.storageType).Set(value)
}
