// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// R584: the files of the page have no way to turn text into markup or code, and name nothing elsewhere.
func TestFilesOfThePageAreSafe(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\b|new Function|javascript:|\.style\b|\sstyle=|\son[a-z]+=|@import|url\(|localStorage|document\.cookie`)
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z0-9]+\.[a-z]`)
	files, err := assets.ReadDir("assets")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %d files: %v", len(files), err)
	}
	for _, file := range files {
		content, err := assets.ReadFile("assets/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s contains %q", file.Name(), found)
		}
		if found := elsewhere.FindString(text); found != "" {
			t.Errorf("%s contains %q", file.Name(), found)
		}
		if contentTypes[path.Ext(file.Name())] == "" {
			t.Errorf("%s has no content type", file.Name())
		}
	}
}

func TestFilesAreServed(t *testing.T) {
	for name, want := range map[string]struct {
		code        int
		contentType string
	}{
		"/": {http.StatusOK, "text/html; charset=utf-8"}, "/app.js": {http.StatusOK, "text/javascript; charset=utf-8"}, "/style.css": {http.StatusOK, "text/css; charset=utf-8"},
		"/icon.svg": {http.StatusOK, "image/svg+xml"}, "/none.js": {http.StatusNotFound, "application/json"}, "/../server.go": {http.StatusNotFound, "application/json"},
		"/assets/app.js": {http.StatusNotFound, "application/json"}, "/.": {http.StatusNotFound, "application/json"},
	} {
		recorded := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = name
		asset(recorded, r)
		if recorded.Code != want.code || recorded.Header().Get("Content-Type") != want.contentType {
			t.Errorf("%s: got status %d and %s", name, recorded.Code, recorded.Header().Get("Content-Type"))
		}
	}
}
