// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mit  = "MIT License\n\nPermission is hereby granted, free of charge, to any\nperson obtaining a copy of this software"
	bsd  = "Redistribution and use in source and binary forms, with or\n * without modification, are permitted provided that"
	isc  = "Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee is hereby granted, provided that"
	gpl  = "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007"
	none = "All rights reserved."
)

func TestClassifyFindsAllLicensesOfAFile(t *testing.T) {
	for text, want := range map[string][]string{
		"                 Apache License\n           Version 2.0, January 2004": {"Apache-2.0"},
		"Licensed under the Apache License, Version 2.0 (the \"License\")":      {"Apache-2.0"},
		mit:              {"MIT"},
		bsd:              {"BSD"},
		isc:              {"ISC"},
		bsd + "\n" + mit: {"BSD", "MIT"},
	} {
		if found, err := classify(text); err != nil || !slices.Equal(found, want) {
			t.Errorf("%q: found %v, %v, want %v", text, found, err, want)
		}
	}
}

func TestClassifyRejectsOtherLicenses(t *testing.T) {
	for text, want := range map[string]string{
		gpl:              `"general public license"`,
		mit + "\n" + gpl: `"general public license"`, // of which all apply
		none:             "none of Apache-2.0, BSD, ISC, MIT",
	} {
		if found, err := classify(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found %v, %v, want error with %s", text, found, err, want)
		}
	}
}

// A package in a directory with a license of its own has that license.
func TestNearestLicenseApplies(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"LICENSE": mit, "license.go": "package p", "LICENSE.docs": "Creative Commons", "a/b/p.go": "package b", "forked/COPYING": gpl, "forked/p/p.go": "package p"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := ofDirectory(filepath.Join(root, "a", "b"), root); err != nil || !slices.Equal(found, []string{"MIT"}) {
		t.Errorf("a/b: %v, %v", found, err)
	}
	if found, err := ofDirectory(filepath.Join(root, "forked", "p"), root); err == nil {
		t.Errorf("forked/p: %v", found)
	}
	if found, err := ofDirectory(filepath.Join(root, "a", "b"), filepath.Join(root, "a")); err == nil {
		t.Errorf("a without a license: %v", found)
	}
}
