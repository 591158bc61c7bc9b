// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

func isHere(cluster string) bool { return cluster == "here" }

// endpoint returns a ready endpoint of a cluster in a zone, on a node if it is in this cluster.
func endpoint(cluster, zone string, changes ...func(*Endpoint)) Endpoint {
	result := Endpoint{Cluster: cluster, Ports: "http"}
	if zone != "" {
		result.Zone = ptr.To(zone)
	}
	if cluster == "here" {
		result.NodeName = ptr.To("node-in-" + zone)
	}
	for _, change := range changes {
		change(&result)
	}
	return result
}

func notReady(e *Endpoint) { e.Conditions.Ready = ptr.To(false) }

func serving(ports string) func(*Endpoint) { return func(e *Endpoint) { e.Ports = ports } }

func hintedFor(zones ...string) func(*Endpoint) {
	return func(e *Endpoint) {
		e.Hints = &discoveryv1.EndpointHints{}
		for _, zone := range zones {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
	}
}

// texts returns the zones and nodes of hints: "a,b", or "a,b@node".
func texts(hinted Hinted) []string {
	var result []string
	for _, hints := range hinted.Hints {
		var zones []string
		for _, zone := range hints.ForZones {
			zones = append(zones, zone.Name)
		}
		text := strings.Join(zones, ",")
		for _, node := range hints.ForNodes {
			text += "@" + node.Name
		}
		result = append(result, strings.ReplaceAll(text, Nowhere, "-"))
	}
	return result
}

// R605
func TestEndpointsOfTheTierAreHintedForAllZones(t *testing.T) {
	const sameZone, sameNode = corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode
	nine := strings.Split("a b c d e f g h i", " ")
	for _, test := range []struct {
		name, distribution string
		zones              []string
		endpoints          []Endpoint
		want               []string
		uncovered          []string
	}{
		{"two clusters", "", []string{"a", "b"},
			[]Endpoint{endpoint("here", "a"), endpoint("there", "a"), endpoint("here", "")}, []string{"a,b", "-", "a,b"}, nil},
		{"not ready", "", []string{"a", "b"},
			[]Endpoint{endpoint("here", "a", notReady), endpoint("here", "b"), endpoint("there", "a", notReady)}, []string{"a,b", "a,b", "-"}, nil},
		{"none in the tier", "", []string{"a"}, []Endpoint{endpoint("there", "a")}, []string{"-"}, nil},
		{"no endpoints", "", []string{"a"}, nil, nil, nil},
		{"same zone", sameZone, []string{"a", "b"},
			[]Endpoint{endpoint("here", "a"), endpoint("here", "b"), endpoint("there", "a")}, []string{"a", "b", "-"}, nil},
		{"same zone, by its former name", corev1.ServiceTrafficDistributionPreferClose, []string{"a", "b"},
			[]Endpoint{endpoint("here", "a"), endpoint("here", "b")}, []string{"a", "b"}, nil},
		{"a zone without endpoints uses all", sameZone, []string{"a", "b", "c"},
			[]Endpoint{endpoint("here", "a"), endpoint("here", "b")}, []string{"a,c", "b,c"}, nil},
		{"a zone without ready endpoints uses all", sameZone, []string{"a", "b"},
			[]Endpoint{endpoint("here", "a"), endpoint("here", "b", notReady)}, []string{"a,b", "b"}, nil},
		{"a zone of another cluster", sameZone, []string{"a"},
			[]Endpoint{endpoint("here", "a"), endpoint("here", "z")}, []string{"a", "-"}, nil},
		{"only in zones of another cluster", sameZone, []string{"a", "b"}, []Endpoint{endpoint("here", "z")}, []string{"a,b"}, nil},
		{"same node", sameNode, []string{"a", "b"},
			[]Endpoint{endpoint("here", "a"), endpoint("there", "a")}, []string{"a,b@node-in-a", "-@-"}, nil},
		{"nine zones", "", nine,
			[]Endpoint{endpoint("here", ""), endpoint("here", ""), endpoint("here", "")}, []string{"a,b,c,d,e", "f,g,h,i", "a,b,c,d,e"}, nil},
		{"nine zones, and two endpoints of which one is not ready", "", nine,
			[]Endpoint{endpoint("here", ""), endpoint("here", "", notReady)}, []string{"a,b,c,d,e", "a,b,c,d,e"}, []string{"f", "g", "h", "i"}},
		{"nine zones, and none is ready", "", nine, []Endpoint{endpoint("here", "", notReady)}, []string{"a,b,c,d,e"}, nil},
		{"nine zones at every port", "", nine,
			[]Endpoint{endpoint("here", ""), endpoint("here", "", serving("dns")), endpoint("here", ""), endpoint("here", "", serving("dns"))},
			[]string{"a,b,c,d,e", "a,b,c,d,e", "f,g,h,i", "f,g,h,i"}, nil},
		{"nine zones, and endpoints in some", sameZone, nine,
			[]Endpoint{endpoint("here", "a"), endpoint("here", "i")}, []string{"a,b,c,d,e,f,g,h", "b,c,d,e,f,g,h,i"}, nil},
		{"endpoints keep their zones", "", nine,
			[]Endpoint{endpoint("here", ""), endpoint("here", "", hintedFor("f", "g", "h", "i")), endpoint("here", "", hintedFor("a", "b", "c", "d", "e"))},
			[]string{"a,b,c,d,e", "f,g,h,i", "a,b,c,d,e"}, nil},
		{"unless some would have none", "", nine,
			[]Endpoint{endpoint("here", "", hintedFor("f", "g", "h", "i")), endpoint("here", "", hintedFor("f", "g", "h", "i"))},
			[]string{"f,g,h,i", "a,b,c,d,e"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := HintsFor(isHere, test.zones, test.distribution, test.endpoints)
			if diff := cmp.Diff(test.want, texts(got)); diff != "" {
				t.Errorf("unexpected hints (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.uncovered, got.Uncovered); diff != "" {
				t.Errorf("unexpected uncovered zones (-want +got):\n%s", diff)
			}
		})
	}
}

// R605: whatever there is, all hints are valid, no client uses an endpoint outside of the tier
// unless its zone is uncovered, and hints that are in use are not changed again.
func TestHintsKeepClientsInTheTier(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var zones []string
		for i := range 1 + random.IntN(30) {
			zones = append(zones, fmt.Sprintf("zone-%02d", i))
		}
		var endpoints []Endpoint
		for range 1 + random.IntN(40) {
			made := endpoint([]string{"here", "there"}[random.IntN(2)], []string{"", "zone-00", "zone-05", "elsewhere"}[random.IntN(4)],
				serving([]string{"http", "http,dns"}[random.IntN(2)]))
			if random.IntN(4) == 0 {
				notReady(&made)
			}
			endpoints = append(endpoints, made)
		}
		distribution := []string{"", corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}[random.IntN(3)]
		first := HintsFor(isHere, zones, distribution, endpoints)
		for _, problem := range hintProblems(zones, endpoints, first) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		for i := range endpoints {
			endpoints[i].Hints = first.Hints[i]
		}
		if diff := cmp.Diff(first, HintsFor(isHere, zones, distribution, endpoints)); diff != "" {
			t.Errorf("seed %d: hints change although nothing else does:\n%s", seed, diff)
		}
	}
}

// hintProblems returns what is wrong with the hints of endpoints.
func hintProblems(zones []string, endpoints []Endpoint, hinted Hinted) (problems []string) {
	for i, hints := range hinted.Hints {
		var names []string
		for _, zone := range hints.ForZones {
			names = append(names, zone.Name)
		}
		outside := !isHere(endpoints[i].Cluster) && !slices.Equal(names, []string{Nowhere})
		if len(names) == 0 || len(names) > maxZones || len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) || outside {
			problems = append(problems, fmt.Sprintf("endpoint %d of cluster %q is hinted for %v", i, endpoints[i].Cluster, names))
		}
	}
	for _, ports := range []string{"http", "http,dns"} {
		for _, zone := range zones {
			ready, found := 0, false
			for i, hints := range hinted.Hints {
				if endpoints[i].Ports == ports && isHere(endpoints[i].Cluster) && IsReady(endpoints[i].Endpoint) {
					ready++
					found = found || slices.Contains(hints.ForZones, discoveryv1.ForZone{Name: zone})
				}
			}
			if enough := ready*(maxZones-1) >= len(zones)+maxZones; ready > 0 && !found && (enough || !slices.Contains(hinted.Uncovered, zone)) {
				problems = append(problems, fmt.Sprintf("none of %d ready endpoints at %s is hinted for zone %q", ready, ports, zone))
			}
		}
	}
	return problems
}

// The API accepts the name, and no zone of a cloud has it.
func TestNowhereIsAValidHint(t *testing.T) {
	if problems := append(validation.IsValidLabelValue(Nowhere), validation.IsDNS1123Subdomain(Nowhere)...); len(problems) > 0 {
		t.Error(problems)
	}
}

// R606: hints cannot be used unless all nodes have zones.
func TestZonesOfNodes(t *testing.T) {
	node := func(name, zone string) *corev1.Node {
		made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if zone != "" {
			made.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		}
		return made
	}
	changed := func(node *corev1.Node, change func(*corev1.Node)) *corev1.Node {
		change(node)
		return node
	}
	tainted := func(node *corev1.Node, key string) *corev1.Node {
		return changed(node, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} })
	}
	for _, test := range []struct {
		name    string
		nodes   []*corev1.Node
		count   int
		want    []string
		problem string
	}{
		{"several", []*corev1.Node{node("1", "b"), node("2", "a"), node("3", "b")}, 3, []string{"a", "b"}, ""},
		{"one without", []*corev1.Node{node("1", "b"), node("3", ""), node("2", "")}, 3, []string{"b"},
			`node "2" has no label topology.kubernetes.io/zone (2 of 3 nodes do not); set it on all nodes`},
		{"none with", []*corev1.Node{node("1", "")}, 1, nil, "no node has the label topology.kubernetes.io/zone; set it on all nodes"},
		{"of Virtual Kubelet, by label", []*corev1.Node{node("1", "b"), changed(node("2", ""), func(n *corev1.Node) { n.Labels = map[string]string{"type": "virtual-kubelet"} })}, 1, []string{"b"}, ""},
		{"of Virtual Kubelet, by taint", []*corev1.Node{node("1", "b"), tainted(node("2", ""), "virtual-kubelet.io/provider")}, 1, []string{"b"}, ""},
		{"not initialized yet", []*corev1.Node{node("1", "b"), tainted(node("2", ""), "node.cloudprovider.kubernetes.io/uninitialized")}, 1, []string{"b"}, ""},
		{"with another taint", []*corev1.Node{node("1", "b"), tainted(node("2", ""), "node.kubernetes.io/not-ready")}, 2, []string{"b"},
			`node "2" has no label topology.kubernetes.io/zone (1 of 2 nodes do not); set it on all nodes`},
		{"no nodes", nil, 0, nil, "no nodes are known, and so no zones for which endpoints could be hinted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(Zones{test.want, test.count, test.problem}, ZonesOf(test.nodes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
