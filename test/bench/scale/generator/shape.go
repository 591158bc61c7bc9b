// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"net/netip"
)

// Shape is how services of one kind look, of which a member exports a number.
type Shape struct {
	// Namespace is where the services are, and Prefix what their names begin with.
	Namespace, Prefix string
	// Slices is how many EndpointSlices a service has, and Endpoints how many endpoints each
	// of these has.
	Slices, Endpoints int
}

// perService is how many endpoints a service has.
func (s Shape) perService() int { return s.Slices * s.Endpoints }

// Slice identifies an EndpointSlice of a member by numbers from 0: the shape among those of the
// member, the service among those of the shape, and the slice among those of the service.
type Slice struct{ Shape, Service, Slice int }

// noSlice is the number that a Slice has instead if it stands for its service.
const noSlice = -1

// Addresses of endpoints are in 10.0.0.0/10 and repeat after 4 million. Those that endpoints get
// by changes are in the following networks, so that each is that of one change.
const (
	firstAddress = 10 << 24
	addresses    = 64 << 16
	firstMarker  = firstAddress + addresses
	markers      = 32 << 16
)

// Marker returns the address that an endpoint gets by the change with a number.
func Marker(number uint32) netip.Addr { return addressAt(firstMarker + number%markers) }

func addressAt(number uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)})
}

// uid returns a UID as long as those of Kubernetes.
func uid(member int, object uint64) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", member, object)
}
