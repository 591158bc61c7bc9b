// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conflicts tests that all clusters compute the same import from exports
// that differ, on real control planes.
package conflicts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"one", "two", "three", "four", "five"}, ClusterSet: "everywhere"})
}

// variants are the exports of each cluster. Together they differ in every
// property that can conflict.
var variants = map[string]struct {
	service func(*corev1.Service)
	export  func(*multiclusterxv1beta1.ServiceExport)
}{
	"one": {
		service: func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
			s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: ptr.To("http")}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
		},
		export: func(e *multiclusterxv1beta1.ServiceExport) { e.Spec.ExportedLabels = map[string]string{"from": "one"} },
	},
	"two": {
		service: func(s *corev1.Service) {
			s.Spec.ClusterIP = corev1.ClusterIPNone
			s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 8080}, {Name: "extra", Port: 9000}}
		},
		export: func(e *multiclusterxv1beta1.ServiceExport) { e.Spec.ExportedLabels = map[string]string{"from": "two"} },
	},
	"three": {
		service: func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}}
			s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		},
		export: func(e *multiclusterxv1beta1.ServiceExport) {
			e.Spec.ExportedAnnotations = map[string]string{"from": "three"}
		},
	},
	"four": {
		service: func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
			s.Spec.Ports = []corev1.ServicePort{{Name: "sctp", Port: 80, Protocol: corev1.ProtocolSCTP}}
		},
		export: func(*multiclusterxv1beta1.ServiceExport) {},
	},
	"five": {
		service: func(s *corev1.Service) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
			s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: ptr.To("grpc")}}
		},
		export: func(*multiclusterxv1beta1.ServiceExport) {},
	},
}

// R24, R51 to R59, R61 to R63, R119, R120, R121, R122: in whatever order the
// exports are created and arrive, all clusters compute the same import, whatever
// they export themselves. Exports in conflict, or of another type, still take
// part.
func TestFiveClustersComputeTheSameImport(t *testing.T) {
	for round, order := range [][]string{
		{"one", "two", "three", "four", "five"},
		{"five", "four", "three", "two", "one"},
		{"three", "one", "five", "two", "four"},
	} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			ns := fmt.Sprintf("round-%d", round)
			for _, cluster := range clusters.Clusters {
				expect.NoError(t, cluster.Namespace(t.Context(), ns))
				_, err := cluster.Service(t.Context(), ns, "web", variants[cluster.ID].service)
				expect.NoError(t, err)
			}
			for i, id := range order {
				if i == 1 {
					awaitNextSecond(t) // the first export is the oldest, whatever its cluster ID
				}
				_, err := clusters.Cluster(id).Export(t.Context(), ns, "web", variants[id].export)
				expect.NoError(t, err)
			}
			agree(t, ns, order...)
			// Exports are withdrawn one by one, the oldest first.
			for len(order) > 1 {
				expect.NoError(t, clusters.Cluster(order[0]).Unexport(t.Context(), ns, "web"))
				order = order[1:]
				agree(t, ns, order...)
			}
		})
	}
}

// awaitNextSecond waits until new objects are younger than existing ones:
// creation timestamps have a resolution of one second.
func awaitNextSecond(t *testing.T) {
	t.Helper()
	second := time.Now().Unix()
	expect.Eventually(t, "the next second", func(context.Context) error {
		if time.Now().Unix() == second {
			return fmt.Errorf("the time is still %d", second)
		}
		return nil
	})
}

// oldest returns the cluster whose export has precedence.
func oldest(t *testing.T, ns string, from []string) string {
	t.Helper()
	return slices.MinFunc(from, func(a, b string) int {
		return cmp.Or(created(t, a, ns).Compare(created(t, b, ns)), cmp.Compare(a, b))
	})
}

func created(t *testing.T, cluster, ns string) time.Time {
	t.Helper()
	export, err := clusters.Cluster(cluster).Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(t.Context(), "web", metav1.GetOptions{})
	expect.NoError(t, err)
	return export.CreationTimestamp.Time
}

// agree waits until all clusters import the service from exactly the given
// clusters, and fails unless the imports are equal.
func agree(t *testing.T, ns string, from ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(from))
	winner := oldest(t, ns, from)
	var export multiclusterxv1beta1.ServiceExport
	variants[winner].export(&export)
	specs := map[string]string{}
	var first string
	for _, cluster := range clusters.Clusters {
		expect.Eventually(t, "import in "+cluster.ID, func(ctx context.Context) error {
			found, err := cluster.Clientset.MulticlusterXV1beta1().ServiceImports(ns).Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			var exporters []string
			for _, exporter := range found.Status.Clusters {
				exporters = append(exporters, exporter.Cluster)
			}
			if !slices.Equal(exporters, want) {
				return fmt.Errorf("exported by %v, want %v", exporters, want)
			}
			found.Spec.IPs = nil // specific to the cluster
			spec, err := json.Marshal(map[string]any{"spec": found.Spec, "labels": found.Labels, "annotations": found.Annotations})
			if err != nil {
				return err
			}
			specs[cluster.ID], first = string(spec), string(spec)
			checkPorts(t, found.Spec.Ports)
			if headless := winner == "two"; headless != (found.Spec.Type == multiclusterxv1beta1.Headless) {
				t.Errorf("oldest export is of %s, but the type is %s", winner, found.Spec.Type)
			}
			if !maps.Equal(found.Labels, export.Spec.ExportedLabels) {
				t.Errorf("oldest export is of %s, but the labels are %v", winner, found.Labels)
			}
			return nil
		})
	}
	for id, spec := range specs {
		if spec != first {
			t.Errorf("%s computes\n%s\nother clusters compute\n%s", id, spec, first)
		}
	}
}

// R57: no two ports share a name, or protocol and number.
func checkPorts(t *testing.T, ports []multiclusterxv1beta1.ServicePort) {
	t.Helper()
	for i, a := range ports {
		for _, b := range ports[:i] {
			if a.Name == b.Name || a.Protocol == b.Protocol && a.Port == b.Port {
				t.Errorf("ports %+v and %+v collide", a, b)
			}
		}
	}
}

// preferring makes an export prefer clusters.
func preferring(tiers, minReady string) func(*multiclusterxv1beta1.ServiceExport) {
	return func(e *multiclusterxv1beta1.ServiceExport) {
		e.Annotations = map[string]string{multicluster.ClusterPreferenceAnnotation: tiers, multicluster.PreferenceMinReadyAnnotation: minReady}
	}
}

// R608: clusters that prefer others than the oldest export does are in conflict, as are all. They
// agree again when they prefer the same, however it is written.
func TestClustersPreferDifferentClusters(t *testing.T) {
	const ns = "preferring"
	exporters := clusters.Clusters[:2]
	for i, cluster := range exporters {
		expect.NoError(t, cluster.Namespace(t.Context(), ns))
		_, err := cluster.Service(t.Context(), ns, "web")
		expect.NoError(t, err)
		if i == 1 {
			awaitNextSecond(t)
		}
		_, err = cluster.Export(t.Context(), ns, "web", preferring([]string{"cluster", "property:region.example.com"}[i], []string{"2", "1"}[i]))
		expect.NoError(t, err)
	}
	await := func(reason string, parts ...string) {
		t.Helper()
		for _, cluster := range exporters {
			expect.Eventually(t, "condition Conflict in "+cluster.ID, func(ctx context.Context) error {
				export, err := cluster.Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					return err
				}
				condition := meta.FindStatusCondition(export.Status.Conditions, multicluster.ServiceExportConflict)
				if condition == nil || condition.Reason != reason {
					return fmt.Errorf("condition is %+v, want reason %s", condition, reason)
				}
				for _, part := range parts {
					if !strings.Contains(condition.Message, part) {
						return fmt.Errorf("%q is missing in %q", part, condition.Message)
					}
				}
				return nil
			})
			cluster.AwaitImportThat(t, ns, "web", func(found *multiclusterxv1beta1.ServiceImport) error {
				tiers, minReady := found.Annotations[multicluster.ClusterPreferenceAnnotation], found.Annotations[multicluster.PreferenceMinReadyAnnotation]
				if tiers != "cluster" || minReady != "2" {
					return fmt.Errorf("preference of the import is %q with a minimum of %q", tiers, minReady)
				}
				return nil
			})
		}
	}
	await("ClusterPreferenceConflict", `Conflicting cluster preference. Using "cluster (at least 2 ready)" from oldest service export in "one". 1/2 clusters disagree.`)
	later := exporters[1].Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	_, err := later.Patch(t.Context(), "web", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:" cluster ",%q:"2"}}}`,
		multicluster.ClusterPreferenceAnnotation, multicluster.PreferenceMinReadyAnnotation), metav1.PatchOptions{})
	expect.NoError(t, err)
	await("NoConflicts")
}
