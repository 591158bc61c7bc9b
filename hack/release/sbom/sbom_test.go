// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

func subject(t *testing.T) Subject {
	t.Helper()
	file, err := os.Executable() // any Go program
	if err != nil {
		t.Fatal(err)
	}
	return Subject{Name: "hello-v1.2.3-linux-amd64", File: file, Version: "v1.2.3", Source: "https://example.com/hello", License: "Apache-2.0", Created: time.Unix(1700000000, 0)}
}

// R342: the document is valid, names every module once, and is the same every time.
func TestDocumentDescribesAProgram(t *testing.T) {
	first, err := SPDX(subject(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := SPDX(subject(t))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two documents of one program differ (%v)", err)
	}
	var d Document
	decoder := json.NewDecoder(bytes.NewReader(first))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.SPDXVersion != "SPDX-2.3" || d.CreationInfo.Created != "2023-11-14T22:13:20Z" || d.Packages[0].Version != "v1.2.3" {
		t.Errorf("got %+v", d)
	}
	var ids []string
	for _, p := range d.Packages {
		ids = append(ids, p.ID)
		if !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.ID) {
			t.Errorf("ID %q is not allowed", p.ID)
		}
	}
	slices.Sort(ids)
	if unique := slices.Compact(slices.Clone(ids)); len(unique) != len(ids) {
		t.Errorf("IDs are not unique: %q", ids)
	}
	for _, r := range d.Relationships {
		if !slices.Contains(ids, r.Related) || r.Element != documentID && !slices.Contains(ids, r.Element) {
			t.Errorf("relationship of unknown elements: %+v", r)
		}
	}
}

// R342: modules are listed with the version that was linked.
func TestDocumentListsTheModulesThatWereLinked(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/hello/cmd/hello", Main: debug.Module{Path: "example.com/hello"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0"},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.0+incompatible"}},
		},
	}
	var got []string
	for _, p := range document(subject(t), info, "0123").Packages {
		got = append(got, p.ExternalRefs[0].Locator)
	}
	want := []string{
		"pkg:golang/example.com/hello@v1.2.3", "pkg:golang/stdlib@1.26.8", "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/fork@v2.0.0%2Bincompatible",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
