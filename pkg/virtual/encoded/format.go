// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// marker begins the identifiers of encoders whose encodings are kept.
const marker = "encoded:"

// format is what an identifier stands for.
type format struct {
	// object identifies the encoding of the object alone.
	object runtime.Identifier
	// before and after are what an event of a watch adds; nil for the object alone.
	before, after []byte
}

// formats are the known formats by identifier, which are few: encoders, types of events and
// options of tables. Those with a nil object are not kept.
var formats sync.Map

// formatOf returns what an identifier stands for, and nil if its encodings are not kept.
func formatOf(id runtime.Identifier) *format {
	if known, ok := formats.Load(id); ok {
		return known.(*format)
	}
	if !strings.Contains(string(id), marker) {
		return nil
	}
	parsed := parse(id)
	formats.Store(id, parsed)
	return parsed
}

// parse returns the format of an identifier. The handlers of k8s.io/apiserver identify events
// of watches by this document. If they did not, events would be encoded for each reader of the
// initial events of a watch.
func parse(id runtime.Identifier) *format {
	if strings.HasPrefix(string(id), marker) {
		return &format{object: id}
	}
	var event struct{ Name, EmbeddedEncoder, Encoder, EventType string }
	err := json.Unmarshal([]byte(id), &event)
	if err != nil || event.Name != "watch" || event.Encoder != event.EmbeddedEncoder || !strings.HasPrefix(event.Encoder, marker) {
		return nil
	}
	eventType, err := json.Marshal(event.EventType)
	if err != nil {
		return nil
	}
	return &format{
		object: runtime.Identifier(event.EmbeddedEncoder),
		before: append(append([]byte(`{"type":`), eventType...), `,"object":`...),
		after:  []byte("}\n"),
	}
}

// isObject reports whether the format is that of the object alone.
func (f *format) isObject() bool { return f.before == nil }

// frame returns the encoding of an object in this format. An object that stands alone ends
// with a line feed.
func (f *format) frame(raw []byte) []byte {
	if f.isObject() {
		return raw
	}
	frame := make([]byte, 0, len(f.before)+len(raw)+len(f.after))
	frame = append(frame, f.before...)
	frame = append(frame, bytes.TrimSuffix(raw, []byte("\n"))...)
	return append(frame, f.after...)
}

// unframe is the inverse of frame. It returns a copy, and nil if it does not know what is
// around the object.
func (f *format) unframe(frame []byte) []byte {
	if f.isObject() {
		return bytes.Clone(frame)
	}
	raw, before := bytes.CutPrefix(frame, f.before)
	raw, after := bytes.CutSuffix(raw, f.after)
	if !before || !after {
		return nil
	}
	return append(bytes.Clone(raw), '\n')
}
