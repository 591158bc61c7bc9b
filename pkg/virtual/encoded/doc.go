// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package encoded encodes immutable API objects once per version instead of once per
// reader.
//
// An Object wraps an API object together with its encodings. The watch cache holds and
// copies Objects instead of what they wrap, and passes them on to the handlers of
// requests, which know the interface runtime.CacheableObject. An Encoder writes a List,
// a single Object or the event of a watch from the encodings of its objects:
//
//	virtual.Store ─► Object ─► watch cache ─► List, Object, watch.Event ─► Encoder
//
// # Identity
//
// Encodings belong to an Object, and are found by nothing else: not by a UID or a
// resourceVersion, which redacted copies and deleted objects may share with others. Who
// wants to change an object has to unwrap it, and what is unwrapped has no encodings.
// An Object whose metadata is set copies its content, and loses its encodings.
//
// # Memory
//
// Encodings live as long as the store holds the object. A Budget limits their size;
// objects beyond it are encoded once per reader.
//
// # Format
//
// Only compact JSON is kept, once per group-version; tables, partial metadata and
// everything else is encoded as usual. The bytes are those of the usual encoder.
package encoded
