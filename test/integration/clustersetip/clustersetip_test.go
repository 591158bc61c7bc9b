// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustersetip tests shared ClusterSet IPs on real control planes: which
// cluster allocates the IP, which clusters adopt it, and when it is released.
package clustersetip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusters *fleet.Fleet

// By default, west requests a shared IP. The allocation CIDR and the node port
// range of north are tiny.
func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west", "north"}, ClusterSet: "everywhere",
		Configure: func(id string, plane *controlplane.Config, installed *installation.Config) {
			if id == "north" {
				plane.APIServerFlags = []string{"--service-node-port-range=30000-30002"}
			}
			installed.APIServerFlags = append([]string{"--clusterset-ip-range=243.0.0.0/8,fd00:243::/32"}, map[string][]string{
				"east":  {"--clusterset-ip-cidr=243.1.0.0/16,fd00:243:1::/64"},
				"west":  {"--clusterset-ip-cidr=243.2.0.0/16", "--clusterset-ip-mode=ClusterSet"},
				"north": {"--clusterset-ip-cidr=243.3.0.0/30"},
			}[id]...)
		},
	})
}

func east() *fleet.Cluster  { return clusters.Cluster("east") }
func west() *fleet.Cluster  { return clusters.Cluster("west") }
func north() *fleet.Cluster { return clusters.Cluster("north") }

// wants returns an option that requests a shared IP ("true"), or none ("false").
func wants(value string) func(*multiclusterxv1beta1.ServiceExport) {
	return func(export *multiclusterxv1beta1.ServiceExport) {
		if value != "" {
			export.Annotations = map[string]string{multicluster.UseClusterSetIPAnnotation: value}
		}
	}
}

// export creates a Service, unless it exists, and exports it.
func export(t *testing.T, in *fleet.Cluster, ns, name, wish string) {
	t.Helper()
	if _, err := in.Service(t.Context(), ns, name); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err := in.Export(t.Context(), ns, name, wants(wish))
	expect.NoError(t, err)
}

// imported waits until an import from exactly these clusters is ready, and returns it.
func imported(t *testing.T, in *fleet.Cluster, ns, name string, from ...string) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	return in.AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		if exporters := fleet.Exporters(found); !slices.Equal(exporters, from) || !meta.IsStatusConditionTrue(found.Status.Conditions, "Ready") {
			return fmt.Errorf("imported from %v, conditions %+v", exporters, found.Status.Conditions)
		}
		return nil
	})
}

// oneIP checks that an import has the same IP in all clusters, and returns it.
func oneIP(t *testing.T, ns, name string, from ...string) string {
	t.Helper()
	ip := ""
	for _, cluster := range clusters.Clusters {
		found := imported(t, cluster, ns, name, from...)
		if ip == "" {
			ip = found.Spec.IPs[0]
		}
		if found.Spec.IPs[0] != ip || !strings.HasPrefix(ip, "243.") || found.Annotations[multicluster.UseClusterSetIPAnnotation] != "true" {
			t.Errorf("import in %s has IPs %v and annotations %v, want IP %s", cluster.ID, found.Spec.IPs, found.Annotations, ip)
		}
	}
	return ip
}

// checkCondition returns an error unless a condition has the given status, and
// its reason and message contain all parts.
func checkCondition(conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus, parts ...string) error {
	condition := meta.FindStatusCondition(conditions, conditionType)
	if condition == nil || condition.Status != status {
		return fmt.Errorf("%+v", conditions)
	}
	for _, part := range parts {
		if !strings.Contains(condition.Reason+": "+condition.Message, part) {
			return fmt.Errorf("%q is missing in %s: %s", part, condition.Reason, condition.Message)
		}
	}
	return nil
}

// exportCondition waits until a condition of an export passes checkCondition.
func exportCondition(t *testing.T, in *fleet.Cluster, ns, name, conditionType string, status metav1.ConditionStatus, parts ...string) {
	t.Helper()
	expect.Eventually(t, conditionType+" of the export in "+in.ID, func(ctx context.Context) error {
		found, err := in.Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkCondition(found.Status.Conditions, conditionType, status, parts...)
	})
}

// R126: the annotation has precedence over the flag.
func TestAnnotationOrFlagRequestsASharedIP(t *testing.T) {
	ns := clusters.CreateNamespace(t, "chosen")
	export(t, east(), ns, "by-annotation", "true")
	export(t, west(), ns, "by-flag", "")
	export(t, west(), ns, "not-by-annotation", "false")
	export(t, east(), ns, "by-nothing", "")
	if ip := oneIP(t, ns, "by-annotation", "east"); !strings.HasPrefix(ip, "243.1.") {
		t.Errorf("east allocated %s", ip)
	}
	if ip := oneIP(t, ns, "by-flag", "west"); !strings.HasPrefix(ip, "243.2.") {
		t.Errorf("west allocated %s", ip)
	}
	for name, from := range map[string]string{"not-by-annotation": "west", "by-nothing": "east"} {
		if found := imported(t, north(), ns, name, from); strings.HasPrefix(found.Spec.IPs[0], "243.") || found.Annotations[multicluster.UseClusterSetIPAnnotation] == "true" {
			t.Errorf("%s has IPs %v and annotations %v", name, found.Spec.IPs, found.Annotations)
		}
	}
	_, err := east().Service(t.Context(), ns, "odd")
	expect.NoError(t, err)
	if _, err := east().Export(t.Context(), ns, "odd", wants("maybe")); !apierrors.IsInvalid(err) {
		t.Errorf("invalid annotation value: %v, want an error", err)
	}
}

// R127: members show their allocation CIDRs.
func TestAllocationCIDRsAreShown(t *testing.T) {
	for _, cluster := range clusters.Clusters {
		for id, want := range map[string]string{"east": "243.1.0.0/16,fd00:243:1::/64", "west": "243.2.0.0/16", "north": "243.3.0.0/30"} {
			expect.Eventually(t, "allocation CIDR of "+id+" in "+cluster.ID, func(ctx context.Context) error {
				entry, err := cluster.Clientset.ClusterSetV1alpha1().Members().Get(ctx, id, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if strings.Join(entry.Status.ClusterSetIPCIDRs, ",") != want || !meta.IsStatusConditionTrue(entry.Status.Conditions, "ClusterSetIP") {
					return fmt.Errorf("%v, %+v", entry.Status.ClusterSetIPCIDRs, entry.Status.Conditions)
				}
				return nil
			})
		}
	}
}

// R128, R130: the first exporter allocates the IP, later exporters adopt it, and
// the IP outlives the first export. It is released with the last export.
func TestSharedIPIsKeptUntilTheLastExport(t *testing.T) {
	ns := clusters.CreateNamespace(t, "living")
	export(t, east(), ns, "web", "true")
	ip := oneIP(t, ns, "web", "east")
	export(t, west(), ns, "web", "true")
	if got := oneIP(t, ns, "web", "east", "west"); got != ip {
		t.Errorf("IP with another exporter is %s, was %s", got, ip)
	}
	adopted(t, west(), ns, "web", ip)
	expect.NoError(t, east().Unexport(t.Context(), ns, "web"))
	if got := oneIP(t, ns, "web", "west"); got != ip {
		t.Errorf("IP without its allocating cluster is %s, was %s", got, ip)
	}
	if by := imported(t, north(), ns, "web", "west").Annotations[multicluster.ClusterSetIPAllocatedByAnnotation]; by != "east" {
		t.Errorf("IP was allocated by %q, want east", by)
	}
	expect.NoError(t, west().Unexport(t.Context(), ns, "web"))
	north().AwaitNoImport(t, ns, "web")
	east().AwaitNoImport(t, ns, "web")
	export(t, east(), ns, "web", "true")
	if got := oneIP(t, ns, "web", "east"); got != ip {
		t.Errorf("IP was not released: got %s, want %s", got, ip)
	}
}

// adopted waits until a cluster records an IP in its own export.
func adopted(t *testing.T, in *fleet.Cluster, ns, name, ip string) {
	t.Helper()
	expect.Eventually(t, "IP "+ip+" recorded in "+in.ID, func(ctx context.Context) error {
		found, err := in.Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !strings.Contains(found.Annotations[multicluster.ClusterSetIPDecisionAnnotation], ip) {
			err = fmt.Errorf("annotations are %v", found.Annotations)
		}
		return err
	})
}

// R131, R132: the setting of the founding export stands, all exports report the
// conflict, and later changes change conditions only.
func TestSettingOfTheFoundingExportStands(t *testing.T) {
	ns := clusters.CreateNamespace(t, "disagreeing")
	export(t, east(), ns, "web", "true")
	ip := oneIP(t, ns, "web", "east")
	export(t, west(), ns, "web", "false")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		exportCondition(t, cluster, ns, "web", "Conflict", metav1.ConditionTrue, "ClusterSetIPConflict", `Using "true", decided by "east"`, "1/2 clusters disagree")
		exportCondition(t, cluster, ns, "web", "Valid", metav1.ConditionTrue)
		exportCondition(t, cluster, ns, "web", "Ready", metav1.ConditionTrue)
	}
	oneIP(t, ns, "web", "east", "west")
	annotate := func(in *fleet.Cluster, value string) {
		t.Helper()
		if output, err := in.Kubectl(t.Context(), "annotate", "serviceexport", "web", "-n", ns, "--overwrite", multicluster.UseClusterSetIPAnnotation+"="+value); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	annotate(west(), "true")
	exportCondition(t, east(), ns, "web", "Conflict", metav1.ConditionFalse)
	annotate(east(), "false")
	exportCondition(t, west(), ns, "web", "Conflict", metav1.ConditionTrue, "ClusterSetIPConflict")
	if got := oneIP(t, ns, "web", "east", "west"); got != ip {
		t.Errorf("IP is %s, was %s", got, ip)
	}
	// The recorded decision cannot be overwritten.
	if output, err := east().Kubectl(t.Context(), "annotate", "serviceexport", "web", "-n", ns, "--overwrite", multicluster.ClusterSetIPDecisionAnnotation+"=x"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	adopted(t, east(), ns, "web", ip)

	export(t, east(), ns, "plain", "false")
	before := imported(t, north(), ns, "plain", "east").Spec.IPs
	if output, err := east().Kubectl(t.Context(), "annotate", "serviceexport", "plain", "-n", ns, "--overwrite", multicluster.UseClusterSetIPAnnotation+"=true"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	exportCondition(t, east(), ns, "plain", "Conflict", metav1.ConditionTrue, "ClusterSetIPConflict", `Using "false"`)
	if after := imported(t, north(), ns, "plain", "east").Spec.IPs; fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("IPs are %v, were %v", after, before)
	}
}

// Exhaustion is reported and does not affect other exports.
func TestExhaustedAllocationCIDRIsReported(t *testing.T) {
	ns := clusters.CreateNamespace(t, "full")
	for _, name := range []string{"one", "two"} {
		export(t, north(), ns, name, "true")
		oneIP(t, ns, name, "north")
	}
	export(t, north(), ns, "three", "true")
	exportCondition(t, north(), ns, "three", "Ready", metav1.ConditionFalse, "ClusterSetIPExhausted", "243.3.0.0/30")
	export(t, north(), ns, "plain", "")
	imported(t, east(), ns, "plain", "north")
	// Releasing an IP makes room.
	expect.NoError(t, north().Unexport(t.Context(), ns, "one"))
	oneIP(t, ns, "three", "north")
	exportCondition(t, north(), ns, "three", "Ready", metav1.ConditionTrue)
	// So does an export that is no longer in effect, although it exists.
	export(t, north(), ns, "four", "true")
	exportCondition(t, north(), ns, "four", "Ready", metav1.ConditionFalse, "ClusterSetIPExhausted")
	expect.NoError(t, north().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "two", metav1.DeleteOptions{}))
	oneIP(t, ns, "four", "north")
}

// An import whose shared IP is unavailable in a cluster reports the reason in
// that cluster only.
func TestUnavailableSharedIPIsReported(t *testing.T) {
	ns := clusters.CreateNamespace(t, "refused")
	_, err := west().Kubernetes.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServicesLoadBalancers: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	expect.Eventually(t, "the quota", func(ctx context.Context) error {
		found, err := west().Kubernetes.CoreV1().ResourceQuotas(ns).Get(ctx, "none", metav1.GetOptions{})
		if err == nil && len(found.Status.Hard) == 0 {
			err = errors.New("quota is not enforced yet")
		}
		return err
	})
	export(t, east(), ns, "web", "true")
	imported(t, north(), ns, "web", "east")
	imported(t, east(), ns, "web", "east")
	unavailable(t, west(), ns, "web", "quota")

	// An older Service has the IP, which is known in advance: a service that is
	// exported again receives the IP that it had.
	ip := imported(t, north(), ns, "web", "east").Spec.IPs[0]
	expect.NoError(t, east().Unexport(t.Context(), ns, "web"))
	north().AwaitNoImport(t, ns, "web")
	_, err = north().Kubernetes.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "older"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{ip}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	export(t, east(), ns, "web", "true")
	imported(t, east(), ns, "web", "east")
	unavailable(t, north(), ns, "web", ip, `"older"`)
	expect.NoError(t, north().Kubernetes.CoreV1().Services(ns).Delete(t.Context(), "older", metav1.DeleteOptions{}))
	if got := imported(t, north(), ns, "web", "east").Spec.IPs[0]; got != ip {
		t.Errorf("IP is %s, want %s", got, ip)
	}
}

// When a cluster has no health check node port left, the shared IP works without
// one, which is reported.
func TestMissingHealthCheckNodePortIsReported(t *testing.T) {
	ns := clusters.CreateNamespace(t, "unhealthy")
	for i := range 5 { // more than north has node ports
		name := fmt.Sprintf("web-%d", i)
		export(t, east(), ns, name, "true")
		oneIP(t, ns, name, "east")
	}
	policies := map[corev1.ServiceExternalTrafficPolicy]int{}
	for i := range 5 {
		name := fmt.Sprintf("web-%d", i)
		service, err := north().Kubernetes.CoreV1().Services(ns).Get(t.Context(), multicluster.DerivedServiceName(ns, name), metav1.GetOptions{})
		expect.NoError(t, err)
		policies[service.Spec.ExternalTrafficPolicy]++
		ready := meta.FindStatusCondition(imported(t, north(), ns, name, "east").Status.Conditions, "Ready")
		if reported := strings.Contains(ready.Message, "client addresses are not preserved"); reported != (service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyCluster) {
			t.Errorf("%s has external traffic policy %s and message %q", name, service.Spec.ExternalTrafficPolicy, ready.Message)
		}
	}
	if policies[corev1.ServiceExternalTrafficPolicyCluster] < 2 {
		t.Errorf("policies are %v, want at least 2 of Cluster", policies)
	}
}

func unavailable(t *testing.T, in *fleet.Cluster, ns, name string, parts ...string) {
	t.Helper()
	in.AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		return checkCondition(found.Status.Conditions, "Ready", metav1.ConditionFalse, append(parts, "ClusterSetIPUnavailable: ")...)
	})
}

// R129, R132: restarting all processes between any two steps changes nothing, and
// no IP in use is allocated again.
func TestRestartsBetweenStepsChangeNothing(t *testing.T) {
	ns := clusters.CreateNamespace(t, "restarted")
	ip := ""
	for _, step := range []struct {
		name string
		do   func()
		from []string
	}{
		{"east exports", func() { export(t, east(), ns, "web", "true") }, []string{"east"}},
		{"west exports", func() { export(t, west(), ns, "web", "") }, []string{"east", "west"}},
		{"north exports with another setting", func() { export(t, north(), ns, "web", "false") }, []string{"east", "north", "west"}},
		{"east withdraws", func() { expect.NoError(t, east().Unexport(t.Context(), ns, "web")) }, []string{"north", "west"}},
		{"east exports another", func() {
			export(t, east(), ns, "other", "true")
			if got := oneIP(t, ns, "other", "east"); got == ip {
				t.Errorf("%s was allocated again", ip)
			}
		}, []string{"north", "west"}},
		{"west withdraws", func() { expect.NoError(t, west().Unexport(t.Context(), ns, "web")) }, []string{"north"}},
		{"east exports again", func() { export(t, east(), ns, "web", "true") }, []string{"east", "north"}},
	} {
		step.do()
		got := oneIP(t, ns, "web", step.from...)
		if ip == "" {
			ip = got
		}
		if got != ip {
			t.Fatalf("%s: IP is %s, was %s", step.name, got, ip)
		}
		for _, id := range step.from {
			adopted(t, clusters.Cluster(id), ns, "web", ip)
		}
		restartAll(t)
		if got := oneIP(t, ns, "web", step.from...); got != ip {
			t.Fatalf("%s, then all processes are restarted: IP is %s, was %s", step.name, got, ip)
		}
	}
}

func restartAll(t *testing.T) {
	t.Helper()
	restart(t, clusters.Clusters...)
	for _, cluster := range clusters.Clusters {
		expect.Eventually(t, "connected members in "+cluster.ID, func(ctx context.Context) error {
			members, err := cluster.Clientset.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, member := range members.Items {
				if !member.Status.Synced || member.Status.State != "Local" && member.Status.State != "Connected" {
					return fmt.Errorf("%s is %s, synced: %t", member.Name, member.Status.State, member.Status.Synced)
				}
			}
			return nil
		})
	}
}
