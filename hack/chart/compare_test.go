// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	releasechart "github.com/mcs-apiserver/mcs-apiserver/hack/release/chart"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/manifest"
)

const (
	artifacts = "../../artifacts"
	source    = artifacts + "/chart"
	// etcdServers are those of artifacts/etcd.
	etcdServers = "https://etcd-0.example.com:2379, https://etcd-1.example.com:2379, https://etcd-2.example.com:2379"
)

func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm logs that the chart contains a link
	m.Run()
}

// render renders the chart, which must succeed.
func render(t *testing.T, namespace, values string) *Rendered {
	t.Helper()
	rendered, err := Render(source, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// byKey returns objects by key, without what only Helm needs.
func byKey(t *testing.T, objects []Object) map[string]Object {
	t.Helper()
	found := map[string]Object{}
	for _, object := range objects {
		metadata := object["metadata"].(map[string]any)
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(name string, _ any) bool { return strings.HasPrefix(name, "helm.sh/") })
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		sortVolumes(object)
		if _, twice := found[object.Key()]; twice {
			t.Errorf("%s is rendered twice", object.Key())
		}
		found[object.Key()] = object
	}
	return found
}

// sortVolumes sorts volumes by name: their order has no meaning.
func sortVolumes(value any) {
	switch value := value.(type) {
	case Object:
		sortVolumes(map[string]any(value))
	case map[string]any:
		for field, content := range value {
			if field == "volumes" || field == "volumeMounts" {
				slices.SortFunc(content.([]any), func(a, b any) int {
					return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
				})
			}
			sortVolumes(content)
		}
	case []any:
		for _, content := range value {
			sortVolumes(content)
		}
	}
}

// R350: the chart installs what the kustomizations install, but for the Namespace, which Helm
// creates.
func TestChartInstallsWhatKustomizationsInstall(t *testing.T) {
	for kustomization, values := range map[string]string{
		"default":  "",
		"embedded": "storage: {mode: embedded}",
		"etcd":     "storage: {mode: etcd, etcd: {servers: [" + etcdServers + "]}}",

		"migrate-from-embedded": "storage: {migrateFrom: embedded}",
		"migrate-to-embedded":   "storage: {mode: embedded, migrateFrom: cluster}",
	} {
		text, err := manifest.Render(filepath.Join(artifacts, kustomization), nil)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		want, got := byKey(t, objects), byKey(t, render(t, "mcs-system", values).Objects)
		delete(want, "v1 Namespace <nil>/mcs-system")
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if diff := cmp.Diff(want[key], got[key]); diff != "" {
				t.Errorf("artifacts/chart with values %q differs from artifacts/%s in %s (-kustomization, +chart):\n%s", values, kustomization, key, diff)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if want[key] == nil {
				t.Errorf("artifacts/chart with values %q has %s, which artifacts/%s does not have", values, key, kustomization)
			}
		}
	}
}

// R351: Helm renders the chart of a release with the images of the release.
func TestChartOfAReleaseHasItsImages(t *testing.T) {
	file := filepath.Join(t.TempDir(), releasechart.File("v1.2.3"))
	if err := releasechart.Pack(source, file, "v1.2.3", "registry.example.com/team", time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	rendered, err := Render(file, "mcs-system", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(rendered.Objects), len(render(t, "mcs-system", "").Objects); got != want {
		t.Errorf("%d objects are rendered, want %d", got, want)
	}
	var images []string
	for _, container := range deployment(t, rendered).Spec.Template.Spec.Containers {
		images = append(images, container.Image)
	}
	if want := []string{"registry.example.com/team/mcs-apiserver:v1.2.3", "registry.example.com/team/mcs-controller:v1.2.3"}; !slices.Equal(images, want) {
		t.Errorf("images are %q", images)
	}
}
