// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/boundedwatch"
)

// watched is a storage that records the deadline of watches.
type watched struct {
	storage.Interface
	until time.Time
}

func (w *watched) Watch(ctx context.Context, _ string, _ storage.ListOptions) (watch.Interface, error) {
	w.until, _ = ctx.Deadline()
	return watch.NewEmptyWatch(), nil
}

// Other clusters watch claims, and a watch must not outlive a revoked credential
// for long.
func TestWatchesOfClaimsAreBounded(t *testing.T) {
	claims := &watched{}
	options := generic.RESTOptions{
		StorageConfig:  (&storagebackend.Config{}).ForResource(multicluster.Resource("clusterclaims")),
		ResourcePrefix: "/clusterclaims",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return claims, func() {}, nil
		},
	}
	scheme := runtime.NewScheme()
	if err := multicluster.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	store, err := NewStorage(scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := rest.Watcher(store).Watch(ctx, &internalversion.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(claims.until); left <= 0 || left > boundedwatch.MaxDuration {
		t.Errorf("a watch lasts %s", left)
	}
}
