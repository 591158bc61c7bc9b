// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// observer watches objects as clients do, all the time: with an informer, with a plain watch
// that lists again when it ends, and by getting them. It records when one of those that must
// exist does not.
type observer struct {
	resource schema.GroupVersionResource
	client   dynamic.Interface
	informer cache.SharedIndexInformer

	mu sync.Mutex
	// required are the names of objects that must exist.
	required []string
	absences []string
	gets     int
	watches  int
}

// observe observes objects until the test ends.
func observe(t *testing.T, in *fleet.Cluster, resource schema.GroupVersionResource, required ...string) *observer {
	t.Helper()
	o := &observer{resource: resource, client: objects(t, in), required: required}
	o.informer = dynamicinformer.NewFilteredDynamicInformer(o.client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	expect.Must(o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			o.record("the informer of "+resource.String()+" saw a deletion", key)
		}
	}}))(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, do := range []func(context.Context){o.informer.RunWithContext, o.watch, o.get} {
		running.Go(func() { do(ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
		for _, absence := range o.found() {
			t.Error(in.ID, absence)
		}
		t.Logf("%s: %s: %d requests, %d watches, no object was absent: %t", in.ID, resource.Resource, o.gets, o.watches, len(o.absences) == 0)
	})
	if !cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	return o
}

// release lets objects be deleted.
func (o *observer) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.required = nil
}

func (o *observer) keys() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.required
}

func (o *observer) record(how, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.required, key) {
		return
	}
	o.absences = append(o.absences, fmt.Sprintf("%s %s: %s", time.Now().Format(time.TimeOnly), how, key))
}

func (o *observer) found() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.absences)
}

// watch lists and watches in a loop.
func (o *observer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := o.client.Resource(o.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			o.failed(ctx, "list", err)
			continue
		}
		exists := map[string]bool{}
		for _, item := range list.Items {
			exists[item.GetNamespace()+"/"+item.GetName()] = true
		}
		for _, key := range o.keys() {
			if !exists[key] {
				o.record("a list lacks", key)
			}
		}
		watching, err := o.client.Resource(o.resource).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			o.failed(ctx, "watch", err)
			continue
		}
		o.mu.Lock()
		o.watches++
		o.mu.Unlock()
		for event := range watching.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type == watch.Deleted {
				o.record("a watch saw the deletion of", object.GetNamespace()+"/"+object.GetName())
			}
		}
	}
}

// get gets the objects in a loop.
func (o *observer) get(ctx context.Context) {
	for ctx.Err() == nil {
		for _, key := range o.keys() {
			namespace, name, _ := strings.Cut(key, "/")
			_, err := o.client.Resource(o.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				o.failed(ctx, "get "+key, err)
			}
			o.mu.Lock()
			o.gets++
			o.mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// failed records a request that failed: the API is served at every moment.
func (o *observer) failed(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || len(o.keys()) == 0 {
		return
	}
	o.mu.Lock()
	o.absences = append(o.absences, fmt.Sprintf("%s %s %s: %v", time.Now().Format(time.TimeOnly), o.resource.Resource, what, err))
	o.mu.Unlock()
	if apierrors.IsTooManyRequests(err) {
		time.Sleep(time.Second)
	}
	time.Sleep(50 * time.Millisecond)
}

// knows waits until the informer has an object that passes a check.
func (o *observer) knows(t *testing.T, key string, check func(*unstructured.Unstructured) error) {
	t.Helper()
	expect.Eventually(t, "informer of "+o.resource.Resource+" knows "+key, func(context.Context) error {
		object, exists, err := o.informer.GetStore().GetByKey(key)
		if err != nil {
			return err
		} else if !exists {
			return fmt.Errorf("known are %v", o.informer.GetStore().ListKeys())
		}
		return check(object.(*unstructured.Unstructured))
	})
}

func exists(*unstructured.Unstructured) error { return nil }
