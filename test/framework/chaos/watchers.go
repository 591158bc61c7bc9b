// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Watcher is what a client does with the objects that it watches.
type Watcher struct {
	// Exists is called for every object that was added or changed, Gone for every one
	// that was deleted.
	Exists, Gone func(*unstructured.Unstructured)
}

// Client returns a client with connections of its own, whose requests are counted.
func Client(config *rest.Config, attempts *Attempts) (dynamic.Interface, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext // otherwise, clients of one process share connections
	config.Wrap(attempts.Wrap)
	return dynamic.NewForConfig(config)
}

// Watch runs an informer for the objects of a namespace until the context is done, and returns
// when the informer has synced.
func Watch(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace string, watcher Watcher) error {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, 0, cache.Indexers{}, nil).Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { watcher.Exists(object.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, object any) { watcher.Exists(object.(*unstructured.Unstructured)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			watcher.Gone(object.(*unstructured.Unstructured))
		},
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("watch %s: %w", resource.Resource, context.Cause(ctx))
	}
	return nil
}
