// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// oneWrapper is a host with at most one wrapper, which refuses to replace or delete any other
// version than the newest.
type oneWrapper struct {
	wrapper *corev1.ConfigMap
	version int
	// requests are the methods of all requests but watches.
	requests []string
}

func (h *oneWrapper) respond(request *http.Request) (*http.Response, error) {
	status := http.StatusOK
	var body any
	switch {
	case request.URL.Query().Has("watch") && !request.URL.Query().Has("fieldSelector"):
		body = metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Object: h.wrapper}}
	case request.URL.Query().Has("watch"):
		deleted := h.wrapper.DeepCopy()
		deleted.ResourceVersion = strconv.Itoa(h.version + 1)
		body = metav1.WatchEvent{Type: "DELETED", Object: runtime.RawExtension{Object: deleted}}
	default:
		h.requests = append(h.requests, request.Method)
		result, err := h.handle(request)
		if err != nil {
			var failure apierrors.APIStatus
			if !errors.As(err, &failure) {
				return nil, err
			}
			status, result = int(failure.Status().Code), ptr.To(failure.Status())
		}
		body = result
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: request, Body: io.NopCloser(bytes.NewReader(data)),
	}, nil
}

func (h *oneWrapper) handle(request *http.Request) (runtime.Object, error) {
	resource := corev1.Resource("configmaps")
	if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/configmaps") {
		return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(h.version)}}, nil
	}
	if h.wrapper == nil && request.Method != http.MethodPost {
		return nil, apierrors.NewNotFound(resource, "wrapper")
	}
	switch request.Method {
	case http.MethodGet:
		return h.wrapper, nil
	case http.MethodDelete:
		options := metav1.DeleteOptions{}
		if err := json.NewDecoder(request.Body).Decode(&options); err != nil {
			return nil, err
		}
		if *options.Preconditions.ResourceVersion != h.wrapper.ResourceVersion || *options.Preconditions.UID != h.wrapper.UID {
			return nil, apierrors.NewConflict(resource, "wrapper", errors.New("precondition failed"))
		}
		h.wrapper = nil
		h.version++
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	sent := &corev1.ConfigMap{}
	if err := json.NewDecoder(request.Body).Decode(sent); err != nil {
		return nil, err
	}
	if request.Method == http.MethodPut && (sent.ResourceVersion != h.wrapper.ResourceVersion || sent.UID != h.wrapper.UID) {
		return nil, apierrors.NewConflict(resource, "wrapper", errors.New("the object has been modified"))
	}
	h.version++
	sent.ResourceVersion = strconv.Itoa(h.version)
	if request.Method == http.MethodPost {
		sent.UID = types.UID("uid-" + sent.ResourceVersion)
	}
	h.wrapper = sent
	return sent, nil
}

// newStoreOn returns the storage of one replica on a host.
func newStoreOn(host *oneWrapper) *store {
	stored := newTestStore(host.respond).(*store)
	stored.converter.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	stored.converter.Attributes = func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }
	return stored
}

const webKey = "/configmaps/shop/web"

func create(t *testing.T, s storage.Interface) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := s.Create(t.Context(), webKey, object, &corev1.ConfigMap{}, 0); err != nil {
		t.Fatal(err)
	}
}

// appendTo returns an update that appends to a value, and fails if it has a limit of characters.
func appendTo(text string, limit int) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object := input.(*corev1.ConfigMap)
		value := object.Data["value"] + text
		if len(value) > limit {
			return nil, nil, fmt.Errorf("%q is too long", value)
		}
		object.Data = map[string]string{"value": value}
		return object, nil, nil
	}
}

func update(ctx context.Context, s storage.Interface, tryUpdate storage.UpdateFunc) (value string, _ error) {
	updated := &corev1.ConfigMap{}
	err := s.GuaranteedUpdate(ctx, webKey, updated, false, nil, tryUpdate, nil)
	return updated.Data["value"], err
}

// expectRequests expects the requests since the last call.
func (h *oneWrapper) expectRequests(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.requests); diff != "" {
		t.Errorf("requests to the host (-want +got):\n%s", diff)
	}
	h.requests = nil
}

// R654: what this replica has written is replaced and deleted without being read.
func TestWrittenObjectIsNotRead(t *testing.T) {
	host := &oneWrapper{}
	s := newStoreOn(host)
	create(t, s)
	for _, want := range []string{"a", "aa"} {
		if got, err := update(t.Context(), s, appendTo("a", 2)); err != nil || got != want {
			t.Errorf("updated to %q, %v, want %q", got, err, want)
		}
	}
	host.expectRequests(t, http.MethodPost, http.MethodPut, http.MethodPut)
	if err := s.Delete(t.Context(), webKey, &corev1.ConfigMap{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	host.expectRequests(t, http.MethodDelete)
	if _, err := update(t.Context(), s, appendTo("a", 2)); !storage.IsNotFound(err) {
		t.Errorf("update of the deleted object: %v", err)
	}
}

// R654: if another replica has written since, nothing is lost, and nothing is decided by the
// outdated object.
func TestObjectThatAnotherReplicaHasWrittenIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		// others is what another replica does, and then is what this one does.
		others, then func(t *testing.T, s *store)
		requests     []string
		value        string
	}{
		"update": {
			others:   func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("b", 9), "ab") },
			then:     func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("c", 9), "abc") },
			requests: []string{http.MethodPut, http.MethodGet, http.MethodPut}, value: "abc",
		},
		"update that only the newest version allows": {
			others:   func(t *testing.T, s *store) { mustUpdate(t, s, replaceBy(""), "") },
			then:     func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("c", 1), "c") },
			requests: []string{http.MethodGet, http.MethodPut}, value: "c",
		},
		"update that the newest version does not allow": {
			others: func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("b", 9), "ab") },
			then: func(t *testing.T, s *store) {
				if _, err := update(t.Context(), s, appendTo("c", 2)); err == nil || err.Error() != `"abc" is too long` {
					t.Errorf("got %v", err)
				}
			},
			requests: []string{http.MethodPut, http.MethodGet}, value: "ab",
		},
		"update that changes nothing in the outdated version": {
			others:   func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("b", 9), "ab") },
			then:     func(t *testing.T, s *store) { mustUpdate(t, s, replaceBy("a"), "a") },
			requests: []string{http.MethodGet, http.MethodPut}, value: "a",
		},
		"update of an object that was too large for it": {
			others: func(t *testing.T, s *store) { mustUpdate(t, s, replaceBy(""), "") },
			then: func(t *testing.T, s *store) {
				s.converter.Attributes = func(object runtime.Object) (labels.Set, fields.Set, error) {
					if value := object.(*corev1.ConfigMap).Data["value"]; value != "c" {
						return nil, nil, fmt.Errorf("%q has too many labels", value)
					}
					return nil, nil, nil
				}
				mustUpdate(t, s, appendTo("c", 9), "c")
			},
			requests: []string{http.MethodGet, http.MethodPut}, value: "c",
		},
		"update with the version of the newest": {
			others: func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("b", 9), "ab") },
			then: func(t *testing.T, s *store) {
				version := "3"
				if err := s.GuaranteedUpdate(t.Context(), webKey, &corev1.ConfigMap{}, false, &storage.Preconditions{ResourceVersion: &version}, appendTo("c", 9), nil); err != nil {
					t.Error(err)
				}
			},
			requests: []string{http.MethodGet, http.MethodPut}, value: "abc",
		},
		"deletion that the newest version does not allow": {
			others: func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("b", 9), "ab") },
			then: func(t *testing.T, s *store) {
				err := s.Delete(t.Context(), webKey, &corev1.ConfigMap{}, nil, func(_ context.Context, object runtime.Object) error {
					if object.(*corev1.ConfigMap).Data["value"] != "a" {
						return errors.New("not a")
					}
					return nil
				}, nil, storage.DeleteOptions{})
				if err == nil || err.Error() != "not a" {
					t.Errorf("got %v", err)
				}
			},
			requests: []string{http.MethodDelete, http.MethodGet}, value: "ab",
		},
		"update of a deleted object": {
			others: mustDelete,
			then: func(t *testing.T, s *store) {
				if _, err := update(t.Context(), s, appendTo("c", 9)); !storage.IsNotFound(err) {
					t.Errorf("got %v, want not found", err)
				}
			},
			requests: []string{http.MethodPut, http.MethodGet},
		},
		"update of an object that was deleted and created again": {
			others: func(t *testing.T, s *store) {
				mustDelete(t, s)
				create(t, s)
			},
			then:     func(t *testing.T, s *store) { mustUpdate(t, s, appendTo("c", 9), "c") },
			requests: []string{http.MethodPut, http.MethodGet, http.MethodPut}, value: "c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &oneWrapper{}
			one, other := newStoreOn(host), newStoreOn(host)
			create(t, one)
			mustUpdate(t, one, appendTo("a", 1), "a")
			test.others(t, other)
			host.requests = nil
			test.then(t, one)
			host.expectRequests(t, test.requests...)
			value := ""
			if host.wrapper != nil {
				stored := &corev1.ConfigMap{}
				if _, err := one.converter.unwrapInto(host.wrapper, stored); err != nil {
					t.Fatal(err)
				}
				value = stored.Data["value"]
			}
			if value != test.value {
				t.Errorf("stored %q, want %q", value, test.value)
			}
		})
	}
}

func replaceBy(text string) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object := input.(*corev1.ConfigMap)
		object.Data = map[string]string{"value": text}
		return object, nil, nil
	}
}

func mustUpdate(t *testing.T, s *store, tryUpdate storage.UpdateFunc, want string) {
	t.Helper()
	if got, err := update(t.Context(), s, tryUpdate); err != nil || got != want {
		t.Fatalf("updated to %q, %v, want %q", got, err, want)
	}
}

func mustDelete(t *testing.T, s *store) {
	t.Helper()
	if err := s.Delete(t.Context(), webKey, &corev1.ConfigMap{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// R654: what another replica has written is not read either, if this one watches it.
func TestWatchedObjectIsNotRead(t *testing.T) {
	host := &oneWrapper{version: hostVersion}
	one, other := newStoreOn(host), newStoreOn(host)
	create(t, other)
	watcher, err := one.Watch(t.Context(), "/configmaps", storage.ListOptions{ResourceVersion: strconv.Itoa(hostVersion), Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	for range watcher.ResultChan() { // until the host ends the watch
	}
	host.requests = nil
	mustUpdate(t, one, appendTo("a", 1), "a")
	host.expectRequests(t, http.MethodPut)
}

// What the newest version does not allow is decided once.
func TestRefusalByTheNewestVersionIsFinal(t *testing.T) {
	host := &oneWrapper{}
	s := newStoreOn(host)
	create(t, s)
	calls, refusal := 0, errors.New("refused")
	refuse := func() error {
		calls++
		return refusal
	}
	err := s.Delete(t.Context(), webKey, &corev1.ConfigMap{}, nil, func(context.Context, runtime.Object) error { return refuse() }, nil, storage.DeleteOptions{})
	if !errors.Is(err, refusal) || calls != 1 {
		t.Errorf("deletion: got %v after %d calls", err, calls)
	}
	updating := newStoreOn(host)
	mustUpdate(t, updating, appendTo("a", 1), "a")
	calls = 0
	_, err = update(t.Context(), updating, func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) { return nil, nil, refuse() })
	if !errors.Is(err, refusal) || calls != 1 {
		t.Errorf("update: got %v after %d calls", err, calls)
	}
}

// A write whose outcome is unknown is not repeated.
func TestUncertainWriteIsNotRepeated(t *testing.T) {
	host := &oneWrapper{}
	s := newTestStore(func(request *http.Request) (*http.Response, error) {
		response, err := host.respond(request)
		if request.Method == http.MethodPut {
			return nil, io.ErrUnexpectedEOF
		}
		return response, err
	}).(*store)
	s.converter.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	s.converter.Attributes = func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }
	create(t, s)
	host.requests = nil
	if _, err := update(t.Context(), s, appendTo("a", 1)); !apierrors.IsTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
	host.expectRequests(t, http.MethodPut)
}

// R654: what another replica writes is held as well, as far as it is watched; an event that
// arrives late replaces nothing newer.
func TestNewestWrapperIsHeld(t *testing.T) {
	held := newHeldWrappers()
	for _, version := range []string{"9", "10", "8", "invalid"} {
		held.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "web", ResourceVersion: version, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "mcs-apiserver"}}, Labels: map[string]string{"a": "b"},
		}})
	}
	if got := held.get("web"); got.ResourceVersion != "10" || got.ManagedFields != nil || got.Labels != nil {
		t.Errorf("holds version %s with %d managed fields and %d labels, want 10 without", got.ResourceVersion, len(got.ManagedFields), len(got.Labels))
	}
	// The host was restored from a backup, and has reached the same version again.
	held.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "10"}, Data: map[string]string{objectData: "restored"}})
	if got := held.get("web").Data[objectData]; got != "restored" {
		t.Errorf("holds %q", got)
	}
	if held.remove("web"); held.get("web") != nil {
		t.Error("a removed wrapper is held")
	}
}

// R654: what is held has a limit.
func TestHeldWrappersAreLimited(t *testing.T) {
	held := newHeldWrappers()
	data := strings.Repeat("x", 1<<20)
	for i := range 100 {
		for version := range 2 { // the first one is replaced
			held.put(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), ResourceVersion: fmt.Sprint(version + 1)}, Data: map[string]string{objectData: data},
			})
		}
	}
	count := 0
	for i := range 100 {
		if held.get(fmt.Sprint(i)) != nil {
			count++
		}
	}
	if count != 15 || held.bytes > maxHeldBytes {
		t.Errorf("%d wrappers of 1 MiB are held, which count as %d bytes", count, held.bytes)
	}
	for i := range 100 {
		held.remove(fmt.Sprint(i))
	}
	if held.bytes != 0 {
		t.Errorf("nothing counts as %d bytes", held.bytes)
	}
}
