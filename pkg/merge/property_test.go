// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// arbitrary returns random exports with few distinct values, so that equal ones
// are frequent. below returns a random number below its argument.
func arbitrary(below func(int) int) []Export {
	pick := func(values ...string) string { return values[below(len(values))] }
	optional := func(values ...string) *string {
		if value := pick(append(values, "")...); value != "" {
			return ptr.To(value)
		}
		return nil
	}
	exports := make([]Export, 1+below(5))
	for i := range exports {
		export := Export{Cluster: fmt.Sprintf("cluster-%d", i), Since: epoch.Add(time.Duration(below(3)) * time.Second)}
		export.Spec = multicluster.ServiceImportSpec{
			Type:                  multicluster.ServiceImportType(pick("ClusterSetIP", "Headless")),
			SessionAffinity:       corev1.ServiceAffinity(pick("", "None", "ClientIP")),
			InternalTrafficPolicy: (*corev1.ServiceInternalTrafficPolicy)(optional("Local", "Cluster")),
			TrafficDistribution:   optional("PreferSameZone"),
			IPs:                   []string{"10.0.0.1"},
			IPFamilies:            [][]corev1.IPFamily{{"IPv4"}, {"IPv6"}, {"IPv4", "IPv6"}, {"IPv6", "IPv4"}, nil}[below(5)],
		}
		for range below(4) {
			export.Spec.Ports = append(export.Spec.Ports, multicluster.ServicePort{
				Name: pick("", "a", "b", "tcp-1", "tcp-1-2"), Protocol: corev1.Protocol(pick("", "TCP", "UDP")), Port: int32(1 + below(3)), AppProtocol: optional("http"),
			})
		}
		for range below(3) {
			export.Labels = map[string]string{pick("k", "multicluster.kubernetes.io/x"): pick("v", "w")}
		}
		for range below(3) {
			export.Preference.Tiers = append(export.Preference.Tiers, clusterpreference.Tier(pick("cluster", "property:region")))
		}
		export.Preference.MinReady = int32(below(3))
		export.IP = clustersetip.Export{Cluster: export.Cluster, At: export.Since, Wants: below(4) == 0}
		if below(8) == 0 {
			export.IP.Decision = clustersetip.NewDecision(pick("cluster-0", "gone"), []string{"243.1.0.1"}, epoch)
		}
		exports[i] = export
	}
	return exports
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("any exports at all"))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := 0
		checkProperties(t, arbitrary(func(n int) int {
			if next >= len(data) {
				return 0
			}
			next++
			return int(data[next-1]) % n
		}), rand.New(rand.NewSource(int64(len(data)))))
	})
}

func TestPropertiesHoldForArbitraryExports(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	for range 5000 {
		checkProperties(t, arbitrary(random.Intn), random)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkProperties checks the properties of every merge.
func checkProperties(t *testing.T, exports []Export, random *rand.Rand) {
	t.Helper()
	result := Merge(exports)

	// R63: the result depends neither on the order of the exports nor on the cluster.
	shuffled := slices.Clone(exports)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if diff := cmp.Diff(result, Merge(shuffled)); diff != "" {
		t.Errorf("the result depends on the order of the exports: %s", diff)
	}
	// Duplicates do not change the result.
	if diff := cmp.Diff(result, Merge(append(shuffled, exports[random.Intn(len(exports))]))); diff != "" {
		t.Errorf("a duplicate export changes the result: %s", diff)
	}
	// Merging the result with the exports changes nothing.
	agreeing := Export{Cluster: "zzz", Since: epoch.Add(time.Hour), Spec: result.Spec, Labels: result.Labels, Annotations: result.Annotations}
	if again := Merge(append(shuffled, agreeing)); !cmp.Equal(result.Spec, again.Spec) || !cmp.Equal(result.Labels, again.Labels) {
		t.Errorf("merging the result again changes it: %s", cmp.Diff(result.Spec, again.Spec))
	}
	// R57: no two ports have the same name, or the same protocol and number.
	// R37: only a single port may have no name.
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, port := range result.Spec.Ports {
		number := fmt.Sprint(port.Protocol, port.Port)
		if names[port.Name] || numbers[number] || port.Name == "" && len(result.Spec.Ports) > 1 || port.Protocol == "" {
			t.Errorf("ports are not valid in a Service: %s", describePorts(result.Spec.Ports))
		}
		names[port.Name], numbers[number] = true, true
	}
	// R47: every port is served by at least one cluster.
	for _, port := range result.Spec.Ports {
		if !slices.ContainsFunc(exports, func(export Export) bool {
			return slices.ContainsFunc(export.Spec.Ports, func(own multicluster.ServicePort) bool {
				return newPortID(own.Protocol, own.Port) == newPortID(port.Protocol, port.Port)
			})
		}) {
			t.Errorf("port %v is not served by any cluster", port)
		}
	}
	// R35, R51: a single export has no conflicts, unless it requests another kind of
	// IP than was decided earlier (R132).
	if len(exports) == 1 {
		for _, conflict := range result.Conflicts {
			if conflict.Reason != "ClusterSetIPConflict" || exports[0].IP.Decision == nil {
				t.Errorf("a single export has a conflict: %v", conflict)
			}
		}
	}
	for _, conflict := range result.Conflicts {
		if !strings.HasSuffix(conflict.Message, fmt.Sprintf("/%d clusters disagree.", len(exports))) {
			t.Errorf("message %q for %d clusters", conflict.Message, len(exports))
		}
	}
	if len(result.Clusters) != len(exports) || len(result.Spec.IPs) != 0 {
		t.Errorf("clusters %v and IPs %v of %d exports", result.Clusters, result.Spec.IPs, len(exports))
	}
}
