// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// restart stops the processes of clusters and starts them again.
func restart(t *testing.T, restarted ...*fleet.Cluster) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // usable in t.Cleanup
	for _, cluster := range restarted {
		expect.NoError(t, cluster.Stop())
		expect.NoError(t, cluster.StartController(ctx))
		expect.NoError(t, cluster.StartAPIServers())
	}
	for _, cluster := range restarted {
		expect.NoError(t, cluster.AwaitAvailable(ctx))
	}
}

// setFlag restarts a cluster with another value of a flag, until the test ends.
func setFlag(t *testing.T, cluster *fleet.Cluster, flag, value string) {
	t.Helper()
	before := cluster.APIServerFlags
	set := func(flags []string) {
		t.Helper()
		cluster.APIServerFlags = flags
		restart(t, cluster)
	}
	set(append(slices.DeleteFunc(slices.Clone(before), func(given string) bool { return strings.HasPrefix(given, flag+"=") }), flag+"="+value))
	t.Cleanup(func() { set(before) })
}

// givePart restarts a cluster with another allocation CIDR, until the test ends.
func givePart(t *testing.T, cluster *fleet.Cluster, part string) {
	t.Helper()
	setFlag(t, cluster, "--clusterset-ip-cidr", part)
}

// canAllocate waits until a cluster shows whether a member can allocate.
func canAllocate(t *testing.T, in *fleet.Cluster, id string, status metav1.ConditionStatus, reason string, parts ...string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("%s of %s in %s", reason, id, in.ID), func(ctx context.Context) error {
		entry, err := in.Clientset.ClusterSetV1alpha1().Members().Get(ctx, id, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkCondition(entry.Status.Conditions, "ClusterSetIP", status, append(parts, reason+": ")...)
	})
}

// R127, R129: an allocation CIDR that another member uses is reported, and no IP
// is allocated from it twice. A cluster that inherits an allocation CIDR, also
// after a restart, allocates only IPs that are not in use.
func TestInheritedAllocationCIDRAllocatesOnlyFreeIPs(t *testing.T) {
	const part = "243.9.0.0/30" // two addresses
	ns := clusters.CreateNamespace(t, "inheriting")
	givePart(t, east(), part)
	export(t, east(), ns, "web", "true")
	ip := oneIP(t, ns, "web", "east")
	export(t, west(), ns, "web", "true")
	adopted(t, west(), ns, "web", ip)

	// east joined first.
	givePart(t, north(), part)
	for _, cluster := range clusters.Clusters {
		canAllocate(t, cluster, "north", metav1.ConditionFalse, "Overlaps", part, `"east"`)
		canAllocate(t, cluster, "east", metav1.ConditionTrue, "Allocates")
	}
	export(t, north(), ns, "other", "true")
	exportCondition(t, north(), ns, "other", "Ready", metav1.ConditionFalse, "ClusterSetIPRangeOverlaps", part)

	expect.NoError(t, east().Unclaim(t.Context()))
	t.Cleanup(func() { expect.NoError(t, east().Claim(context.Background(), "east", "everywhere")) })
	canAllocate(t, north(), "north", metav1.ConditionTrue, "Allocates")
	if got := imported(t, west(), ns, "other", "north").Spec.IPs[0]; got == ip || !netip.MustParsePrefix(part).Contains(netip.MustParseAddr(got)) {
		t.Errorf("north allocated %s", got)
	}
	restart(t, north())
	export(t, north(), ns, "third", "true")
	exportCondition(t, north(), ns, "third", "Ready", metav1.ConditionFalse, "ClusterSetIPExhausted", part)
	for _, cluster := range []*fleet.Cluster{west(), north()} {
		if got := imported(t, cluster, ns, "web", "west").Spec.IPs[0]; got != ip {
			t.Errorf("IP in %s is %s, was %s", cluster.ID, got, ip)
		}
	}
	expect.NoError(t, west().Unexport(t.Context(), ns, "web"))
	if got := imported(t, west(), ns, "third", "north").Spec.IPs[0]; got != ip {
		t.Errorf("%s was released, but %s was allocated", ip, got)
	}
}

// R132: another default, after a restart, changes conditions only.
func TestFlagChangesConditionsOnly(t *testing.T) {
	ns := clusters.CreateNamespace(t, "flagged")
	export(t, west(), ns, "by-flag", "") // whose flag requests a shared IP
	export(t, east(), ns, "plain", "")
	ip := oneIP(t, ns, "by-flag", "west")
	adopted(t, west(), ns, "by-flag", ip)
	before := imported(t, north(), ns, "plain", "east").Spec.IPs
	setFlag(t, west(), "--clusterset-ip-mode", "Cluster")
	setFlag(t, east(), "--clusterset-ip-mode", "ClusterSet")
	for _, test := range []struct {
		cluster *fleet.Cluster
		name    string
		using   string
	}{{west(), "by-flag", `Using "true"`}, {east(), "plain", `Using "false"`}} {
		exportCondition(t, test.cluster, ns, test.name, "Conflict", metav1.ConditionTrue, "ClusterSetIPConflict", test.using, "1/1 clusters disagree")
		exportCondition(t, test.cluster, ns, test.name, "Valid", metav1.ConditionTrue)
		exportCondition(t, test.cluster, ns, test.name, "Ready", metav1.ConditionTrue)
	}
	if got := oneIP(t, ns, "by-flag", "west"); got != ip {
		t.Errorf("IP is %s, was %s", got, ip)
	}
	if after := imported(t, north(), ns, "plain", "east").Spec.IPs; !slices.Equal(after, before) {
		t.Errorf("IPs are %v, were %v", after, before)
	}
	// New exports follow the new flag.
	export(t, east(), ns, "new", "")
	oneIP(t, ns, "new", "east")
}

// R126: a shared IP is allocated for each IP family of the Service.
func TestOneSharedIPPerFamilyOfTheService(t *testing.T) {
	ns := clusters.CreateNamespace(t, "families")
	for name, families := range map[string][]corev1.IPFamily{
		"dual": {corev1.IPv6Protocol, corev1.IPv4Protocol},
		"six":  {corev1.IPv6Protocol},
		"four": {corev1.IPv4Protocol},
	} {
		_, err := east().Service(t.Context(), ns, name, func(service *corev1.Service) {
			service.Spec.IPFamilies = families
			if len(families) > 1 {
				service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
			}
		})
		expect.NoError(t, err)
		export(t, east(), ns, name, "true")
		var ips []string
		for _, cluster := range clusters.Clusters {
			found := imported(t, cluster, ns, name, "east")
			if ips == nil {
				ips = found.Spec.IPs
			}
			if len(found.Spec.IPs) != len(families) || !slices.Equal(found.Spec.IPs, ips) || !slices.Equal(found.Spec.IPFamilies, families) {
				t.Errorf("%s: IPs in %s are %v (%v), in other clusters %v", name, cluster.ID, found.Spec.IPs, found.Spec.IPFamilies, ips)
			}
		}
		for i, family := range families {
			want := map[corev1.IPFamily]string{corev1.IPv4Protocol: "243.1.", corev1.IPv6Protocol: "fd00:243:1:"}[family]
			if i >= len(ips) || !strings.HasPrefix(ips[i], want) {
				t.Errorf("%s: IPs are %v, want prefix %s at index %d", name, ips, want, i)
			}
		}
	}
}
