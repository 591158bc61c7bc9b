// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
)

// registrationTiming is that of the Lease for registration. It is not urgent: the
// APIServices are the same whichever replica writes them.
var registrationTiming = leadership.Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 2 * time.Second}

// candidates campaign for the two Leases of the replicas.
type candidates struct {
	// materialization writes derived objects. It follows the health of the server in the
	// same Pod, from which it reads.
	materialization *leadership.Candidate
	// registration writes APIServices. It must not depend on the server: an installation
	// whose servers are not ready would never be registered. One replica at a time does
	// it, or replicas of two versions would overwrite the objects of each other.
	registration *leadership.Candidate
}

func newCandidates(opts *Options, client kubernetes.Interface, config *rest.Config, health *leadership.Health) (candidates, error) {
	found := candidates{
		materialization: &leadership.Candidate{Timing: opts.timing(), Health: health, Leading: measureLeading},
		registration:    &leadership.Candidate{Timing: registrationTiming},
	}
	if !opts.LeaderElection.LeaderElect {
		return found, nil
	}
	identity, err := identity()
	if err != nil {
		return candidates{}, err
	}
	election := opts.LeaderElection
	namespace := cmp.Or(election.ResourceNamespace, opts.Namespace)
	for candidate, name := range map[*leadership.Candidate]string{
		found.materialization: election.ResourceName,
		found.registration:    election.ResourceName + "-registration",
	} {
		candidate.Lock, err = resourcelock.NewFromKubeconfig(election.ResourceLock, namespace, name,
			resourcelock.ResourceLockConfig{Identity: identity}, config, candidate.RenewDeadline)
		if err != nil {
			return candidates{}, fmt.Errorf("set up Lease %s: %w", name, err)
		}
		candidate.Watch = leadership.Watch(client, namespace, name)
	}
	return found, nil
}

// identity returns the identity of this replica in Leases. In a Pod it is the name of the
// Pod, so that a restarted container leads again at once: its predecessor has ended.
func identity() (string, error) {
	if pod := podName(); pod != "" {
		return pod, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// podName returns the name of the Pod of this replica, or "" if it does not run in a Pod.
func podName() string { return os.Getenv("POD_NAME") }
