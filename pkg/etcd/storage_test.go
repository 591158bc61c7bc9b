// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// newStorage returns decorated storage of example Pods.
func newStorage(t *testing.T, space Space, servers ...string) storage.Interface {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	config := storagebackend.NewDefaultConfig("/registry", serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion))
	config.Transport.ServerList = servers
	stored, destroy, err := decorate(generic.UndecoratedStorage, space)(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods",
		nil, func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return stored
}

func create(ctx context.Context, stored storage.Interface, name string, size int) error {
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{"a": strings.Repeat("x", size)}}}
	return stored.Create(ctx, "/pods/shop/"+name, pod, nil, 0)
}

// R171: writes to full storage are refused with a status that says what to do.
func TestWritesToFullStorageAreRefusedClearly(t *testing.T) {
	dir := t.TempDir()
	embedded, _, _ := startSmall(t, dir)
	stored := newStorage(t, embedded, EmbeddedEndpoint(dir))
	var err error
	for i := 0; err == nil && i < 2*testQuota/valueSize; i++ {
		err = create(t.Context(), stored, fmt.Sprintf("web-%d", i), valueSize)
	}
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) || refusal.Status().Code != http.StatusInsufficientStorage || !strings.Contains(err.Error(), "storage is full: embedded etcd in "+dir) {
		t.Fatalf("got %v, want 507 that says what is full", err)
	}
	err = stored.GuaranteedUpdate(t.Context(), "/pods/shop/web-0", &example.Pod{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		object.(*example.Pod).Annotations["b"] = "y"
		return object, nil
	}), nil)
	if !errors.As(err, &refusal) || refusal.Status().Reason != reasonInsufficientStorage {
		t.Errorf("update: got %v, want 507", err)
	}
	if err := stored.Get(t.Context(), "/pods/shop/web-0", storage.GetOptions{}, &example.Pod{}); err != nil {
		t.Errorf("get: %v", err)
	}
	some := storage.Everything // decoding all of them takes time
	some.Limit = 10
	if err := stored.GetList(t.Context(), "/pods", storage.ListOptions{Recursive: true, Predicate: some}, &example.PodList{}); err != nil {
		t.Errorf("list: %v", err)
	}
	if err := stored.Delete(t.Context(), "/pods/shop/web-0", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// R170: refused writes do not fill the volume with the log of etcd.
func TestRefusedWritesAreNotLogged(t *testing.T) {
	dir := t.TempDir()
	embedded, client, _ := startSmall(t, dir)
	stored := newStorage(t, embedded, EmbeddedEndpoint(dir))
	if err := create(t.Context(), stored, "web", 1); err != nil {
		t.Fatal(err)
	}
	fill(t, embedded, client)
	annotate := func(key string) error {
		return stored.GuaranteedUpdate(t.Context(), "/pods/shop/web", &example.Pod{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			changed := object.DeepCopyObject().(*example.Pod)
			changed.Annotations[key] = "x"
			return changed, nil
		}), nil)
	}
	logged := embedded.etcd.Server.CommittedIndex()
	for what, err := range map[string]error{"create": create(t.Context(), stored, "more", 1), "update": annotate("b")} {
		var refusal apierrors.APIStatus
		if !errors.As(err, &refusal) || refusal.Status().Code != http.StatusInsufficientStorage {
			t.Errorf("%s: got %v, want 507", what, err)
		}
	}
	if err := annotate("a"); err != nil {
		t.Errorf("update without a change: %v", err)
	}
	if now := embedded.etcd.Server.CommittedIndex(); now != logged {
		t.Errorf("%d refused writes were logged", now-logged)
	}
}

func TestTooLargeObjectIsRefusedClearly(t *testing.T) {
	dir := t.TempDir()
	embedded, _, _ := startSmall(t, dir)
	stored := newStorage(t, embedded, EmbeddedEndpoint(dir))
	for _, size := range []int{1600 << 10, 2500 << 10} { // the limits of server and client are between them
		if err := create(t.Context(), stored, "large", size); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%d bytes: got %v, want 413", size, err)
		}
	}
}

func TestErrorsOfEtcdAreTranslated(t *testing.T) {
	stored := &limitedStorage{space: ExternalSpace{"server"}}
	for err, want := range map[error]int32{
		rpctypes.ErrNoSpace:                                http.StatusInsufficientStorage,
		rpctypes.ErrRequestTooLarge:                        http.StatusRequestEntityTooLarge,
		rpctypes.ErrTooManyRequests:                        http.StatusTooManyRequests,
		rpctypes.ErrNoLeader:                               http.StatusServiceUnavailable,
		rpctypes.ErrLeaderChanged:                          http.StatusServiceUnavailable,
		status.Error(codes.Unavailable, "connection lost"): http.StatusServiceUnavailable,
		errTimeout: http.StatusGatewayTimeout,
	} {
		var translated apierrors.APIStatus
		if got := stored.translate(err); !errors.As(got, &translated) || translated.Status().Code != want {
			t.Errorf("%v: got %v, want code %d", err, got, want)
		}
	}
	for _, err := range []error{nil, context.Canceled, storage.NewKeyNotFoundError("/pods/shop/web", 1), rpctypes.ErrCompacted} {
		if got := stored.translate(err); !errors.Is(got, err) {
			t.Errorf("%v was translated to %v", err, got)
		}
	}
}

// failingStorage responds to writes with an error.
type failingStorage struct {
	storage.Interface
	err error
}

func (f failingStorage) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return f.err
}

// A write without a response may have been done. With Retry-After, client-go would repeat
// it, and report that the object exists already.
func TestWritesOfUnknownOutcomeAreNotRepeated(t *testing.T) {
	for _, lost := range []error{rpctypes.ErrLeaderChanged, status.Error(codes.Unavailable, "connection lost")} {
		stored := &limitedStorage{Interface: failingStorage{err: lost}, space: ExternalSpace{"server"}}
		err := stored.Create(t.Context(), "/pods/shop/web", nil, nil, 0)
		if _, suggested := apierrors.SuggestsClientDelay(err); !apierrors.IsTimeout(err) || suggested {
			t.Errorf("%v: got %v, want 504 without a delay", lost, err)
		}
	}
}

// hungStorage does not respond. Its update function is called once before that.
type hungStorage struct{ storage.Interface }

func (hungStorage) hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hungStorage) Create(ctx context.Context, _ string, _, _ runtime.Object, _ uint64) error {
	return h.hang(ctx)
}

func (h hungStorage) Delete(ctx context.Context, _ string, _ runtime.Object, _ *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	if err := validate(ctx, nil); err != nil {
		return err
	}
	return h.hang(ctx)
}

func (h hungStorage) Get(ctx context.Context, _ string, _ storage.GetOptions, _ runtime.Object) error {
	return h.hang(ctx)
}

func (h hungStorage) GetList(ctx context.Context, _ string, _ storage.ListOptions, _ runtime.Object) error {
	return h.hang(ctx)
}

func (h hungStorage) GuaranteedUpdate(ctx context.Context, _ string, _ runtime.Object, _ bool, _ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	if _, _, err := update(nil, storage.ResponseMeta{}); err != nil {
		return err
	}
	return h.hang(ctx)
}

func (h hungStorage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return 0, h.hang(ctx)
}

// R173: storage that does not respond leads to an error within seconds. The time that
// admission takes does not count.
func TestCallsOfHungStorageEnd(t *testing.T) {
	const admission = time.Minute
	stored := &limitedStorage{Interface: hungStorage{}, space: ExternalSpace{"server"}}
	for name, test := range map[string]struct {
		call  func(context.Context) error
		after time.Duration
	}{
		"create": {func(ctx context.Context) error { return stored.Create(ctx, "", nil, nil, 0) }, storageTimeout},
		"get":    {func(ctx context.Context) error { return stored.Get(ctx, "", storage.GetOptions{}, nil) }, storageTimeout},
		"list":   {func(ctx context.Context) error { return stored.GetList(ctx, "", storage.ListOptions{}, nil) }, storageTimeout},
		"version": {func(ctx context.Context) error {
			_, err := stored.GetCurrentResourceVersion(ctx)
			return err
		}, storageTimeout},
		"update": {func(ctx context.Context) error {
			return stored.GuaranteedUpdate(ctx, "", nil, false, nil, func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
				time.Sleep(admission)
				return nil, nil, nil
			}, nil)
		}, admission + storageTimeout},
		"delete": {func(ctx context.Context) error {
			return stored.Delete(ctx, "", nil, nil, func(ctx context.Context, _ runtime.Object) error {
				time.Sleep(admission)
				return ctx.Err()
			}, nil, storage.DeleteOptions{})
		}, admission + storageTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if err := test.call(t.Context()); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "did not respond") {
					t.Errorf("got %v, want 504 that says why", err)
				}
				if took := time.Since(start); took != test.after {
					t.Errorf("took %s, want %s", took, test.after)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if name == "update" || name == "delete" {
				return // they would sleep
			}
			if err := test.call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled by the caller: got %v", err)
			}
		})
	}
}
