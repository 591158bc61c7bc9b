// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// portID identifies a port of a Service for clients.
type portID struct {
	protocol corev1.Protocol
	number   int32
}

// newPortID returns the ID of a port, whose protocol is TCP by default.
func newPortID(protocol corev1.Protocol, number int32) portID {
	return portID{cmp.Or(protocol, corev1.ProtocolTCP), number}
}

// mergePorts returns the union of all ports, and how many of them are omitted because
// there are more than clusterset.MaxPorts: the last ones of the youngest exports.
func mergePorts(exports []Export) (ports []multicluster.ServicePort, omitted int) {
	ports = union(exports)
	if omitted = max(0, len(ports)-clusterset.MaxPorts); omitted > 0 {
		ports = ports[:clusterset.MaxPorts]
	}
	return nameAll(ports), omitted
}

// union returns the union of all ports. Of two ports with the same name, or with the
// same protocol and number, the one of the older export is used.
func union(exports []Export) []multicluster.ServicePort {
	merged := []multicluster.ServicePort{}
	names, ids := map[string]bool{}, map[portID]bool{}
	for _, export := range exports {
		for _, port := range export.Spec.Ports {
			id := newPortID(port.Protocol, port.Port)
			if names[port.Name] || ids[id] {
				continue
			}
			names[port.Name], ids[id] = true, true
			merged = append(merged, port)
		}
	}
	return merged
}

// nameAll names unnamed ports unless there is only one port: all ports of a
// Service with several ports need names.
func nameAll(ports []multicluster.ServicePort) []multicluster.ServicePort {
	if len(ports) < 2 {
		return ports
	}
	taken := map[string]bool{}
	for _, port := range ports {
		taken[port.Name] = true
	}
	for i := range ports {
		if ports[i].Name != "" {
			continue
		}
		name := strings.ToLower(fmt.Sprintf("%s-%d", ports[i].Protocol, ports[i].Port))
		for n, base := 2, name; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		ports[i].Name = name
	}
	return ports
}

// ServingPort returns the port of a cluster's exported Service that serves the
// import port with the given protocol and number, or nil if the cluster does not
// serve that port. The names of the two ports may differ: a client that connects
// to a number must never reach another one.
func ServingPort(exported []clustersetv1alpha1.ServicePort, protocol corev1.Protocol, number int32) *clustersetv1alpha1.ServicePort {
	wanted := newPortID(protocol, number)
	at := slices.IndexFunc(exported, func(port clustersetv1alpha1.ServicePort) bool {
		return newPortID(port.Protocol, port.Port) == wanted
	})
	if at < 0 {
		return nil
	}
	return &exported[at]
}

// Served are the ports that a cluster serves, for many lookups: the names that they
// have there. Lookups give the same answers as ServingPort and TargetPort.
type Served map[portID]string

// NewServed returns the ports of a cluster's exported Service.
func NewServed(exported []clustersetv1alpha1.ServicePort) Served {
	served := Served{}
	for _, port := range exported {
		id := newPortID(port.Protocol, port.Port)
		if _, found := served[id]; !found {
			served[id] = port.Name
		}
	}
	return served
}

// Targets are the endpoint ports of an EndpointSlice of a cluster that serves ports.
type Targets struct {
	served  Served
	numbers map[string]int32
}

// Targets returns the endpoint ports of an EndpointSlice.
func (s Served) Targets(endpoints []discoveryv1.EndpointPort) Targets {
	numbers := map[string]int32{}
	for _, endpoint := range endpoints {
		name := ""
		if endpoint.Name != nil {
			name = *endpoint.Name
		}
		if _, found := numbers[name]; !found && endpoint.Port != nil {
			numbers[name] = *endpoint.Port
		}
	}
	return Targets{s, numbers}
}

// Port returns what TargetPort returns.
func (t Targets) Port(protocol corev1.Protocol, number int32) (int32, bool) {
	name, served := t.served[newPortID(protocol, number)]
	if !served {
		return 0, false
	}
	target, found := t.numbers[name]
	return target, found
}

// TargetPort returns the number of the endpoint port that an import port leads
// to in an EndpointSlice of a cluster. It reports false if the cluster does not
// serve the port, or if the endpoints of this slice do not have it.
func TargetPort(exported []clustersetv1alpha1.ServicePort, endpoints []discoveryv1.EndpointPort, protocol corev1.Protocol, number int32) (int32, bool) {
	return NewServed(exported).Targets(endpoints).Port(protocol, number)
}

// hasPortsOf reports whether two exports have the same ports, in any order.
func hasPortsOf(oldest, later Export) bool {
	a, b := slices.SortedFunc(slices.Values(oldest.Spec.Ports), comparePorts), slices.SortedFunc(slices.Values(later.Spec.Ports), comparePorts)
	return slices.EqualFunc(a, b, func(a, b multicluster.ServicePort) bool { return comparePorts(a, b) == 0 })
}

func comparePorts(a, b multicluster.ServicePort) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), comparePointers(a.AppProtocol, b.AppProtocol))
}

func comparePointers(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

func describePorts(ports []multicluster.ServicePort) string {
	var described []string
	for _, port := range ports {
		text := fmt.Sprintf("%d/%s", port.Port, port.Protocol)
		if port.Name != "" {
			text = port.Name + ":" + text
		}
		if port.AppProtocol != nil {
			text += "(" + *port.AppProtocol + ")"
		}
		described = append(described, text)
	}
	slices.Sort(described)
	return strings.Join(described, ",")
}
