// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// prefix is the key prefix of the resource.
const prefix = "/multicluster.x-k8s.io/serviceimports"

func everything() storage.ListOptions {
	return storage.ListOptions{Recursive: true, Predicate: storage.Everything}
}

func newList() *multicluster.ServiceImportList { return &multicluster.ServiceImportList{} }

func nameOf(i int) string { return fmt.Sprintf("import-%05d", i) }

func ipOf(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }

func items(list *unstructured.UnstructuredList) []any {
	var all []any
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func addTo(t *testing.T, version string, delta int64) string {
	t.Helper()
	number, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(number+delta, 10)
}

func uidOf(object runtime.Object) types.UID {
	return object.(*multicluster.ServiceImport).UID
}

// serviceImportVersion returns an object with a version of another store.
func serviceImportVersion(t *testing.T) runtime.Object {
	t.Helper()
	store := virtual.NewStore(virtual.Config{
		Resource:    multicluster.XResource("serviceimports"),
		NewFunc:     func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc: func() runtime.Object { return newList() },
		Namespaced:  true,
		Versions:    virtual.NewVersionSource(clock.RealClock{}),
	})
	object := serviceImport("a", "x", "1.1.1.1", nil)
	store.Set(object)
	return object
}

// receive receives an event from a watch.
func receive(ctx context.Context, w watch.Interface) (watch.Event, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			return watch.Event{}, fmt.Errorf("the watch ended")
		}
		return event, nil
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	case <-timer.C:
		return watch.Event{}, fmt.Errorf("timed out waiting for an event")
	}
}
