// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/checksum"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
)

func newRelease(t *testing.T) *release {
	t.Helper()
	dist := t.TempDir()
	if err := os.WriteFile(filepath.Join(dist, thirdParty), []byte("licenses of others"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &release{root: "../..", dist: dist, version: "v1.2.3", revision: "HEAD", time: time.Unix(1700000000, 0), progress: t.Output()}
}

// The rules of Krew for manifests (pkg/index and internal/index/validation of Krew 0.4).
var (
	semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	sha256   = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// R347: the manifest for Krew is valid, and has the checksums of the archives of all
// platforms, which contain the program and its license.
func TestKrewManifestDescribesTheArchives(t *testing.T) {
	r := newRelease(t)
	var downloads []plugin.Download
	for _, platform := range clients {
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		download, err := r.pack(*parsed, []byte("program for "+platform))
		if err != nil {
			t.Fatal(err)
		}
		downloads = append(downloads, download)
	}
	text, err := plugin.Krew(r.version, source, downloads)
	if err != nil {
		t.Fatal(err)
	}
	var m plugin.Manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "mcs" || !semantic.MatchString(m.Spec.Version) {
		t.Errorf("got %+v", m)
	}
	if short := m.Spec.ShortDescription; short == "" || strings.ContainsAny(short, "\r\n") || len(short) > 50 || m.Spec.Description == "" {
		t.Errorf("descriptions are %q and %q", short, m.Spec.Description)
	}
	var found []string
	for _, download := range m.Spec.Platforms {
		found = append(found, download.Selector.MatchLabels["os"]+"/"+download.Selector.MatchLabels["arch"])
		name, ok := strings.CutPrefix(download.URI, "https://github.com/mcs-apiserver/mcs-apiserver/releases/download/v1.2.3/")
		if !ok {
			t.Errorf("archive is at %s", download.URI)
		}
		sum, err := checksum.Of(filepath.Join(r.dist, name))
		if err != nil || !sha256.MatchString(download.SHA256) || sum != download.SHA256 {
			t.Errorf("%s: checksum is %s, want %s (%v)", name, download.SHA256, sum, err)
		}
		if windows := download.Selector.MatchLabels["os"] == "windows"; strings.HasSuffix(download.Bin, ".exe") != windows || strings.HasSuffix(name, ".zip") != windows {
			t.Errorf("program of %s is %s", name, download.Bin)
		}
	}
	if !slices.Equal(found, clients) || len(found) != 6 {
		t.Errorf("platforms are %q", found)
	}
}

// R347: manifests name the images by the names that images have.
func TestManifestsAndImagesHaveTheSameNames(t *testing.T) {
	for prefix, want := range map[string]string{"": "image: mcs-apiserver:v1.2.3\n", "registry.example.com/team": "image: registry.example.com/team/mcs-apiserver:v1.2.3\n"} {
		r := newRelease(t)
		r.prefix = prefix
		if err := r.manifests(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(r.dist, "mcs-apiserver-v1.2.3-default.yaml"))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("prefix %q: manifest does not contain %q (%v)", prefix, want, err)
		}
	}
}

// workflow is the workflow of tags.
type workflow struct {
	On struct {
		Push struct{ Tags []string }
	}
	Jobs map[string]struct {
		Steps []struct {
			Uses string
			With map[string]any
			Run  string
		}
	}
}

func readWorkflow(t *testing.T) workflow {
	t.Helper()
	text, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found workflow
	if err := yaml.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// R347: the workflow of tags makes the release as `make release` does, and publishes nothing
// before the checks and unit tests pass.
func TestWorkflowMakesTheRelease(t *testing.T) {
	workflow := readWorkflow(t)
	if !slices.Equal(workflow.On.Push.Tags, []string{"v*"}) {
		t.Errorf("workflow runs on tags %q", workflow.On.Push.Tags)
	}
	var commands []string
	for _, step := range workflow.Jobs["release"].Steps {
		commands = append(commands, step.Run)
	}
	last := -1
	for _, command := range []string{"make verify unit", "docker login", "make release", "gh release create"} {
		step := slices.IndexFunc(commands, func(run string) bool { return strings.Contains(run, command) })
		if step <= last {
			t.Errorf("%q is step %d, want it after step %d: %q", command, step, last, commands)
		}
		last = step
	}
}

// The standard library is part of the programs: go.mod has the oldest version that compiles
// them, which lacks what later patch releases mend.
func TestWorkflowUsesTheNewestPatchReleaseOfGo(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(text))
	for _, step := range readWorkflow(t).Jobs["release"].Steps {
		if strings.HasPrefix(step.Uses, "actions/setup-go@") {
			if step.With["go-version"] != minor[1]+".x" || step.With["check-latest"] != true || step.With["go-version-file"] != nil {
				t.Errorf("Go is set up with %v, want the newest patch release of %s", step.With, minor[1])
			}
			return
		}
	}
	t.Error("no step sets up Go")
}

// R343: the files that are published are those with a checksum, so that `sha256sum --check` succeeds
// where all of them are downloaded. A version such as v1.0.0-rc.1 does not become the latest release.
func TestWorkflowPublishesTheFilesWithChecksums(t *testing.T) {
	publish := readWorkflow(t).Jobs["release"].Steps
	script := publish[len(publish)-1].Run
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "gh"), []byte("#!/bin/bash\nset -e\necho \"$@\"\ncd -- \"$DOWNLOADS\"\nfor file; do cp \"$OLDPWD/$file\" . 2>/dev/null || true; done\nrm RELEASE_NOTES.md\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for tag, prerelease := range map[string]bool{"v1.0.0": false, "v1.0.0-rc.1": true} {
		r := completeRelease(t)
		if err := r.checksums(t.Context()); err != nil {
			t.Fatal(err)
		}
		dir, downloads := t.TempDir(), t.TempDir()
		if err := os.Symlink(r.dist, filepath.Join(dir, "dist")); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		command.Dir, command.Env = dir, append(os.Environ(), "TAG="+tag, "DOWNLOADS="+downloads, "PATH="+bin+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "release create "+tag) || strings.Contains(string(output), "--prerelease") != prerelease {
			t.Errorf("%s: prerelease is not %t: %s (%v)", tag, prerelease, output, err)
		}
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
		check.Dir = downloads
		if output, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s (%v)", output, err)
		}
		want, err := r.files()
		if err != nil {
			t.Fatal(err)
		}
		want = slices.DeleteFunc(want, func(name string) bool { return name == "images" || name == releaseNotes })
		published, err := filepath.Glob(filepath.Join(downloads, "*"))
		if err != nil || len(published) != len(want) {
			t.Errorf("published are %q (%v), want %q", published, err, want)
		}
	}
}

func TestFlagsAreValidated(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dist := "-dist=" + t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{dist, "checksums"}, "-version is required"},
		{[]string{dist, "-version=v1.2.3"}, "name the parts to make"},
		{[]string{dist, "-version=v1.2.3", "unknown"}, `unknown part "unknown"`},
		{[]string{dist, "-version=v1.2.3", "push"}, "the part push requires -prefix"},
	} {
		if err := run(t.Context(), test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v", test.args, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "now")
	if err := run(t.Context(), []string{dist, "-version=v1.2.3", "checksums"}); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("got %v", err)
	}
}

// Builds take minutes, so that each of them is announced.
func TestBuildsAreAnnounced(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "cmd", "hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module example.com/hello\n\ngo 1.26\n", "cmd/hello/main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, progress := newRelease(t), &strings.Builder{}
	r.root, r.progress = root, progress
	err := r.build(t.Context(), "hello", v1.Platform{OS: "linux", Architecture: "amd64"}, func(string) error {
		if !strings.HasPrefix(progress.String(), "Building hello for linux/amd64, ") {
			t.Errorf("said %q", progress)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
