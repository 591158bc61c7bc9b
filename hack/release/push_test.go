// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// startRegistry returns the name of a registry.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/team"
}

// runParts makes parts of a release as the command does.
func runParts(t *testing.T, r *release, parts ...string) error {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	return run(t.Context(), append([]string{"-root=" + r.root, "-dist=" + r.dist, "-version=" + r.version, "-prefix=" + r.prefix}, parts...))
}

// pushed returns the digest of an image in a registry.
func pushed(t *testing.T, r *release, program string) (string, error) {
	t.Helper()
	tag, err := name.NewTag(r.prefix + "/" + program + ":" + r.version)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(tag)
	if err != nil {
		return "", err
	}
	return found.Digest.String(), nil
}

// R344: images are pushed after the release was checked, from what was checked.
func TestImagesArePushedAfterTheReleaseWasChecked(t *testing.T) {
	r := newRelease(t)
	r.prefix = startRegistry(t)
	fill(t, r)
	chart := filepath.Join(r.dist, "mcs-apiserver-1.2.3.tgz")
	if err := os.Rename(chart, chart+".missing"); err != nil {
		t.Fatal(err)
	}
	if err := runParts(t, r, "checksums", "check", "push"); err == nil {
		t.Error("incomplete release was pushed")
	}
	for _, program := range servers {
		if digest, err := pushed(t, r, program); err == nil {
			t.Errorf("%s is in the registry: %s", program, digest)
		}
	}
	if err := os.Rename(chart+".missing", chart); err != nil {
		t.Fatal(err)
	}
	if err := runParts(t, r, "checksums", "check", "push"); err != nil {
		t.Fatal(err)
	}
	for _, program := range servers {
		if _, err := pushed(t, r, program); err != nil {
			t.Error(err)
		}
	}
}

// R344: a version that was pushed does not change. Pushing the same images again is no error,
// so that a workflow that failed later can be repeated.
func TestPushedImagesAreNotReplaced(t *testing.T) {
	for version, replaceable := range map[string]bool{"v1.2.3": false, "v1.2.3-4-gabcdef0-dirty": true} {
		r := newRelease(t)
		r.prefix, r.version, r.platforms = startRegistry(t), version, []string{"linux/amd64", "linux/arm64"}
		writeImages(t, r, "linux/arm64")
		for range 2 {
			if err := runParts(t, r, "push"); err != nil {
				t.Fatal(err)
			}
		}
		before, err := pushed(t, r, "mcs-controller")
		if err != nil {
			t.Fatal(err)
		}
		writeImages(t, r, "linux/amd64")
		err = runParts(t, r, "push")
		if (err == nil) != replaceable || err != nil && !strings.Contains(err.Error(), "exists with another content") {
			t.Errorf("%s: got %v", version, err)
		}
		if after, err := pushed(t, r, "mcs-controller"); err != nil || (after != before) != replaceable {
			t.Errorf("%s: digest was %s and is %s (%v)", version, before, after, err)
		}
	}
}

// R344.
func TestMakePushesImagesLast(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"release", "PUSH=registry.example.com"}, "images manifests chart plugins notes checksums check push"},
		{[]string{"release", "PUSH="}, "images manifests chart plugins notes checksums check"},
		{[]string{"release", "PUSH=registry.example.com", "PARTS=manifests checksums"}, "manifests checksums"},
		{[]string{"images", "PUSH=registry.example.com"}, "images push"},
	} {
		command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "-C", "../.."}, test.args...)...)
		// Of a make that runs this test, as `make unit` does, nothing is inherited.
		command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "MAKE") })
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", output, err)
		}
		line := lineWith(string(output), "-platforms ")
		if !strings.HasSuffix(strings.Join(strings.Fields(line), " "), " "+test.want) {
			t.Errorf("%q makes %q, want %s", test.args, line, test.want)
		}
	}
}

// lineWith returns the first line that contains a text.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
