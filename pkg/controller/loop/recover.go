// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

var panics = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_controller", Name: "reconcile_panics_total", StabilityLevel: metrics.ALPHA,
	Help: "Number of panics while reconciling a key, by controller.",
}, []string{"controller"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(panics) })

// CountPanics makes the number of panics of a controller a metric from the start: an increase
// from nothing to one is none to Prometheus. [NewQueue] and [NewFairQueue] do so.
func CountPanics(controller string) {
	registerMetrics()
	panics.WithLabelValues(controller)
}

// Recover calls a function and turns a panic into an error, so that one key cannot
// end the process. The panic is counted, and logged with the key and its stack.
// k8s.io/apimachinery/pkg/util/runtime.HandleCrash would panic again by default.
func Recover(ctx context.Context, controller string, key any, reconcile func() error) (err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		registerMetrics()
		panics.WithLabelValues(controller).Inc()
		err = fmt.Errorf("panic: %v", cause)
		klog.FromContext(ctx).Error(err, "Recovered from panic", append(logValues(key), "controller", controller, "stack", string(debug.Stack()))...)
	}()
	return reconcile()
}
