// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// object is what the model knows of an import.
type object struct {
	namespace, name, uid, ip, tier string
	version                        uint64
}

func (o object) key() string { return o.namespace + "/" + o.name }

// build returns the import, without its version.
func (o object) build() *multicluster.ServiceImport {
	built := serviceImport(o.namespace, o.name, o.ip, map[string]string{"tier": o.tier})
	built.UID = types.UID(o.uid)
	return built
}

// objectOf returns what the model knows of an import that was read.
func objectOf(t *testing.T, read *multicluster.ServiceImport) object {
	t.Helper()
	return object{read.Namespace, read.Name, string(read.UID), read.Spec.IPs[0], read.Labels["tier"], parseVersion(t, read.ResourceVersion)}
}

func parseVersion(t *testing.T, text string) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("version %q: %v", text, err)
	}
	return version
}

// selection is what a list or a watch selects.
type selection struct{ namespace, tier string }

func (s selection) matches(o *object) bool {
	return o != nil && (s.namespace == "" || s.namespace == o.namespace) && (s.tier == "" || s.tier == o.tier)
}

func (s selection) key() string {
	if s.namespace == "" {
		return prefix + "/"
	}
	return prefix + "/" + s.namespace + "/"
}

func (s selection) labels() labels.Selector {
	if s.tier == "" {
		return labels.Everything()
	}
	return labels.SelectorFromSet(labels.Set{"tier": s.tier})
}

// change is a change of one object; before and after are nil if it does not exist.
type change struct {
	version       uint64
	before, after *object
}

// model is a plain map with all changes that led to it.
type model struct {
	objects map[string]object
	changes []change
}

func newModel() *model { return &model{objects: map[string]object{}} }

// set does to the map what Set does to the store.
func (m *model) set(t *testing.T, store *virtual.Store, wanted object) {
	t.Helper()
	held, exists := m.objects[wanted.key()]
	wanted.version = held.version
	same := exists && held == wanted
	if changed := store.Set(wanted.build()); changed == same {
		t.Fatalf("Set of %+v over %+v reports %v", wanted, held, changed)
	}
	if same {
		return
	}
	stored, _ := store.Get(wanted.namespace, wanted.name)
	wanted.version = parseVersion(t, versionOf(t, stored))
	next := change{version: wanted.version, after: &wanted}
	switch {
	case exists && held.uid == wanted.uid:
		next.before = &held
	case exists: // the deletion has the version before, because no time passes between them
		m.changes = append(m.changes, change{version: wanted.version - 1, before: &held})
	}
	m.changes = append(m.changes, next)
	m.objects[wanted.key()] = wanted
}

// remove does to the map what Delete does to the store. newest returns the version that
// the store issued last.
func (m *model) remove(t *testing.T, store *virtual.Store, namespace, name string, newest func() uint64) {
	t.Helper()
	held, exists := m.objects[namespace+"/"+name]
	if deleted := store.Delete(namespace, name); deleted != exists {
		t.Fatalf("Delete of %s/%s reports %v", namespace, name, deleted)
	}
	if exists {
		delete(m.objects, held.key())
		m.changes = append(m.changes, change{version: newest(), before: &held})
	}
}

// at returns the selected objects at a version, ordered by key.
func (m *model) at(version uint64, selected selection) []object {
	state := map[string]object{}
	for _, c := range m.changes {
		switch {
		case c.version > version:
		case c.after != nil:
			state[c.after.key()] = *c.after
		default:
			delete(state, c.before.key())
		}
	}
	maps.DeleteFunc(state, func(_ string, o object) bool { return !selected.matches(&o) })
	return slices.SortedFunc(maps.Values(state), func(a, b object) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// observed is an event as a watcher sees it.
type observed struct {
	kind string
	object
}

// since returns the events after a version.
func (m *model) since(version uint64, selected selection) []observed {
	var events []observed
	for _, c := range m.changes {
		was, is := selected.matches(c.before), selected.matches(c.after)
		switch {
		case c.version <= version:
		case was && is:
			events = append(events, observed{"MODIFIED", *c.after})
		case is:
			events = append(events, observed{"ADDED", *c.after})
		case was: // the state before, with the version at which it ended
			gone := *c.before
			gone.version = c.version
			events = append(events, observed{"DELETED", gone})
		}
	}
	return events
}

// promised is for how long a version can be used, and remembered for how long at most.
const promised, remembered = 75 * time.Second, 5 * time.Minute

// before returns the events after one version that are not after another one.
func (m *model) before(version, after uint64, selected selection) []observed {
	return slices.DeleteFunc(m.since(after, selected), func(event observed) bool { return event.version > version })
}

// sortInitial sorts the first events of a watch, whose order does not matter.
func sortInitial(events []observed) {
	slices.SortFunc(events, func(a, b observed) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
