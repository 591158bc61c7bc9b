// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

const (
	// maxServices is how many Services a chunk may have, so that one change is one
	// small write.
	maxServices = 64
	// maxDepth limits the length of a prefix.
	maxDepth = 32
)

// chunk are the Services that one document contains.
type chunk map[exports.Ref]*clusterset.ExportedService

// tree divides the Services of a member into chunks. A chunk has the Services whose
// hash begins with a prefix, which is a string of bits; together the chunks cover
// all hashes. A chunk that grows too large is divided in two, and the other chunks
// stay as they are.
type tree struct {
	// chunks are by prefix. No prefix is the beginning of another.
	chunks map[string]chunk
}

// newTree returns a tree without Services that has at least the given prefixes.
func newTree(prefixes ...string) *tree {
	t := &tree{chunks: map[string]chunk{"": {}}}
	for _, prefix := range prefixes {
		for i := range prefix {
			if _, whole := t.chunks[prefix[:i]]; whole {
				t.split(prefix[:i])
			}
		}
	}
	return t
}

// bits returns the first bits of the hash of a Service. The hash is one that a
// member cannot make collide.
func bits(ref exports.Ref) string {
	sum := sha256.Sum256([]byte(ref.Cluster + "/" + ref.Service.Namespace + "/" + ref.Service.Name))
	var text [maxDepth]byte
	for i := range text {
		text[i] = '0' + sum[i/8]>>(7-i%8)&1
	}
	return string(text[:])
}

// isPrefix reports whether a string can be a prefix.
func isPrefix(text string) bool { return len(text) <= maxDepth && strings.Trim(text, "01") == "" }

// find returns the prefix of the chunk that a Service belongs to.
func (t *tree) find(ref exports.Ref) string {
	bits := bits(ref)
	for depth := range maxDepth {
		if _, found := t.chunks[bits[:depth]]; found {
			return bits[:depth]
		}
	}
	return bits
}

// set adds, replaces or, with nil, removes a Service. It returns the prefixes of
// chunks that changed, including those that no longer exist.
func (t *tree) set(ref exports.Ref, service *clusterset.ExportedService) (changed []string) {
	prefix := t.find(ref)
	content := t.chunks[prefix]
	switch {
	case content[ref] == service:
		return nil
	case service == nil:
		delete(content, ref)
		return []string{prefix}
	}
	content[ref] = service
	return append(t.divide(prefix), prefix)
}

// divide splits a chunk as long as it is too large, and returns the prefixes of the
// chunks that it was split into.
func (t *tree) divide(prefix string) (parts []string) {
	if len(t.chunks[prefix]) <= maxServices || !t.split(prefix) {
		return nil
	}
	for _, part := range []string{prefix + "0", prefix + "1"} {
		parts = append(append(parts, part), t.divide(part)...)
	}
	return parts
}

// split divides a chunk in two, unless that is impossible.
func (t *tree) split(prefix string) bool {
	if len(prefix) == maxDepth {
		return false
	}
	parts := map[byte]chunk{'0': {}, '1': {}}
	for ref, service := range t.chunks[prefix] {
		parts[bits(ref)[len(prefix)]][ref] = service
	}
	delete(t.chunks, prefix)
	t.chunks[prefix+"0"], t.chunks[prefix+"1"] = parts['0'], parts['1']
	return true
}

// divided returns a tree with the same Services that has chunks with the given prefixes,
// or parts of them.
func (t *tree) divided(prefixes []string) *tree {
	if !slices.ContainsFunc(prefixes, func(prefix string) bool { _, found := t.chunks[prefix]; return !found }) {
		return t // which is the rule, and takes no time
	}
	result := newTree(prefixes...)
	for _, content := range t.chunks {
		for ref, service := range content {
			result.set(ref, service)
		}
	}
	return result
}

// under returns the prefixes of the chunks that a chunk was divided into, sorted.
func (t *tree) under(prefix string) []string {
	var parts []string
	for part := range t.chunks {
		if part != prefix && strings.HasPrefix(part, prefix) {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts
}

// used returns the prefixes of the chunks that have Services, sorted.
func (t *tree) used() []string {
	var used []string
	for prefix, content := range t.chunks {
		if len(content) > 0 {
			used = append(used, prefix)
		}
	}
	slices.Sort(used)
	return used
}

// sorted returns the Services of a chunk in an order that depends on nothing else.
func (c chunk) sorted() []*clusterset.ExportedService {
	services := make([]*clusterset.ExportedService, 0, len(c))
	for _, service := range c {
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b *clusterset.ExportedService) int {
		return cmp.Or(cmp.Compare(a.Spec.Cluster, b.Spec.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return services
}
