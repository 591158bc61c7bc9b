// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	"bytes"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// content is an API object.
type content interface {
	runtime.Object
	metav1.Object
}

// Object wraps an API object together with its encodings. Copies, shallow ones as well,
// share both. It is safe for concurrent use but for methods that set something.
type Object struct {
	content // nobody modifies it, unless it is owned
	// owned is whether this Object is the only one that refers to the content.
	owned bool
	// encodings is nil if none are kept.
	encodings *encodings
}

var (
	_ runtime.CacheableObject = &Object{}
	_ metav1.Object           = &Object{}
)

// Wrap returns an Object with the content, which must not be modified afterwards. Its
// encodings count against the budget until Release; nil keeps none. It panics if the
// content is not an API object, which would be a programming error.
func Wrap(object runtime.Object, budget *Budget) *Object {
	wrapped := &Object{content: contentOf(object)}
	if budget != nil {
		wrapped.encodings = newEncodings(budget)
	}
	return wrapped
}

// New returns an Object with new content, whose metadata may be set.
func New(object runtime.Object) *Object {
	return &Object{content: contentOf(object), owned: true}
}

func contentOf(object runtime.Object) content {
	wrapped, ok := object.(content)
	if !ok {
		panic(fmt.Sprintf("%T has no metadata", object))
	}
	return wrapped
}

// Unwrap returns the content of an Object, also of one that the watch cache wrapped once
// more, and any other object as it is. The content is shared and must not be modified.
func Unwrap(object runtime.Object) runtime.Object {
	if wrapped, ok := innermost(object); ok {
		return wrapped.content
	}
	if wrapped, ok := object.(runtime.CacheableObject); ok {
		return wrapped.GetObject()
	}
	return object
}

// innermost returns the Object that the watch cache may have wrapped. Its copy of an Object
// shares content and encodings.
func innermost(object runtime.Object) (*Object, bool) {
	if wrapped, ok := object.(*Object); ok {
		return wrapped, true
	}
	if cached, ok := object.(runtime.CacheableObject); ok {
		wrapped, ok := cached.GetObject().(*Object)
		return wrapped, ok
	}
	return nil, false
}

// UnwrapInto copies the content, without what it refers to, into an object of the same
// type. If there is none, the object becomes empty.
func (o *Object) UnwrapInto(into runtime.Object) error {
	value, err := conversion.EnforcePtr(into)
	if err != nil {
		return err
	}
	if o.content == nil {
		value.SetZero()
		return nil
	}
	value.Set(reflect.ValueOf(o.content).Elem())
	return nil
}

// Release forgets the encodings, of all copies as well, and keeps no others.
func (o *Object) Release() {
	if o.encodings != nil {
		o.encodings.release()
	}
}

// CacheEncode implements runtime.CacheableObject.
func (o *Object) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	format := formatOf(id)
	if format == nil || o.encodings == nil {
		return encode(o.GetObject(), w)
	}
	var frame []byte // if it had to be encoded
	raw, err := o.encodings.get(format.object, func() ([]byte, error) {
		buffer := bytes.Buffer{}
		err := encode(o.GetObject(), &buffer)
		frame = buffer.Bytes()
		return format.unframe(frame), err
	})
	switch splice, ok := w.(runtime.Splice); {
	case err != nil:
		return err
	case frame == nil && raw == nil: // another reader found that it cannot be kept
		return encode(o.GetObject(), w)
	case frame == nil && format.isObject() && ok:
		splice.Splice(raw)
		return nil
	case frame == nil:
		frame = format.frame(raw)
	}
	_, err = w.Write(frame)
	return err
}

// GetObject implements runtime.CacheableObject. The copy is shallow: what encoders set is
// the kind.
func (o *Object) GetObject() runtime.Object {
	copied := reflect.New(reflect.TypeOf(o.content).Elem())
	copied.Elem().Set(reflect.ValueOf(o.content).Elem())
	return copied.Interface().(runtime.Object)
}

// GetObjectKind implements runtime.Object. Encoders set the kind of the content.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. The content is copied as soon as something
// is set.
func (o *Object) DeepCopyObject() runtime.Object {
	copied := *o
	if o.owned {
		copied.content = contentOf(o.content.DeepCopyObject())
	}
	return &copied
}

// own returns the content to be modified.
func (o *Object) own() content {
	if !o.owned {
		o.content = contentOf(o.content.DeepCopyObject())
		o.owned, o.encodings = true, nil
	}
	return o.content
}
