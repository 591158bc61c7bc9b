// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

// What it costs to decode parts of JSON, besides their bytes. `[{},{}]` is
// short, but the elements of the resulting slice are not. The costs are those of
// the API types, rounded up.
const (
	elementCost = 512 // an object, or null, in an array
	scalarCost  = 16  // a string in an array
	fieldCost   = 16  // a field of an object, or an entry of a map
	// tooDeep makes nesting that no API type has exceed any limit.
	tooDeep  = 1 << 50
	maxDepth = 60
)

// scanner estimates how much memory it takes to decode JSON while it is read. It
// does not validate it: the decoder does.
type scanner struct {
	// cost is the estimate for what was read so far.
	cost  int64
	depth int
	// arrays has a bit for each depth, set if an array is open there.
	arrays uint64
	// element is set where an element of an array may begin.
	element, quoted, escaped bool
}

// next takes one byte, and reports whether it ends a value that is not part of
// another one.
func (s *scanner) next(b byte) (ended bool) {
	s.cost++
	switch {
	case s.escaped:
		s.escaped = false
		return false
	case s.quoted:
		s.escaped, s.quoted = b == '\\', b != '"'
		return false
	}
	element := s.element
	switch b {
	case ' ', '\t', '\r', '\n':
		return false
	case ',':
		s.element = s.arrays>>s.depth&1 == 1
		return false
	case ':':
		s.cost += fieldCost
	case '{', '[':
		s.open(b == '[')
	case '}', ']':
		s.depth = max(s.depth-1, 0)
		s.element = false
		return s.depth == 0
	case '"':
		s.quoted = true
	}
	if element {
		s.cost += costOf(b)
	}
	s.element = b == '['
	return false
}

func (s *scanner) open(array bool) {
	if s.depth++; s.depth > maxDepth {
		s.cost, s.depth = tooDeep, maxDepth
	}
	s.arrays &^= 1 << s.depth
	if array {
		s.arrays |= 1 << s.depth
	}
}

// costOf returns the cost of an element of an array by the byte that it begins with.
func costOf(first byte) int64 {
	switch first {
	case '{', 'n':
		return elementCost
	}
	return scalarCost
}
