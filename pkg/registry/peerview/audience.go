// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peerview

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// audienceField is a field of objects that no request can select: the clusters that an object is
// for, joined, and empty if it is for all.
const audienceField = "audience"

// Attributes returns what objects are selected by.
func (f Feed) Attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	labels, fields, err := storage.DefaultNamespaceScopedAttr(object)
	if err != nil {
		return nil, nil, err
	}
	if audience := f.Audience(object); audience != nil {
		fields[audienceField] = audience.Joined
	}
	return labels, fields, nil
}

// audienceSelector selects what another selector does, as far as it is for a peer.
type audienceSelector struct {
	fields.Selector
	peer string
}

// Matches implements fields.Selector.
func (s audienceSelector) Matches(given fields.Fields) bool {
	audience := given.Get(audienceField)
	return (audience == "" || clusterset.JoinedIncludes(audience, s.peer)) && s.Selector.Matches(given)
}

// Empty implements fields.Selector.
func (audienceSelector) Empty() bool { return false }

// Transform implements fields.Selector.
func (s audienceSelector) Transform(transform fields.TransformFunc) (fields.Selector, error) {
	selector, err := s.Selector.Transform(transform)
	return audienceSelector{selector, s.peer}, err
}

// DeepCopySelector implements fields.Selector.
func (s audienceSelector) DeepCopySelector() fields.Selector {
	return audienceSelector{s.Selector.DeepCopySelector(), s.peer}
}
