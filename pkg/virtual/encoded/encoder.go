// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Serializer returns Encoders instead of those of another serializer.
type Serializer struct {
	runtime.NegotiatedSerializer
	// compact encodes compact JSON.
	compact runtime.Encoder
}

// NewSerializer returns a serializer for a server that serves Objects.
func NewSerializer(serializer runtime.NegotiatedSerializer) Serializer {
	info, _ := runtime.SerializerInfoForMediaType(serializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return Serializer{serializer, info.Serializer}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s Serializer) EncoderForVersion(serializer runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	encoder := s.NegotiatedSerializer.EncoderForVersion(serializer, version)
	if s.compact == nil || serializer != s.compact {
		return unwrapping{encoder}
	}
	return &Encoder{encoder, marker + encoder.Identifier()}
}

// unwrapping encodes what Objects wrap, once per reader.
type unwrapping struct {
	runtime.Encoder
}

// Encode implements runtime.Encoder.
func (u unwrapping) Encode(object runtime.Object, w io.Writer) error {
	if list, ok := object.(*List); ok {
		object = list.Unwrap()
	}
	return u.Encoder.Encode(object, w)
}

// Encoder encodes Objects as compact JSON of one group-version, and everything else as the
// encoder that it replaces.
type Encoder struct {
	usual runtime.Encoder
	id    runtime.Identifier
}

// Identifier implements runtime.Encoder.
func (e *Encoder) Identifier() runtime.Identifier { return e.id }

// Encode implements runtime.Encoder.
func (e *Encoder) Encode(object runtime.Object, w io.Writer) error {
	switch object := object.(type) {
	case *List:
		return e.encodeList(object, w)
	case runtime.CacheableObject:
		return object.CacheEncode(e.id, e.Encode, w)
	}
	return e.usual.Encode(object, w)
}

// chunkSize is how much of a list is written at once. It exceeds the size from which
// responses are compressed, which is decided at the first write.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, chunkSize+chunkSize/4)) }}

// noItems ends the encoding of a list without items.
const noItems = "]}\n"

// encodeList writes a list: what is around its items as it is around none, and between
// them the encodings of the items, without their kind.
func (e *Encoder) encodeList(list *List, w io.Writer) error {
	if !e.keepsMost(list) { // each of them costs more than one of a list
		return e.usual.Encode(list.Unwrap(), w)
	}
	empty, _ := list.unwrapped(0)
	chunk := chunks.Get().(*bytes.Buffer)
	defer chunks.Put(chunk)
	chunk.Reset()
	if err := e.usual.Encode(empty, chunk); err != nil {
		return err
	}
	if !bytes.HasSuffix(chunk.Bytes(), []byte("["+noItems)) { // no list, or null instead of items
		return e.usual.Encode(list.Unwrap(), w)
	}
	chunk.Truncate(chunk.Len() - len(noItems))
	for i := range list.Items {
		raw, err := e.encodeObject(&list.Items[i])
		if err != nil {
			return err
		}
		item, err := withoutKind(raw)
		if err != nil {
			return err
		}
		if i > 0 {
			chunk.WriteByte(',')
		}
		chunk.WriteByte('{')
		chunk.Write(item)
		if chunk.Len() >= chunkSize {
			if _, err := chunk.WriteTo(w); err != nil {
				return err
			}
		}
	}
	chunk.WriteString(noItems)
	_, err := chunk.WriteTo(w)
	return err
}

// keepsMost reports whether the encodings of most items are kept, or will be.
func (e *Encoder) keepsMost(list *List) bool {
	kept := 0
	for i := range list.Items {
		if list.Items[i].encodings.keeps(e.id) {
			kept++
		}
	}
	return 2*kept >= len(list.Items)
}

// encodeObject returns the encoding of an object, which must not be modified.
func (e *Encoder) encodeObject(object *Object) ([]byte, error) {
	encode := func() ([]byte, error) {
		buffer := bytes.Buffer{}
		err := e.usual.Encode(object.GetObject(), &buffer)
		return bytes.Clone(buffer.Bytes()), err
	}
	if object.encodings == nil {
		return encode()
	}
	raw, err := object.encodings.get(e.id, encode)
	if raw == nil && err == nil { // another reader found that it cannot be kept
		return encode()
	}
	return raw, err
}

var metadata = []byte(`,"metadata":`)

// withoutKind returns the encoding of an object from its metadata on, without the line feed
// at its end. Objects begin with their kind and version, whose names contain no quotes.
func withoutKind(raw []byte) ([]byte, error) {
	at := bytes.Index(raw, metadata)
	if at < 0 || !bytes.HasPrefix(raw, []byte(`{"kind":"`)) {
		return nil, fmt.Errorf("encoding does not begin with kind and metadata: %.100q", raw)
	}
	return bytes.TrimSuffix(raw[at+1:], []byte("\n")), nil
}
