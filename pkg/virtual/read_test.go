// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var reads = map[string]string{
	"get":            "/apis/multicluster.x-k8s.io/v1beta1/namespaces/a/serviceimports/x",
	"list":           resourcePath,
	"list any":       resourcePath + query("resourceVersion", "0"),
	"list a page":    resourcePath + query("limit", "500"),
	"watch":          resourcePath + query("watch", "true"),
	"watch any":      resourcePath + query("watch", "true", "resourceVersion", "0"),
	"streaming list": resourcePath + query("watch", "true", "sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true"),
}

func TestReadsAreRejectedUntilSynced(t *testing.T) {
	r := newReplica(t, clock.RealClock{})
	r.Set(serviceImport("a", "x", "1.1.1.1", nil))
	for name, path := range reads {
		got := get(t, r.url+path)
		if got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d, Retry-After %q: %s", name, got.code, got.header.Get("Retry-After"), got.body)
		}
	}
	if err := r.storage.ReadinessCheck(); err == nil {
		t.Error("the storage reports that it is ready")
	}

	r.MarkSynced()
	start := time.Now()
	if got := list(t, r.url+resourcePath); len(got.Items) != 1 {
		t.Errorf("got %d objects, want the one set before", len(got.Items))
	}
	t.Logf("read %s after it was synced", time.Since(start))
	if err := r.storage.ReadinessCheck(); err != nil {
		t.Error(err)
	}
}

func TestReadsAreRejectedAfterShutdown(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1.1.1.1", nil))
	w, err := r.storage.Watch(t.Context(), prefix, everything())
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	for range w.ResultChan() { // it ends
	}
	err = r.storage.GetList(t.Context(), prefix, everything(), newList())
	if status, ok := err.(interface{ Status() metav1.Status }); !ok || status.Status().Code != http.StatusServiceUnavailable {
		t.Errorf("got %v, want 503", err)
	}
}

func TestLimitIsIgnored(t *testing.T) {
	r := newSyncedReplica(t)
	for i := range 600 {
		r.Set(serviceImport("a", nameOf(i), "1.1.1.1", nil))
	}
	for _, path := range []string{
		resourcePath + query("limit", "100"),
		resourcePath + query("limit", "100", "resourceVersion", "0"),
		"/apis/multicluster.x-k8s.io/v1beta1/namespaces/a/serviceimports" + query("limit", "1"),
	} {
		got := list(t, r.url+path)
		if len(got.Items) != 600 || got.GetContinue() != "" || got.GetRemainingItemCount() != nil {
			t.Errorf("%s: got %d objects, continue %q", path, len(got.Items), got.GetContinue())
		}
	}
}

func TestListsKeepTheirVersionSemantics(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1.1.1.1", nil))
	url := r.url + resourcePath
	old := list(t, url)
	r.Set(serviceImport("a", "x", "2.2.2.2", nil))
	r.Set(serviceImport("b", "y", "3.3.3.3", nil))
	newest := list(t, url).GetResourceVersion()

	for name, test := range map[string]struct {
		query   string
		version string // "" for any
		want    int
		ip      string
	}{
		"consistent":       {query(), "", 2, "2.2.2.2"},
		"any":              {query("resourceVersion", "0"), "", 2, "2.2.2.2"},
		"not older":        {query("resourceVersion", old.GetResourceVersion(), "resourceVersionMatch", "NotOlderThan"), "", 2, "2.2.2.2"},
		"not older, short": {query("resourceVersion", old.GetResourceVersion()), "", 2, "2.2.2.2"},
		"exact":            {query("resourceVersion", old.GetResourceVersion(), "resourceVersionMatch", "Exact"), old.GetResourceVersion(), 1, "1.1.1.1"},
		"exact by limit":   {query("resourceVersion", old.GetResourceVersion(), "limit", "10"), old.GetResourceVersion(), 1, "1.1.1.1"},
		"exact, newest":    {query("resourceVersion", newest, "resourceVersionMatch", "Exact"), newest, 2, "2.2.2.2"},
		"exact, one name": {query("resourceVersion", old.GetResourceVersion(), "resourceVersionMatch", "Exact", "fieldSelector", "metadata.name=x,metadata.namespace=a"),
			old.GetResourceVersion(), 1, "1.1.1.1"},
	} {
		got := list(t, url+test.query)
		if len(got.Items) != test.want || test.version != "" && got.GetResourceVersion() != test.version {
			t.Errorf("%s: got %d objects at %s, want %d", name, len(got.Items), got.GetResourceVersion(), test.want)
			continue
		}
		if all := cached(items(got)); all["a/x"] != test.ip {
			t.Errorf("%s: got %v, want a/x with %s", name, all, test.ip)
		}
		if got.GetResourceVersion() < old.GetResourceVersion() {
			t.Errorf("%s: the list is older than requested", name)
		}
	}
}

func TestUnknownVersionsAreGone(t *testing.T) {
	wall := clocktesting.NewFakeClock(time.Now())
	r := newReplica(t, wall)
	r.Set(serviceImport("a", "x", "1.1.1.1", nil))
	r.MarkSynced()
	forgotten := list(t, r.url+resourcePath).GetResourceVersion()
	expectKnown(t, r, forgotten)
	wall.Step(6 * time.Minute)
	r.Set(serviceImport("a", "x", "2.2.2.2", nil))
	known := list(t, r.url+resourcePath).GetResourceVersion()
	expectKnown(t, r, known)

	other := newSyncedReplica(t)
	for name, version := range map[string]string{
		"forgotten":            forgotten,
		"just after":           addTo(t, known, 100),
		"just before":          addTo(t, known, -100),
		"future":               addTo(t, known, 1<<40),
		"1":                    "1",
		"largest":              "18446744073709551615",
		"of another replica":   list(t, other.url+resourcePath).GetResourceVersion(),
		"of another, unsynced": versionOf(t, serviceImportVersion(t)),
	} {
		t.Run(name, func(t *testing.T) { expectGone(t, r, version) })
	}
}

func TestForeignContinueTokensAreGone(t *testing.T) {
	r := newSyncedReplica(t)
	for _, token := range []string{"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "nonsense"} {
		if got := get(t, r.url+resourcePath+query("limit", "500", "continue", token)); got.code != http.StatusGone {
			t.Errorf("continue %q: got %d: %s", token, got.code, got.body)
		}
	}
}

func TestMalformedVersionsAreBadRequests(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1.1.1.1", nil))
	for _, version := range []string{"abc", "-1", "1.5", "18446744073709551616"} {
		for name, url := range map[string]string{
			"get":            r.url + reads["get"] + query("resourceVersion", version),
			"list":           r.url + resourcePath + query("resourceVersion", version),
			"exact list":     r.url + resourcePath + query("resourceVersion", version, "resourceVersionMatch", "Exact"),
			"watch":          r.url + resourcePath + query("resourceVersion", version, "watch", "true"),
			"streaming list": r.url + reads["streaming list"] + "&resourceVersion=" + version,
		} {
			if got := get(t, url); got.code != http.StatusBadRequest {
				t.Errorf("%s at %s: got %d: %s", name, version, got.code, got.body)
			}
		}
	}
}

// expectKnown expects that all kinds of reads accept a version.
func expectKnown(t *testing.T, r *replica, version string) {
	t.Helper()
	for _, url := range versionedReads(r, version) {
		if got := get(t, url); got.code != http.StatusOK {
			t.Errorf("%s: got %d: %s", url, got.code, got.body)
		}
	}
	watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", version)).close()
}

func expectGone(t *testing.T, r *replica, version string) {
	t.Helper()
	for _, url := range versionedReads(r, version) {
		if got := get(t, url); got.code != http.StatusGone {
			t.Errorf("%s: got %d: %s", url, got.code, got.body)
		}
	}
	for _, url := range []string{
		r.url + resourcePath + query("watch", "true", "resourceVersion", version),
		r.url + reads["streaming list"] + "&resourceVersion=" + version,
	} {
		w := watchURL(t, url)
		if got, ok := w.next(t); !ok || got.kind != "ERROR" || got.code != http.StatusGone {
			t.Errorf("%s: got %+v", url, got)
		}
		if _, more := w.next(t); more {
			t.Errorf("%s: the watch did not end", url)
		}
	}
}

func versionedReads(r *replica, version string) []string {
	return []string{
		r.url + reads["get"] + query("resourceVersion", version),
		r.url + resourcePath + query("resourceVersion", version),
		r.url + resourcePath + query("resourceVersion", version, "limit", "10"),
		r.url + resourcePath + query("resourceVersion", version, "resourceVersionMatch", "Exact"),
		r.url + resourcePath + query("resourceVersion", version, "resourceVersionMatch", "NotOlderThan"),
	}
}
