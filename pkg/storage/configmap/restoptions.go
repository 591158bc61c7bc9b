// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/tools/cache"
)

// countPeriod is how often the number of objects is reported as a metric.
const countPeriod = time.Minute

// RESTOptions is a generic.RESTOptionsGetter for storage in a Backend. Codec and
// prefix of a resource must be added.
type RESTOptions struct {
	Backend                 *Backend
	DeleteCollectionWorkers int
	EnableGarbageCollection bool
	ObjectCountTracker      flowcontrolrequest.StorageObjectCountTracker
}

var _ generic.RESTOptionsGetter = RESTOptions{}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o RESTOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.NewDefaultConfig("", nil)
	config.StorageObjectCountTracker = o.ObjectCountTracker
	return generic.RESTOptions{
		StorageConfig:             config.ForResource(resource),
		Decorator:                 o.Backend.decorate,
		DeleteCollectionWorkers:   o.DeleteCollectionWorkers,
		EnableGarbageCollection:   o.EnableGarbageCollection,
		CountMetricPollPeriod:     countPeriod,
		StorageObjectCountTracker: o.ObjectCountTracker,
	}, nil
}

// decorate is a generic.StorageDecorator. It adds no watch cache.
func (b *Backend) decorate(config *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	stored := New(Config{
		Client: b.client.CoreV1().RESTClient(), Watches: b.watches, Namespace: b.namespace, Guard: b.guard,
		Resource: config.GroupResource, ResourcePrefix: resourcePrefix, Codec: config.Codec,
		NewFunc: newFunc, NewListFunc: newListFunc, Attributes: attributes,
	})
	return stored, func() {}, nil
}
