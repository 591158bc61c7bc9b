// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmigration

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Refusal is an object that cannot be copied, and why.
type Refusal struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Update replaces the content of an object, or its status, or both.
type Update struct {
	Existing, Wanted *unstructured.Unstructured
	Content, Status  bool
}

// Changes are what makes the objects of one side those of the other, in this order.
type Changes struct {
	// Release are objects to delete, or being deleted, whose finalizers belong to an object
	// that is gone.
	Release []*unstructured.Unstructured
	Delete  []*unstructured.Unstructured
	Create  []*unstructured.Unstructured
	Update  []Update
	// Kept are the names of objects that exist on the other side without having been
	// copied: they are left alone.
	Kept []string
	// Refused cannot be copied.
	Refused []Refusal
}

// Empty reports whether nothing has to be written.
func (c Changes) Empty() bool { return len(c.Release)+len(c.Delete)+len(c.Create)+len(c.Update) == 0 }

func keyOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func byKey(objects []*unstructured.Unstructured) map[types.NamespacedName]*unstructured.Unstructured {
	keyed := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, object := range objects {
		keyed[keyOf(object)] = object
	}
	return keyed
}

// OfMember reports whether an object is the ClusterProfile of a member, which mcs-controller
// writes: it is neither copied nor returned.
func OfMember(object *unstructured.Unstructured) bool {
	manager, _, _ := unstructured.NestedString(object.Object, "spec", "clusterManager", "name")
	return manager == multicluster.ManagedBy
}

func ofUsers(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), OfMember)
}

// Mirror returns what makes the objects of mcs-apiserver copies of those of a CRD. Objects that
// were never copied are left alone, unless they were returned to the CRD once, at that time:
// what the CRD lacks of them was deleted there. An object that is being deleted is deleted as
// well: its copy has the same finalizers, or none.
func (r Resource) Mirror(custom, own []*unstructured.Unstructured, returned time.Time) Changes {
	var changes Changes
	custom, own = ofUsers(custom), ofUsers(own)
	existing, wanted := byKey(own), byKey(custom)
	isCopy := func(object *unstructured.Unstructured) bool {
		return migratedFrom(object) != "" || object.GetCreationTimestamp().Time.Before(returned)
	}
	for _, object := range own {
		if !isCopy(object) {
			continue
		}
		source := wanted[keyOf(object)]
		gone := source == nil || !counterparts(source, object)
		if gone && len(object.GetFinalizers()) > 0 {
			changes.Release = append(changes.Release, object)
		}
		if (gone || source.GetDeletionTimestamp() != nil) && object.GetDeletionTimestamp() == nil {
			changes.Delete = append(changes.Delete, object)
		}
	}
	for _, source := range custom {
		object, key := existing[keyOf(source)], keyOf(source).String()
		if object != nil && !isCopy(object) && !counterparts(source, object) {
			changes.Kept = append(changes.Kept, key)
			continue
		}
		if source.GetDeletionTimestamp() != nil {
			continue
		}
		copied, err := r.Copy(source)
		switch {
		case err != nil:
			changes.Refused = append(changes.Refused, Refusal{key, err.Error()})
		case object == nil || !counterparts(source, object):
			changes.Create = append(changes.Create, copied)
		default:
			changes.add(r, object, copied)
		}
	}
	changes.sort()
	return changes
}

// counterparts reports whether the object of a CRD and one of mcs-apiserver are the same.
func counterparts(custom, own *unstructured.Unstructured) bool {
	return migratedFrom(own) == custom.GetUID() || custom.GetAnnotations()[ReturnedFromAnnotation] == string(own.GetUID())
}

// Back returns what makes the objects of a CRD those of mcs-apiserver, in a version. Objects of
// the CRD that mcs-apiserver does not have were deleted there, unless they are not deletable:
// those of a resource that mcs-apiserver computes belong to the other implementation.
func (r Resource) Back(custom, own []*unstructured.Unstructured, version string, deletable bool) Changes {
	var changes Changes
	custom, own = ofUsers(custom), ofUsers(own)
	existing, wanted := byKey(custom), byKey(own)
	for _, object := range custom {
		if wanted[keyOf(object)] == nil && deletable && object.GetDeletionTimestamp() == nil {
			changes.Delete = append(changes.Delete, object)
		}
	}
	for _, source := range own {
		if source.GetDeletionTimestamp() != nil {
			continue
		}
		returned, err := r.Return(source, version)
		object := existing[keyOf(source)]
		switch {
		case err != nil:
			changes.Refused = append(changes.Refused, Refusal{keyOf(source).String(), err.Error()})
		case object == nil:
			changes.Create = append(changes.Create, returned)
		case deletable:
			changes.add(r, object, returned)
		}
	}
	changes.sort()
	return changes
}

func (c *Changes) add(r Resource, existing, wanted *unstructured.Unstructured) {
	update := Update{Existing: existing, Wanted: wanted, Content: !r.Same(existing, wanted), Status: !r.SameStatus(existing, wanted)}
	if update.Content || update.Status {
		c.Update = append(c.Update, update)
	}
}

// sort gives everything an order that does not depend on that of the objects.
func (c *Changes) sort() {
	order := func(a, b *unstructured.Unstructured) int { return cmp.Compare(keyOf(a).String(), keyOf(b).String()) }
	slices.SortFunc(c.Release, order)
	slices.SortFunc(c.Delete, order)
	slices.SortFunc(c.Create, order)
	slices.SortFunc(c.Update, func(a, b Update) int { return order(a.Existing, b.Existing) })
	slices.Sort(c.Kept)
	slices.SortFunc(c.Refused, func(a, b Refusal) int { return cmp.Compare(a.Name, b.Name) })
}
