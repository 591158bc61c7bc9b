// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// snapshot returns the content of all chunks.
func (t *tree) snapshot() map[string]chunk {
	chunks := map[string]chunk{}
	for prefix, content := range t.chunks {
		chunks[prefix] = maps.Clone(content)
	}
	return chunks
}

// In whatever order Services come and go, each of them is in one chunk, chunks are
// small, and set returns the chunks that changed and no others.
func TestEveryServiceIsInOneSmallChunk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	held := map[exports.Ref]*clusterset.ExportedService{}
	divided := newTree()
	for range 20_000 {
		ref := exports.Ref{Cluster: fmt.Sprintf("c%d", random.IntN(3))}
		ref.Service.Namespace, ref.Service.Name = "ns", fmt.Sprintf("web-%d", random.IntN(2_000))
		var service *clusterset.ExportedService
		if random.IntN(4) > 0 {
			service = &clusterset.ExportedService{}
		}
		held[ref] = service
		var before map[string]chunk
		if random.IntN(100) == 0 {
			before = divided.snapshot()
		}
		changed := sets.New(divided.set(ref, service)...)
		if before == nil {
			continue
		}
		for prefix := range sets.KeySet(before).Union(sets.KeySet(divided.chunks)) {
			// A part of a chunk may be empty, and has no document before and after.
			same := maps.Equal(before[prefix], divided.chunks[prefix])
			if !same && !changed.Has(prefix) || same && changed.Has(prefix) && len(before[prefix]) > 0 {
				t.Fatalf("chunk %q: is the same %t, but %v are reported as changed", prefix, same, changed.UnsortedList())
			}
		}
	}
	expectComplete(t, divided, held)
}

func expectComplete(t *testing.T, divided *tree, held map[exports.Ref]*clusterset.ExportedService) {
	t.Helper()
	count := 0
	for prefix, content := range divided.chunks {
		if len(content) > maxServices {
			t.Errorf("chunk %q has %d Services", prefix, len(content))
		}
		for ref, service := range content {
			count++
			if held[ref] != service || !strings.HasPrefix(bits(ref), prefix) || divided.find(ref) != prefix {
				t.Errorf("%v is in chunk %q", ref, prefix)
			}
		}
	}
	maps.DeleteFunc(held, func(_ exports.Ref, service *clusterset.ExportedService) bool { return service == nil })
	if count != len(held) {
		t.Errorf("%d Services are in chunks, want %d", count, len(held))
	}
}

// A tree with the prefixes of another one, in any order, has the same chunks.
func TestTreeOfPrefixes(t *testing.T) {
	original := newTree()
	for _, name := range many(1_000) {
		ref, service := service(t, "b", name)
		original.set(ref, service)
	}
	prefixes := slices.Collect(maps.Keys(original.chunks))
	same := newTree(prefixes...)
	if got, want := sets.KeySet(same.chunks), sets.KeySet(original.chunks); !got.Equal(want) {
		t.Errorf("got chunks %v, want %v", sets.List(got), sets.List(want))
	}
	// The sibling of a prefix exists, too: together all chunks cover all hashes.
	if got := sets.KeySet(newTree("01").chunks); !got.Equal(sets.New("00", "01", "1")) {
		t.Errorf("got chunks %v", sets.List(got))
	}
}

func TestTreeIsDividedOnlyIfNeeded(t *testing.T) {
	original, held := newTree(), map[exports.Ref]*clusterset.ExportedService{}
	for _, name := range many(200) {
		ref, service := service(t, "b", name)
		original.set(ref, service)
		held[ref] = service
	}
	prefixes := slices.Sorted(maps.Keys(original.chunks))
	if original.divided(prefixes) != original || original.divided(prefixes[1:]) != original {
		t.Error("a tree that has the prefixes is divided again")
	}
	deeper := original.divided([]string{prefixes[0] + "010"})
	if _, found := deeper.chunks[prefixes[0]+"010"]; !found {
		t.Errorf("got chunks %v", sets.List(sets.KeySet(deeper.chunks)))
	}
	expectComplete(t, deeper, held)
	expectComplete(t, original, held)
}

func TestUnderAPrefixAreItsParts(t *testing.T) {
	divided := newTree("01", "100")
	for prefix, want := range map[string][]string{"": {"00", "01", "100", "101", "11"}, "1": {"100", "101", "11"}, "01": nil, "010": nil} {
		if got := divided.under(prefix); !slices.Equal(got, want) {
			t.Errorf("under %q are %v, want %v", prefix, got, want)
		}
	}
}
