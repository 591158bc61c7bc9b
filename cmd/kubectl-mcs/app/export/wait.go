// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// waitUntilReady watches an export until the other clusters can see it, and
// returns it as it is then.
func waitUntilReady(ctx context.Context, c *cluster.Cluster, last *multiclusterxv1beta1.ServiceExport, timeout time.Duration) (*multiclusterxv1beta1.ServiceExport, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// look is for every state that the export is seen in.
	look := func(seen *multiclusterxv1beta1.ServiceExport) bool {
		last = seen
		return meta.IsStatusConditionTrue(seen.Status.Conditions, multicluster.ServiceExportReady)
	}
	gone := fmt.Errorf("ServiceExport %q in namespace %q was deleted while waiting for it to be ready", last.Name, last.Namespace)
	failure := &lastFailure{giveUp: cancel}
	_, err := watchtools.UntilWithSync(waiting, watchOne(c, last.Namespace, last.Name, failure), &multiclusterxv1beta1.ServiceExport{},
		func(store cache.Store) (bool, error) {
			seen, exists, err := store.GetByKey(last.Namespace + "/" + last.Name)
			switch {
			case err != nil:
				return false, err
			case !exists:
				return false, gone
			}
			return look(seen.(*multiclusterxv1beta1.ServiceExport)), nil
		},
		func(event watch.Event) (bool, error) {
			seen, ok := event.Object.(*multiclusterxv1beta1.ServiceExport)
			switch {
			case !ok || seen.Name != last.Name:
				return false, nil
			case event.Type == watch.Deleted:
				return false, gone
			}
			return look(seen), nil
		},
	)
	switch {
	case err == nil:
		return last, nil
	case errors.Is(err, gone):
		return nil, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted while waiting; Service %q in namespace %q stays exported: %w", last.Name, last.Namespace, ctx.Err())
	case failure.err != nil && !errors.Is(failure.err, context.Canceled): // by the end of the wait
		return nil, fmt.Errorf("cannot wait for ServiceExport %q in namespace %q: %w", last.Name, last.Namespace, c.WrapError(failure.err, cluster.MCSUserAdvice))
	}
	return nil, fmt.Errorf("ServiceExport %q in namespace %q is not ready after %s: %s", last.Name, last.Namespace, timeout, serviceexport.NotReadyReason(last))
}

// lastFailure is why the last attempt to read failed, nil if it did not. It
// belongs to the goroutine that reads until that has ended.
type lastFailure struct {
	err    error
	giveUp func()
}

// note ends the wait if trying again is of no use.
func (f *lastFailure) note(err error) {
	f.err = err
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		f.giveUp()
	}
}

// watchOne lists and watches one ServiceExport.
func watchOne(c *cluster.Cluster, namespace, name string, failure *lastFailure) cache.ListerWatcher {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			list, err := exports.List(ctx, options)
			failure.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			watcher, err := exports.Watch(ctx, options)
			failure.note(err)
			return watcher, err
		},
	}, c.MCS)
}
