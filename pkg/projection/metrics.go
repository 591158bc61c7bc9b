// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// clusterInfo tells which cluster all other metrics of this process are from.
var clusterInfo = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Name: "cluster_info", StabilityLevel: metrics.ALPHA,
	Help: "Always 1. The labels are what this cluster claims: its id, and the ClusterSet that it is in, cut off at 63 characters.",
}, []string{"cluster", "clusterset"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(clusterInfo) })

// showIdentity replaces what was shown before. A ClusterSet may have a very long
// name, which is no good label.
func showIdentity(identity member.Identity) {
	const most = 63
	clusterSet := []rune(identity.ClusterSet)
	clusterInfo.Reset()
	clusterInfo.WithLabelValues(identity.ID, string(clusterSet[:min(len(clusterSet), most)])).Set(1)
}
