// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// exportedTo returns a Service of a cluster that is for some clusters.
func exportedTo(audience []string, cluster, service string, path ...string) *clustersetv1alpha1.ExportedService {
	object := exported(cluster, service, path...)
	object.Spec.Audience = &clustersetv1alpha1.Audience{Clusters: audience}
	return object
}

// R624: of each entry, a reader sees how much of it is exported to it.
func TestVisibleIsWhatTheReaderCanRead(t *testing.T) {
	w := newFixture(t, nil)
	local := exports.NewShare(clusterset.NewAudience("n"), 1, 3)
	w.ReplaceLocal(exports.Share{}, exports.NewShare(nil, 2, 5))
	w.ReplaceLocal(exports.Share{}, local)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("h", "web"), exportedTo([]string{"n"}, "h", "api"), exportedTo([]string{"n"}, "x", "web", "x"), exportedTo(nil, "x", "api", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("h", "web", "web-1"), exportedSlice("h", "api", "api-1"), exportedSlice("x", "web", "web-1", "x"), exportedSlice("x", "api", "api-1", "x"))
	w.probe(h, ownEntry("h", withExports(2)), relayedEntry("x", withExports(2)))
	w.add("h2", func(s *secret.Spec) { s.ClusterID = "h" }) // has an entry of its own
	w.join("empty")
	expect := func(want map[string]string) {
		t.Helper()
		for entry, want := range want {
			got := ""
			for _, reader := range []string{"n", "o"} {
				services, endpoints, known := w.Visible(entry, reader)
				got += fmt.Sprintf("%s %d %d %t ", reader, services, endpoints, known)
			}
			if got != want {
				t.Errorf("of %s is visible: %s, want %s", entry, got, want)
			}
		}
	}
	want := map[string]string{
		"a": "n 3 8 true o 2 5 true ", "h": "n 2 4 true o 1 2 true ", "x": "n 1 2 true o 0 0 true ",
		"empty": "n 0 0 true o 0 0 true ", "gone": "n 0 0 false o 0 0 false ",
	}
	for _, name := range w.Names() {
		if _, known := want[name]; !known {
			want[name] = "n 0 0 true o 0 0 true " // of the other Secret
		}
	}
	if len(want) != 6 {
		t.Fatalf("entries are %v", w.Names())
	}
	expect(want)
	w.ReplaceLocal(local, exports.NewShare(clusterset.NewAudience("o"), 1, 3))
	w.upsert(t, h, exportedTo([]string{"o"}, "x", "web", "x"))
	expect(map[string]string{"a": "n 2 5 true o 3 8 true ", "x": "n 0 0 true o 1 2 true "})
	w.probe(h, ownEntry("h", withExports(2)))
	expect(map[string]string{"x": "n 0 0 false o 0 0 false "})
}

// A member may give each object an audience of its own: that is no part of its entry.
func TestEntryDoesNotGrowWithAudiences(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	size := func() int {
		content, err := json.Marshal(w.Entry("b"))
		must(t, err)
		return len(content)
	}
	before := size()
	var services, slices []any
	for i := range 500 {
		name := fmt.Sprintf("web-%d", i)
		services = append(services, exportedTo([]string{fmt.Sprintf("c-%d", i)}, "b", name))
		slices = append(slices, exportedSlice("b", name, name+"-1"))
	}
	w.replace(t, b, exports.Services, services...)
	w.replace(t, b, exports.EndpointSlices, slices...)
	if _, endpoints, _ := w.Visible("b", "c-7"); endpoints != 2 || w.Entry("b").Status.Endpoints != 1000 {
		t.Fatalf("c-7 sees %d endpoints of %d, want 2 of 1000", endpoints, w.Entry("b").Status.Endpoints)
	}
	if after := size(); after > before+500 {
		t.Errorf("the entry grew from %d to %d bytes", before, after)
	}
}
