// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import "iter"

// Combine returns the behavior of a member that behaves in two ways at the same time: it sends
// objects and events of both by turns. Who it claims to be, and what it answers by itself
// (Resource.Handler), is that of the first.
func Combine(first, second Behavior) Behavior {
	combined := Behavior{}
	for name, resource := range second {
		combined[name] = resource
	}
	for name, resource := range first {
		other, both := second[name]
		if both && resource.Handler == nil && name != Claims && name != Members {
			resource = resource.combine(other)
		}
		combined[name] = resource
	}
	return combined
}

func (r Resource) combine(other Resource) Resource {
	combined := Resource{Objects: byTurns(r.objects(), other.objects()), NoStreaming: r.NoStreaming}
	if r.Then != nil {
		combined.Rate = r.Rate + other.Rate
		combined.Then = func(number int) string {
			if number%2 == 0 {
				return r.Then(number / 2)
			}
			return other.Then(number / 2)
		}
	}
	return combined
}

// byTurns returns the values of two sequences by turns, and then the rest of the longer one.
func byTurns(a, b iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		nextA, stopA := iter.Pull(a)
		defer stopA()
		nextB, stopB := iter.Pull(b)
		defer stopB()
		for {
			fromA, inA := nextA()
			if inA && !yield(fromA) {
				return
			}
			fromB, inB := nextB()
			if inB && !yield(fromB) {
				return
			}
			if !inA && !inB {
				return
			}
		}
	}
}
