// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"fmt"
	"time"
)

// Method is how kube-proxy is told which clusters answer.
type Method string

const (
	// Auto is Hints if all nodes have zones, and Detach otherwise.
	Auto Method = "auto"
	// Hints uses topology hints. kube-proxy goes by them on nodes that have a zone.
	Hints Method = "hints"
	// Detach uses labels with which kube-proxy does not use an EndpointSlice.
	Detach Method = "detach"
)

// Methods are all methods.
var Methods = []Method{Auto, Hints, Detach}

// In returns which of Hints and Detach is used in a cluster with these zones, and why clusters
// are not preferred on some nodes, or at all if none is used.
func (m Method) In(zones Zones) (use Method, problem string) {
	switch {
	case m == Detach || m != Hints && zones.Problem != "":
		return Detach, ""
	case zones.Problem == "":
		return Hints, ""
	case len(zones.Names) == 0:
		return "", fmt.Sprintf("cluster preference is not in effect in this cluster: %s, or change --preference-by of mcs-controller", zones.Problem)
	}
	return Hints, fmt.Sprintf("cluster preference is not in effect on some nodes: %s, or change --preference-by of mcs-controller", zones.Problem)
}

// zoneGrace is how long not all nodes have had a zone before Auto changes from Hints to Detach, which
// writes all slices. Nodes may be labeled some time after they were created.
const zoneGrace = 30 * time.Second

// Settled are zones of nodes of which some may not have settled.
type Settled struct {
	// Zones are those that count.
	Zones
	// doubted is since when other zones would have another method, zero if none would.
	doubted time.Time
}

// Settle returns the zones that count, given those that counted before, nil if there were none, and
// those of the nodes now. With Auto, the method changes from Hints to Detach only when it has been
// right to for zoneGrace; wait is until then, zero if it is not. Without nodes, the zones stay as
// they are.
func (m Method) Settle(before *Settled, zones Zones, now time.Time) (settled Settled, wait time.Duration) {
	switch {
	case before == nil:
		return Settled{Zones: zones}, 0
	case zones.Nodes == 0 && before.Nodes > 0:
		return *before, 0
	case m != Auto || zones.Problem == "" || before.Problem != "":
		return Settled{Zones: zones}, 0
	}
	settled = Settled{Zones: Zones{Names: zones.Names, Nodes: zones.Nodes}, doubted: before.doubted}
	if len(zones.Names) == 0 {
		settled.Names = before.Names
	}
	if before.doubted.IsZero() {
		settled.doubted = now
	}
	if wait = settled.doubted.Add(zoneGrace).Sub(now); wait <= 0 {
		return Settled{Zones: zones}, 0
	}
	return settled, wait
}
