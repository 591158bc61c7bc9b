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
		"pkg/a/a_test.go":       {Data: []byte(test)},
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
