// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// mergePorts is the union of all ports. Of two ports with the same name, or
// with the same protocol and number, that of the older export stays.
func mergePorts(exports []Export) []multicluster.ServicePort {
	merged := []multicluster.ServicePort{}
	for _, export := range exports {
		for _, port := range export.Spec.Ports {
			if !slices.ContainsFunc(merged, func(other multicluster.ServicePort) bool {
				return other.Name == port.Name || samePort(other, port)
			}) {
				merged = append(merged, port)
			}
		}
	}
	return nameAll(merged)
}

// nameAll names a port without a name, unless it is the only one: Services
// with several ports must name them all.
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

// Serves says whether a cluster with these ports serves a port of the import,
// whatever it calls it. Connections to the port must not go anywhere else.
func Serves(ports []multicluster.ServicePort, port multicluster.ServicePort) bool {
	return slices.ContainsFunc(ports, func(own multicluster.ServicePort) bool { return samePort(own, port) })
}

func samePort(a, b multicluster.ServicePort) bool {
	return a.Protocol == b.Protocol && a.Port == b.Port
}

// hasPortsOf says whether two exports have the same ports, in any order.
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
