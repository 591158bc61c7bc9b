// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// query returns the query of a URL.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// answer is the response to a request other than a watch.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

func get(t testing.TB, url string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: response.StatusCode, header: response.Header, body: body}
}

// list returns a list, or fails the test.
func list(t testing.TB, url string) *unstructured.UnstructuredList {
	t.Helper()
	got := get(t, url)
	if got.code != http.StatusOK {
		t.Fatalf("GET %s: %d: %s", url, got.code, got.body)
	}
	list := &unstructured.UnstructuredList{}
	if err := json.Unmarshal(got.body, list); err != nil {
		t.Fatal(err)
	}
	return list
}

// event is a watch event.
type event struct {
	kind, name, version, ip string
	annotations             map[string]string
	code                    int
}

func (e event) String() string { return fmt.Sprintf("%s %s %s", e.kind, e.name, e.ip) }

// watcher watches over HTTP.
type watcher struct {
	response *http.Response
	lines    *bufio.Scanner
	close    func()
}

func watchURL(t testing.TB, url string) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		cancel()
		t.Fatalf("GET %s: %d: %s", url, response.StatusCode, body)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	w := &watcher{response: response, lines: lines, close: sync.OnceFunc(func() {
		cancel()
		response.Body.Close()
	})}
	t.Cleanup(w.close)
	return w
}

// next returns the next event, or false if the watch ended.
func (w *watcher) next(t testing.TB) (event, bool) {
	t.Helper()
	if !w.lines.Scan() {
		return event{}, false
	}
	var raw struct {
		Type   string
		Object struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              struct{ IPs []string }
			Code              int
		}
	}
	if err := json.Unmarshal(w.lines.Bytes(), &raw); err != nil {
		t.Fatalf("%v in %s", err, w.lines.Bytes())
	}
	e := event{kind: raw.Type, name: raw.Object.Name, version: raw.Object.ResourceVersion, annotations: raw.Object.Annotations, code: raw.Object.Code}
	if len(raw.Object.Spec.IPs) > 0 {
		e.ip = raw.Object.Spec.IPs[0]
	}
	return e, true
}

// expect fails the test unless the next events are as given.
func (w *watcher) expect(t testing.TB, want ...string) []event {
	t.Helper()
	var got []event
	for _, text := range want {
		e, ok := w.next(t)
		if !ok {
			t.Fatalf("the watch ended instead of %q: %v", text, w.lines.Err())
		}
		if e.String() != text {
			t.Fatalf("got %q, want %q", e, text)
		}
		got = append(got, e)
	}
	return got
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wait.PollUntilContextCancel(ctx, 2*time.Millisecond, true, func(context.Context) (bool, error) {
		return condition(), nil
	}); err != nil {
		t.Fatalf("timed out waiting until %s", what)
	}
}

// content returns the objects of a store, by namespace and name.
func content(objects []runtime.Object) map[string]string {
	all := map[string]string{}
	for _, object := range objects {
		o := object.(*multicluster.ServiceImport)
		all[o.Namespace+"/"+o.Name] = o.Spec.IPs[0]
	}
	return all
}

// cached returns the objects of a client, by namespace and name.
func cached(objects []any) map[string]string {
	all := map[string]string{}
	for _, object := range objects {
		o := object.(*unstructured.Unstructured)
		ips, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "ips")
		all[o.GetNamespace()+"/"+o.GetName()] = ips[0]
	}
	return all
}

// agree reports whether the client has the objects of the store.
func agree(store *virtual.Store, objects []any) bool {
	return maps.Equal(content(store.List()), cached(objects))
}
