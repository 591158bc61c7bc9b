// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// watchingServer serves /readyz, and watches that it ends on request.
type watchingServer struct {
	*httptest.Server
	unready string
	endAll  context.CancelFunc
}

func newWatchingServer(t *testing.T) *watchingServer {
	t.Helper()
	s := &watchingServer{}
	ended, endAll := context.WithCancel(t.Context())
	s.endAll = endAll
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && s.unready != "":
			http.Error(w, s.unready, http.StatusInternalServerError)
		case r.URL.Path == "/unavailable":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Query().Has("watch"):
			w.(http.Flusher).Flush()
			select {
			case <-ended.Done():
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(endAll)
	return s
}

// R155: a replica is able to lead while its server is ready and its caches follow it.
func TestProbeReportsTheServerAndTheCaches(t *testing.T) {
	server, watches := newWatchingServer(t), newOpenWatches()
	probe := (&readiness{url: server.URL + "/readyz", client: server.Client(), watches: watches}).probe
	caches := &http.Client{Transport: watches.wrap(server.Client().Transport)}
	get := func(path string) io.ReadCloser {
		t.Helper()
		response, err := caches.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return response.Body
	}
	expect := func(what, want string) {
		t.Helper()
		err := probe(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
	}
	expect("before any watch", "")
	imports := get("/serviceimports?watch=true")
	members := get("/members?watch=1&sendInitialEvents=true")
	expect("all watches open", "")
	get("/members").Close()
	get("/unavailable?watch=true").Close()
	expect("other requests do not count", "")

	// R500: stored objects cannot be watched while storage is lost.
	for _, stored := range []string{"/serviceexports", "/clusterclaims", "/namespaces/mcs-system/clusterprofiles"} {
		get(stored + "?watch=true").Close()
	}
	expect("watches of stored objects ended", "")

	members.Close()
	expect("a watch was closed", "no watch of /members")
	members.Close()
	again := get("/members?watch=true")
	expect("watched again", "")
	server.unready = "storage is empty"
	expect("unready", "500 Internal Server Error: storage is empty")
	server.unready = ""

	server.endAll()
	for _, body := range []io.ReadCloser{imports, again} {
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Error(err)
		}
		body.Close() // as a reflector does
	}
	expect("all watches ended", "no watch of /members, /serviceimports")
	server.Close()
	expect("gone", "not reachable")
}
