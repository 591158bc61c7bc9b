// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

var looksDone = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_controller", Subsystem: "endpoint", Name: "looks_total", StabilityLevel: metrics.ALPHA,
	Help: "How often it was tried to find out whether the endpoints of a Service of a silent member answer, by cluster and result.",
}, []string{"cluster", "result"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(looksDone) })

// result returns the label for what was found.
func result(found liveness.Finding, problem liveness.Problem) string {
	if problem != "" {
		return string(problem)
	}
	return string(found)
}

// forgetMetrics removes the metrics of a member that is gone.
func forgetMetrics(cluster string) {
	for _, label := range []string{
		string(liveness.Answers), string(liveness.Silent), string(liveness.Unaskable), string(liveness.NoVantagePoint), string(liveness.EverythingAnswers),
	} {
		looksDone.Delete(map[string]string{"cluster": cluster, "result": label})
	}
}
