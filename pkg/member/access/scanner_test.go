// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"
)

func costs(text string) (cost int64, ended int) {
	var s scanner
	for i := range len(text) {
		if s.next(text[i]) {
			ended++
		}
	}
	return s.cost, ended
}

// R200: short text cannot take much memory, whatever is repeated in it.
func TestElementsCostMoreThanTheirText(t *testing.T) {
	const element, scalar, field = elementCost, scalarCost, fieldCost
	for text, want := range map[string]int64{
		``:                       0,
		`{}`:                     0,
		`{"a":1,"b":{"c":null}}`: 3 * field,
		`[]`:                     0, // whatever is in it costs more
		`[{},{},{}]`:             3 * element,
		`[null, null]`:           2 * element,
		`["a","b"]`:              2 * scalar,
		`[1,true]`:               2 * scalar,
		`{"a":["b",{"c":1}]}`:    2*field + scalar + element,
		`["[{},{}]","\"{},{}"]`:  2 * scalar,
		"[\n{}\t,\r\n {} ]":      2 * element,
		`}}]][{}]`:               element,
		`[[],[{}]]`:              2*scalar + element,
	} {
		if got, _ := costs(text); got-int64(len(text)) != want {
			t.Errorf("%s costs %d besides its bytes, want %d", text, got-int64(len(text)), want)
		}
	}
	if deep, _ := costs(strings.Repeat("[", 100)); deep < tooDeep {
		t.Errorf("deep nesting costs %d", deep)
	}
	if deepest, _ := costs(strings.Repeat("[", maxDepth)); deepest >= tooDeep {
		t.Errorf("nesting that is allowed costs %d", deepest)
	}
}

func TestEventsOfAWatchAreToldApart(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 1, `{"a":{}}`: 1, "{}\n{}\n": 2, `{}{}`: 2, `{"a":"}{}`: 0, `{"a":"\"}{"}`: 1, `{"a":"\\"}{`: 1, `[{}] {}`: 2, `"{}"`: 0,
	} {
		if _, got := costs(text); got != want {
			t.Errorf("%s contains %d events, want %d", text, got, want)
		}
	}
}
