// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

var (
	// clusterInfo identifies the cluster that all other metrics of this process
	// belong to.
	clusterInfo = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "mcs_apiserver", Name: "cluster_info", StabilityLevel: metrics.ALPHA,
		Help: "Always 1. The labels are the ID of this cluster and its ClusterSet, truncated to 63 characters.",
	}, []string{"cluster", "clusterset"})
	panics = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "mcs_apiserver", Subsystem: "projection", Name: "panics_total", StabilityLevel: metrics.ALPHA,
		Help: "Panics that were recovered while computing virtual resources.",
	})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(clusterInfo, panics)
	legacyregistry.CustomMustRegister(&current)
})

// recordIdentity sets clusterInfo to the identity. The name of a ClusterSet is
// truncated, because it can be too long for a metric label.
func recordIdentity(self identity.Cluster) {
	const maxLabel = 63
	clusterSet := []rune(self.ClusterSet)
	clusterInfo.Reset()
	clusterInfo.WithLabelValues(self.ID, string(clusterSet[:min(len(clusterSet), maxLabel)])).Set(1)
}
