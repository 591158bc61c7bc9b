// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is a list of Objects.
type List struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Object

	newList func() runtime.Object
}

var (
	_ runtime.Object       = &List{}
	_ metav1.ListInterface = &List{}
)

// NewList returns an empty list. The function returns an empty list of what its Objects
// wrap, which has the fields TypeMeta, ListMeta and Items.
func NewList(newList func() runtime.Object) *List { return &List{newList: newList} }

// Transform replaces each Object by what the function makes of it, which may be another
// Object or other content.
func (l *List) Transform(transform func(runtime.Object) runtime.Object) {
	for i := range l.Items {
		transformed := transform(&l.Items[i])
		object, ok := transformed.(*Object)
		if !ok {
			object = Wrap(transformed, nil)
		}
		l.Items[i] = *object
	}
}

// Unwrap returns a list of what the Objects wrap. Its items are shallow copies.
func (l *List) Unwrap() runtime.Object {
	list, items := l.unwrapped(len(l.Items))
	for i := range l.Items {
		items.Index(i).Set(reflect.ValueOf(l.Items[i].content).Elem())
	}
	return list
}

// unwrapped returns the list with so many empty items, which are nil if those of the list are.
func (l *List) unwrapped(length int) (list runtime.Object, items reflect.Value) {
	list = l.newList()
	value := reflect.ValueOf(list).Elem()
	value.FieldByName("ListMeta").Set(reflect.ValueOf(l.ListMeta))
	items = value.FieldByName("Items")
	if l.Items != nil {
		items.Set(reflect.MakeSlice(items.Type(), length, length))
	}
	return list, items
}

// GetObjectKind implements runtime.Object. The kind is that of what Unwrap returns.
func (l *List) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta, newList: l.newList}
	l.DeepCopyInto(&copied.ListMeta)
	copied.Items = slices.Clone(l.Items)
	for i := range copied.Items {
		copied.Items[i] = *copied.Items[i].DeepCopyObject().(*Object)
	}
	return copied
}
