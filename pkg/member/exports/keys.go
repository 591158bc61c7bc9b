// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// sortedKeys is a set of keys in order, so that the first does not have to be searched
// for when one of thousands changes.
type sortedKeys []Key

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// insert adds keys.
func (s *sortedKeys) insert(keys ...Key) {
	if len(keys) != 1 {
		*s = append(*s, keys...)
		slices.SortFunc(*s, compareKeys)
		*s = slices.Compact(*s)
		return
	}
	if at, known := slices.BinarySearchFunc(*s, keys[0], compareKeys); !known {
		*s = slices.Insert(*s, at, keys[0])
	}
}

// remove removes keys.
func (s *sortedKeys) remove(keys ...Key) {
	if len(keys) != 1 {
		removed := sets.New(keys...)
		*s = slices.DeleteFunc(*s, removed.Has)
		return
	}
	if at, known := slices.BinarySearchFunc(*s, keys[0], compareKeys); known {
		*s = slices.Delete(*s, at, at+1)
	}
}
