// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tolerated is how many times in a row a replica may find that another one has not renewed its
// Lease, once per period.
const tolerated = 4

// silence is how long that takes.
const silence = tolerated * period

// Pod identifies a replica.
type Pod struct {
	Name string
	UID  types.UID
}

// renewals returns when the Leases of replicas were renewed, except for one's own.
func renewals(leases []coordinationv1.Lease, own string) map[Pod]time.Time {
	renewed := map[Pod]time.Time{}
	for _, lease := range leases {
		if len(lease.OwnerReferences) != 1 || lease.Spec.RenewTime == nil {
			continue // not written by a replica
		}
		if owner := lease.OwnerReferences[0]; owner.Name != own {
			renewed[Pod{owner.Name, owner.UID}] = lease.Spec.RenewTime.Time
		}
	}
	return renewed
}

// sighting is what is known of another replica.
type sighting struct {
	// renewed is when the other replica renewed its Lease, by its own clock.
	renewed time.Time
	// unchanged is how many times in a row the Lease had not been renewed.
	unchanged int
}

// sightings are those of all other replicas.
type sightings map[Pod]sighting

// next returns the sightings after Leases were read once more, and the replicas that have just
// been silent for too long. They are counted in own renewals, not in seconds: a replica that
// could not reach the cluster itself for a while does not judge others by that.
func (s sightings) next(renewals map[Pod]time.Time) (next sightings, silent []Pod) {
	next = sightings{}
	for pod, renewed := range renewals {
		last, known := s[pod]
		if !known || !last.renewed.Equal(renewed) {
			next[pod] = sighting{renewed: renewed}
			continue
		}
		last.unchanged++
		next[pod] = last
		if last.unchanged == tolerated {
			silent = append(silent, pod)
		}
	}
	return next, silent
}
