// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var unregistered = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_controller", Name: "api_unregistered", StabilityLevel: metrics.ALPHA,
	Help: "Always 1. The label is the reason why the API, or a part of it, is not registered, as Events of the Deployment have it. There is no series if all of it is.",
}, []string{"reason"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(unregistered) })

// measure records a state in metrics.
func (s state) measure() {
	unregistered.Reset()
	if s.event != "" {
		unregistered.WithLabelValues(s.event).Set(1)
	}
}
