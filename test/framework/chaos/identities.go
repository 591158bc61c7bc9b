// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Identities are the UIDs of objects that must neither disappear nor be replaced.
type Identities struct {
	mu         sync.Mutex
	uids       map[string]types.UID
	violations []string
}

// NewIdentities returns the identities of objects by their names.
func NewIdentities(uids map[string]types.UID) *Identities { return &Identities{uids: uids} }

// Exists records that a client saw an object.
func (i *Identities) Exists(client, name string, uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if want, kept := i.uids[name]; kept && uid != want {
		i.violations = append(i.violations, fmt.Sprintf("%s: %s had UID %s, has %s", client, name, want, uid))
	}
}

// Gone records that a client saw that an object does not exist.
func (i *Identities) Gone(client, name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, kept := i.uids[name]; kept {
		i.violations = append(i.violations, fmt.Sprintf("%s: %s disappeared", client, name))
	}
}

// Listed records that a client saw a complete list of objects.
func (i *Identities) Listed(client string, uids map[string]types.UID) {
	for name, uid := range uids {
		i.Exists(client, name, uid)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range i.uids {
		if _, listed := uids[name]; !listed {
			i.violations = append(i.violations, fmt.Sprintf("%s: %s is not listed", client, name))
		}
	}
}

// Violations returns what was seen that must not be.
func (i *Identities) Violations() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.violations)
}
