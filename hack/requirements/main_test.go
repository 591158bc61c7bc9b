// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func repository(test string) fstest.MapFS {
	return fstest.MapFS{
		document:                {Data: []byte("| # | Statement |\n| --- | --- |\n| R1 | a |\n| R2 | b |\n| R3 | c |\n")},
		security:                {Data: []byte("| users | R1 | `TestA` |")},
		"pkg/a/a_test.go":       {Data: []byte(test)},
		"pkg/b/b_test.go":       {Data: []byte("func TestA(t *testing.T) {}\nfunc testB() {}\n")},
		"pkg/a/a.go":            {Data: []byte("// R98 outside a test does not count.")},
		"bin/kubernetes/x.go":   {Data: []byte("// R99")},
		".local/west/x_test.go": {Data: []byte("// R99")},
	}
}

func TestStatementsThatTestsNameMustExist(t *testing.T) {
	for test, want := range map[string]string{
		"// R1, R3: behaves.":  "",
		"// R1 to R3: behaves": "",
		"// R4: behaves.":      "pkg/a/a_test.go names R4",
		"// R2 to R5: behaves": "pkg/a/a_test.go names R5",
		"// R3 to R1: behaves": "R3 to R1 is not a range",
		"// TR4, R4x, r4":      "",
	} {
		err := run(repository(test))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", test, err, want)
		}
	}
}

func TestNumbersOfStatementsIncrease(t *testing.T) {
	for rows, want := range map[string]string{
		"| R1 | a |\n| R3 | c |\n": "",
		"| R3 | c |\n| R1 | a |\n": "R1 follows R3",
		"| R1 | a |\n| R1 | b |\n": "R1 follows R1",
	} {
		root := repository("")
		root[document].Data = []byte(rows)
		err := run(root)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", rows, err, want)
		}
	}
}

func TestThreatModelNamesExistingTestsAndStatements(t *testing.T) {
	for threats, want := range map[string]string{
		"| users | R1, R3 | `TestA` |": "",
		"| users | R4 | `TestA` |":     "SECURITY.md names R4",
		"| users | R1 | `TestB` |":     "SECURITY.md names TestB, and there is no such test",
		"| users | R1 | none |":        "SECURITY.md names no test",
	} {
		root := repository("")
		root[security].Data = []byte(threats)
		err := run(root)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", threats, err, want)
		}
	}
}
