// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// maxServices limits the names of Services in a Lease, in bytes: all annotations of an
// object may have 256 KiB together.
const maxServices = 64 << 10

// LookFromLease returns what the Lease of a member tells about its endpoints, nil if it
// does not.
func LookFromLease(lease *coordinationv1.Lease) *liveness.Look {
	text := lease.Annotations[clusterset.EndpointsAnnotation]
	if text == "" {
		return nil
	}
	look := &liveness.Look{}
	if err := json.Unmarshal([]byte(text), look); err != nil {
		return nil // of another version
	}
	look.Past = !look.Sample && !isOf(look, renewed(lease))
	return look
}

// isOf reports whether a look was one at the silence of a member that was last seen at a time.
// Earlier versions do not say at which silence they looked, only when.
func isOf(look *liveness.Look, lastSeen time.Time) bool {
	if look.Silence.IsZero() {
		return !look.At.Before(lastSeen)
	}
	return look.Silence.Equal(lastSeen)
}

// RecordLook returns a copy of the Lease of a member with what was found about its endpoints
// since the member was last seen, as the Lease says.
func RecordLook(lease *coordinationv1.Lease, look *liveness.Look) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	limited := *Limited(look)
	limited.Silence = renewed(lease)
	text, err := json.Marshal(limited)
	if err != nil {
		return lease // unreachable: the fields have values of JSON
	}
	lease.Annotations = with(lease.Annotations, clusterset.EndpointsAnnotation, string(text))
	return lease
}

// Limited returns a look with as many names of Services as a Lease has room for.
func Limited(look *liveness.Look) *liveness.Look {
	size := 0
	for i, name := range look.Services {
		if size += len(name) + len(`"",`); size > maxServices {
			limited := *look
			limited.Services = look.Services[:i]
			return &limited
		}
	}
	return look
}
