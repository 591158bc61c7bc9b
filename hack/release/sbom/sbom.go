// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom lists what a program was built from, as an SPDX document.
package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// Subject is the program that a document describes.
type Subject struct {
	// Name names the document, as in mcs-apiserver-v1.0.0-linux-amd64.
	Name string
	// File is the program.
	File string
	// Version, Source and License are those of the main module.
	Version, Source, License string
	// Created is when the document is said to have been made.
	Created time.Time
}

// The parts of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3) that documents have.
type (
	// Document is an SPDX document.
	Document struct {
		SPDXVersion       string         `json:"spdxVersion"`
		DataLicense       string         `json:"dataLicense"`
		ID                string         `json:"SPDXID"`
		Name              string         `json:"name"`
		DocumentNamespace string         `json:"documentNamespace"`
		CreationInfo      CreationInfo   `json:"creationInfo"`
		Packages          []Package      `json:"packages"`
		Relationships     []Relationship `json:"relationships"`
	}
	// CreationInfo is who made a document, and when.
	CreationInfo struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	// Package is a module, the standard library, or the program itself.
	Package struct {
		ID               string        `json:"SPDXID"`
		Name             string        `json:"name"`
		Version          string        `json:"versionInfo"`
		DownloadLocation string        `json:"downloadLocation"`
		FilesAnalyzed    bool          `json:"filesAnalyzed"`
		LicenseConcluded string        `json:"licenseConcluded"`
		LicenseDeclared  string        `json:"licenseDeclared"`
		CopyrightText    string        `json:"copyrightText"`
		Checksums        []Checksum    `json:"checksums,omitempty"`
		ExternalRefs     []ExternalRef `json:"externalRefs,omitempty"`
	}
	// Checksum is the checksum of a package.
	Checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	// ExternalRef identifies a package elsewhere.
	ExternalRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	// Relationship connects two elements.
	Relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const (
	documentID  = "SPDXRef-DOCUMENT"
	programID   = "SPDXRef-Program"
	noAssertion = "NOASSERTION"
)

// SPDX returns the document of a program, in JSON. It depends on nothing but the subject.
func SPDX(subject Subject) ([]byte, error) {
	info, err := buildinfo.ReadFile(subject.File)
	if err != nil {
		return nil, fmt.Errorf("read build information: %w", err)
	}
	data, err := os.ReadFile(subject.File)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	text, err := json.MarshalIndent(document(subject, info, hex.EncodeToString(sum[:])), "", "  ")
	return append(text, '\n'), err
}

func document(subject Subject, info *debug.BuildInfo, checksum string) Document {
	program := Package{
		ID: programID, Name: info.Path, Version: subject.Version, DownloadLocation: "git+" + subject.Source,
		LicenseConcluded: subject.License, LicenseDeclared: subject.License, CopyrightText: noAssertion,
		Checksums:    []Checksum{{"SHA256", checksum}},
		ExternalRefs: []ExternalRef{purl(info.Main.Path, subject.Version)},
	}
	d := Document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", ID: documentID, Name: subject.Name,
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s", subject.Source, subject.Name, checksum),
		CreationInfo:      CreationInfo{Created: subject.Created.UTC().Format(time.RFC3339), Creators: []string{"Tool: " + subject.Source + "/hack/release"}},
		Packages:          []Package{program},
		Relationships:     []Relationship{{documentID, "DESCRIBES", programID}},
	}
	d.add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		d.add(module.Path, module.Version)
	}
	return d
}

// add adds a module that the program contains.
func (d *Document) add(path, version string) {
	id := "SPDXRef-Module-" + notAllowed.ReplaceAllString(path+"-"+version, "-")
	d.Packages = append(d.Packages, Package{
		ID: id, Name: path, Version: version, DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, CopyrightText: noAssertion,
		ExternalRefs: []ExternalRef{purl(path, version)},
	})
	d.Relationships = append(d.Relationships, Relationship{programID, "CONTAINS", id})
}

// notAllowed are characters that identifiers of SPDX elements cannot have.
var notAllowed = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// purl is the package URL of a module, by which vulnerability scanners find it.
func purl(path, version string) ExternalRef {
	return ExternalRef{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}
}
