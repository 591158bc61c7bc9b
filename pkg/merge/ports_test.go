// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// fastest returns the shortest of many runs. Each is so short that some are not interrupted,
// however busy the machine is.
func fastest(run func()) time.Duration {
	shortest := time.Hour
	for range 50 {
		start := time.Now()
		run()
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}

// withManyPorts gives an export a number of ports, from port-<first> on.
func withManyPorts(first, count int) func(*Export) {
	return func(export *Export) {
		export.Spec.Ports = nil
		for i := range count {
			export.Spec.Ports = append(export.Spec.Ports, multicluster.ServicePort{Name: fmt.Sprintf("port-%d", first+i), Protocol: corev1.ProtocolTCP, Port: int32(first + i + 1)})
		}
	}
}

// R492: an import has no more ports than one export may have. Those of older exports take
// precedence, whatever the order of the exports is, and the conflict says how many are missing.
func TestPortsOfAnImportAreLimited(t *testing.T) {
	const limit = clusterset.MaxPorts
	old, young, youngest := exported(0, withManyPorts(0, limit-1)), exported(1, withManyPorts(limit-1, 100)), exported(2, withManyPorts(5000, limit))
	for _, exports := range [][]Export{{old, young, youngest}, {youngest, young, old}} {
		result := Merge(exports)
		if ports := result.Spec.Ports; len(ports) != limit || ports[limit-2].Name != "port-254" || ports[limit-1].Name != "port-255" {
			t.Errorf("got %d ports, want %d of the oldest exports: %s", len(ports), limit, describePorts(ports))
		}
		if reasons(result) != "PortConflict" || !strings.Contains(result.Conflicts[0].Message, `Using 256 of 611 ports, which is the limit, "port-0:1/TCP,`) ||
			!strings.HasSuffix(result.Conflicts[0].Message, `, preferring those of the oldest service export in "cluster-0". 2/3 clusters disagree.`) {
			t.Errorf("got conflicts %v", result.Conflicts)
		}
	}
	if result := Merge([]Export{old, exported(1, withManyPorts(limit-1, 1))}); len(result.Spec.Ports) != limit || strings.Contains(result.Conflicts[0].Message, "limit") {
		t.Errorf("at the limit, got %d ports and %v", len(result.Spec.Ports), result.Conflicts)
	}
}

// R491: the ports of many clusters are merged in a time that grows as their number does: ten
// times as many would take a hundred times as long if each were compared with all others.
func TestTimeOfMergingGrowsAsThePortsDo(t *testing.T) {
	const few = 300
	small, large := []Export{exported(0, withManyPorts(0, few))}, []Export{exported(0, withManyPorts(0, 10*few))}
	quick := fastest(func() { union(small) })
	slow := fastest(func() { union(large) })
	if slow > 30*quick {
		t.Errorf("%d ports take %s, ten times as many %s", few, quick, slow)
	}
}
