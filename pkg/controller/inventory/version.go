// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// versionTime is for how long a member has to report another version of Kubernetes until it is
// shown. While a control plane with several kube-apiservers is upgraded, the replicas of
// mcs-apiserver there report that of the one that each of them is connected to, in turns.
const versionTime = 2 * time.Minute

// reported is a version that is not shown yet, and since when the member has reported it.
type reported struct {
	version string
	since   time.Time
}

// version returns the version to show, given that which is shown and that which the member
// reports, empty if it is not known. If another one may have to be shown later, the profile is
// looked at again then.
func (c *Controller) version(name, shown, current string) string {
	if current == "" || shown == "" || current == shown {
		delete(c.versions, name)
		if current == "" {
			return shown
		}
		return current
	}
	seen, known := c.versions[name]
	if !known || seen.version != current {
		seen = reported{current, c.clock.Now()}
		c.versions[name] = seen
	}
	if wait := seen.since.Add(versionTime).Sub(c.clock.Now()); wait > 0 {
		c.queue.AddAfter(types.NamespacedName{Name: name}, wait)
		return shown
	}
	return current
}
