// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// R491: the ports of many clusters are merged in a time that grows as their number does: ten
// times as many would take a hundred times as long if each were compared with all others.
func TestTimeOfMergingGrowsAsThePortsDo(t *testing.T) {
	const few = 300
	exportsOf := func(count int) []Export {
		export := exported(0)
		export.Spec.Ports = nil
		for i := range count {
			export.Spec.Ports = append(export.Spec.Ports, multicluster.ServicePort{Name: fmt.Sprintf("port-%d", i), Protocol: corev1.ProtocolTCP, Port: int32(i + 1)})
		}
		return []Export{export}
	}
	small, large := exportsOf(few), exportsOf(10*few)
	quick := fastest(func() { mergePorts(small) })
	slow := fastest(func() { mergePorts(large) })
	if slow > 30*quick {
		t.Errorf("%d ports take %s, ten times as many %s", few, quick, slow)
	}
}
