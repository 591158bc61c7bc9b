// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

var looksDone = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_controller", Subsystem: "endpoint", Name: "looks_total", StabilityLevel: metrics.ALPHA,
	Help: "How often it was tried to find out whether the endpoints of a Service of a silent member answer, by cluster and result. The cluster is * for all that hubs relay and no Secret names.",
}, []string{"cluster", "result"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(looksDone) })

// result returns the label for what was found.
func result(found liveness.Finding, problem liveness.Problem) string {
	if problem != "" {
		return string(problem)
	}
	return string(found)
}

// labelLocked returns the value of the label cluster for a cluster.
func (p *Prober) labelLocked(cluster string) string {
	for _, from := range p.sources {
		if from.named.Has(cluster) {
			return cluster
		}
	}
	return route.Unnamed
}

// measureLocked counts a look at a Service of a cluster.
func (p *Prober) measureLocked(cluster, result string) {
	label := p.labelLocked(cluster)
	p.measured.Insert(label)
	looksDone.WithLabelValues(label, result).Inc()
}

// forgetMetricsLocked removes the metrics of members that are gone, or are not named any more.
func (p *Prober) forgetMetricsLocked() {
	gone := p.measured.Clone()
	for cluster := range p.looks {
		gone.Delete(p.labelLocked(cluster))
	}
	for cluster := range gone {
		p.measured.Delete(cluster)
		for _, result := range []string{
			string(liveness.Answers), string(liveness.Silent), string(liveness.Unaskable), string(liveness.NoVantagePoint), string(liveness.EverythingAnswers),
		} {
			looksDone.Delete(map[string]string{"cluster": cluster, "result": result})
		}
	}
}
