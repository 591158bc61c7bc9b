// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import "k8s.io/apimachinery/pkg/runtime"

// Derivation shows another version of objects to some readers. What it makes of an
// object is encoded once for all of them.
type Derivation struct {
	derive func(runtime.Object) runtime.Object
}

// NewDerivation returns a Derivation. The function must not modify an object, and what it
// returns must depend on nothing else.
func NewDerivation(derive func(runtime.Object) runtime.Object) *Derivation {
	return &Derivation{derive}
}

// Of returns what the derivation makes of an object. It has the encodings of this
// derivation of the object, and none of the object.
func (d *Derivation) Of(object runtime.Object) runtime.Object {
	wrapped, ok := innermost(object)
	if !ok || wrapped.encodings == nil {
		return d.derive(Unwrap(object))
	}
	return &Object{content: contentOf(d.derive(wrapped.content)), encodings: wrapped.encodings.of(d)}
}
