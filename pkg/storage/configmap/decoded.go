// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
)

const (
	// maxDecoded is the number of decoded objects that are kept, and maxDecodedBytes
	// the encoded size of the largest one. Typical objects have 2 KiB.
	maxDecoded      = 10_000
	maxDecodedBytes = 8 << 10
)

// decodedObjects keeps decoded objects, because every list and every watch would decode
// them again, and decoding takes 30 times as long as copying.
type decodedObjects struct{ byName *lru.Cache }

// decodedObject is the object that data encodes, without a resource version. It is shared
// and must not be changed. It does not matter to which version of the object it belongs.
type decodedObject struct {
	data   string
	object runtime.Object
}

func newDecodedObjects() decodedObjects { return decodedObjects{lru.New(maxDecoded)} }

// get returns a copy of the object of a wrapper, or nil if it must be decoded.
func (d decodedObjects) get(name, data string) runtime.Object {
	if held, ok := d.byName.Get(name); ok {
		if decoded := held.(decodedObject); decoded.data == data {
			return decoded.object.DeepCopyObject()
		}
	}
	return nil
}

// put keeps a copy of a decoded object.
func (d decodedObjects) put(name, data string, object runtime.Object) {
	if len(data) <= maxDecodedBytes {
		d.byName.Add(name, decodedObject{data, object.DeepCopyObject()})
	}
}
