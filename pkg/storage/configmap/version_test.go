// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"
	"k8s.io/utils/ptr"
)

// namespaceVersion is the version at which the namespace of the tests was complete, and
// hostVersion the current one.
const namespaceVersion, hostVersion = 100, 200

// hostResponse answers lists with an empty list of the current version, gets with 404, and
// starts watches that have no events.
func hostResponse(request *http.Request) *http.Response {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: request}
	body := fmt.Sprintf(`{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}}`, hostVersion)
	switch {
	case request.URL.Query().Has("watch"):
		body = ""
	case !strings.HasSuffix(request.URL.Path, "/configmaps"):
		response.StatusCode = http.StatusNotFound
		body = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
	}
	response.Body = io.NopCloser(bytes.NewBufferString(body))
	return response
}

// newTestStore returns storage of ConfigMaps in a host.
func newTestStore(host func(*http.Request) (*http.Response, error)) storage.Interface {
	guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
		return storageNamespace("one", false), nil
	})
	guard.Open("one", namespaceVersion)
	client := &fake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion, VersionedAPIPath: "/api/v1",
		Client: fake.CreateHTTPClient(host),
	}
	return New(Config{
		Client: client, Watches: client,
		Namespace: "mcs-storage", Guard: guard, ResourcePrefix: "/configmaps",
		NewFunc: func() runtime.Object { return &corev1.ConfigMap{} }, NewListFunc: func() runtime.Object { return &corev1.ConfigMapList{} },
	})
}

// The history of the host contains the deletion of an earlier namespace, and a
// kube-apiserver may lag behind. Neither is served.
func TestVersionsAreThoseOfTheNamespace(t *testing.T) {
	list := func(version string, match metav1.ResourceVersionMatch) func(context.Context, storage.Interface) error {
		return func(ctx context.Context, s storage.Interface) error {
			return s.GetList(ctx, "/configmaps", storage.ListOptions{ResourceVersion: version, ResourceVersionMatch: match, Recursive: true, Predicate: storage.Everything}, &corev1.ConfigMapList{})
		}
	}
	limited := func(version string, match metav1.ResourceVersionMatch) func(context.Context, storage.Interface) error {
		return func(ctx context.Context, s storage.Interface) error {
			predicate := storage.Everything
			predicate.Limit = 1
			return s.GetList(ctx, "/configmaps", storage.ListOptions{ResourceVersion: version, ResourceVersionMatch: match, Recursive: true, Predicate: predicate}, &corev1.ConfigMapList{})
		}
	}
	get := func(version string) func(context.Context, storage.Interface) error {
		return func(ctx context.Context, s storage.Interface) error {
			return s.Get(ctx, "/configmaps/a/b", storage.GetOptions{ResourceVersion: version, IgnoreNotFound: true}, &corev1.ConfigMap{})
		}
	}
	watch := func(version string, initial *bool) func(context.Context, storage.Interface) error {
		return func(ctx context.Context, s storage.Interface) error {
			watcher, err := s.Watch(ctx, "/configmaps", storage.ListOptions{ResourceVersion: version, SendInitialEvents: initial, Recursive: true, Predicate: storage.Everything})
			if err != nil {
				return err
			}
			watcher.Stop()
			for range watcher.ResultChan() {
				t.Error("event of an empty host")
			}
			return nil
		}
	}
	for what, test := range map[string]struct {
		request func(context.Context, storage.Interface) error
		// want is the version and the match of the requests to the host.
		want    []string
		expired bool
	}{
		"list":                         {request: list("", ""), want: []string{" "}},
		"list any":                     {request: list("0", metav1.ResourceVersionMatchNotOlderThan), want: []string{" "}},
		"list, not older":              {request: list("150", metav1.ResourceVersionMatchNotOlderThan), want: []string{"150 NotOlderThan"}},
		"list, older than namespace":   {request: list("50", metav1.ResourceVersionMatchNotOlderThan), want: []string{"100 NotOlderThan"}},
		"list, exact":                  {request: list("150", metav1.ResourceVersionMatchExact), want: []string{"150 Exact"}},
		"list, exact before namespace": {request: list("50", metav1.ResourceVersionMatchExact), expired: true},
		"list, limited":                {request: limited("", ""), want: []string{" "}},
		"list any, limited":            {request: limited("0", ""), want: []string{" "}},
		"list, limited, at a version":  {request: limited("150", ""), want: []string{"150 Exact"}},
		"list, limited, not older":     {request: limited("150", metav1.ResourceVersionMatchNotOlderThan), want: []string{"150 NotOlderThan"}},
		"list, limited, old version":   {request: limited("50", ""), expired: true},
		"list, without a match":        {request: list("150", ""), want: []string{"150 NotOlderThan"}},
		"get":                          {request: get(""), want: []string{" "}},
		"get any":                      {request: get("0"), want: []string{" "}},
		"get, not older":               {request: get("150"), want: []string{"150 "}},
		"get, older than namespace":    {request: get("50"), want: []string{"100 "}},
		"watch":                        {request: watch("", nil), want: []string{" ", "200 "}},
		"watch any":                    {request: watch("0", nil), want: []string{" ", "200 "}},
		"watch from now":               {request: watch("", ptr.To(false)), want: []string{" ", "200 "}},
		"watch from a version":         {request: watch("150", nil), want: []string{" ", "150 "}},
		"watch from before namespace":  {request: watch("50", nil), expired: true},
		"watch with initial events":    {request: watch("50", ptr.To(true)), want: []string{"100 NotOlderThan", "200 "}},
		// After the host was restored from a backup, it would send no events until it
		// has reached the version again.
		"watch from the future": {request: watch("201", nil), want: []string{" "}, expired: true},
	} {
		var got []string
		err := test.request(t.Context(), newTestStore(func(request *http.Request) (*http.Response, error) {
			query := request.URL.Query()
			got = append(got, query.Get("resourceVersion")+" "+query.Get("resourceVersionMatch"))
			return hostResponse(request), nil
		}))
		if err != nil && !apierrors.IsResourceExpired(err) || (err != nil) != test.expired {
			t.Errorf("%s: got error %v, want expired: %v", what, err, test.expired)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: requests to the host: %s", what, diff)
		}
	}
}

// R142: the storage namespace can be listed and watched as any other, although it is older
// than its marker, and although nothing is stored for it. A client that was told to list again
// would do so forever, without a delay.
func TestWatchOfTheStorageNamespaceContinuesItsList(t *testing.T) {
	stored := newTestStore(func(request *http.Request) (*http.Response, error) { return hostResponse(request), nil })
	list := &corev1.ConfigMapList{}
	if err := stored.GetList(t.Context(), "/configmaps/mcs-storage", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
		t.Fatal(err)
	}
	watcher, err := stored.Watch(t.Context(), "/configmaps/mcs-storage", storage.ListOptions{ResourceVersion: list.ResourceVersion, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatalf("watch from version %s of the list: %v", list.ResourceVersion, err)
	}
	watcher.Stop()
	for range watcher.ResultChan() {
		t.Error("event of an empty host")
	}
}

// R143: the storage namespace can be listed while it is deleted, so that this can end.
func TestStorageNamespaceIsListedWhileItIsDeleted(t *testing.T) {
	stored := newTestStore(func(*http.Request) (*http.Response, error) { return nil, errors.New("forbidden") })
	list := &corev1.ConfigMapList{}
	err := stored.GetList(t.Context(), "/configmaps/mcs-storage", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
	if err != nil || len(list.Items) != 0 {
		t.Errorf("got %v, %v, want an empty list", list.Items, err)
	}
}

// A watch may last for an hour, but not the start of it.
func TestWatchThatTheHostDoesNotStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := newTestStore(func(request *http.Request) (*http.Response, error) {
			if !request.URL.Query().Has("watch") {
				return hostResponse(request), nil
			}
			<-request.Context().Done()
			return nil, &url.Error{Op: "Get", URL: request.URL.String(), Err: request.Context().Err()}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		started := time.Now()
		_, err := hung.Watch(ctx, "/configmaps", storage.ListOptions{ResourceVersion: "150", Recursive: true, Predicate: storage.Everything})
		if took := time.Since(started); took != requestTimeout || !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "did not start within 10s") {
			t.Errorf("got %v after %s, want 503 after %s", err, took, requestTimeout)
		}
	})
}
