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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// waitUntilReady watches a ServiceExport until it is ready, and returns its last
// state.
func waitUntilReady(ctx context.Context, c *cluster.Cluster, last *multiclusterxv1beta1.ServiceExport, timeout time.Duration) (*multiclusterxv1beta1.ServiceExport, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// evaluate is called for every state of the ServiceExport.
	evaluate := func(current *multiclusterxv1beta1.ServiceExport) bool {
		last = current
		return meta.IsStatusConditionTrue(current.Status.Conditions, multicluster.ServiceExportReady)
	}
	deleted := fmt.Errorf("ServiceExport %q in namespace %q was deleted while waiting for it to become ready", last.Name, last.Namespace)
	failure := &lastFailure{cancel: cancel}
	_, err := watchtools.UntilWithSync(waiting, listWatch(c, last.Namespace, last.Name, failure), &multiclusterxv1beta1.ServiceExport{},
		func(store cache.Store) (bool, error) {
			current, exists, err := store.GetByKey(last.Namespace + "/" + last.Name)
			switch {
			case err != nil:
				return false, err
			case !exists:
				return false, deleted
			}
			return evaluate(current.(*multiclusterxv1beta1.ServiceExport)), nil
		},
		func(event watch.Event) (bool, error) {
			current, ok := event.Object.(*multiclusterxv1beta1.ServiceExport)
			switch {
			case !ok || current.Name != last.Name:
				return false, nil
			case event.Type == watch.Deleted:
				return false, deleted
			}
			return evaluate(current), nil
		},
	)
	switch {
	case err == nil:
		return last, nil
	case errors.Is(err, deleted):
		return nil, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted while waiting: Service %q in namespace %q remains exported: %w", last.Name, last.Namespace, ctx.Err())
	case failure.err != nil && !errors.Is(failure.err, context.Canceled): // canceled at the end of the wait
		return nil, fmt.Errorf("failed to watch ServiceExport %q in namespace %q: %w", last.Name, last.Namespace, c.WrapError(failure.err, cluster.MCSUserAdvice))
	}
	return nil, fmt.Errorf("ServiceExport %q in namespace %q is not ready after %s: %s", last.Name, last.Namespace, timeout, serviceexport.NotReadyReason(last))
}

// waitUntilListed waits until other clusters see the export as what it lists says. Which clusters have a
// listed ClusterProperty is up to the server.
func waitUntilListed(ctx context.Context, c *cluster.Cluster, serviceExport *multiclusterxv1beta1.ServiceExport, timeout time.Duration) error {
	listed, given, _ := clusterlist.Parse(serviceExport.Annotations, multicluster.ExportToAnnotation)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(serviceExport.Namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceexport.Selector(serviceExport.Name)})
		if err != nil {
			return false, err
		}
		for i := range exported.Items {
			if one := &exported.Items[i]; one.UID == serviceExport.UID {
				return reflects(one, listed, given), nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("ServiceExport %q in namespace %q is not seen as listed after %s; all replicas of mcs-apiserver need a version that knows the annotation %s: %w",
			serviceExport.Name, serviceExport.Namespace, timeout, multicluster.ExportToAnnotation, c.WrapError(err, cluster.MCSUserAdvice))
	}
	return nil
}

// reflects reports whether what other clusters see of an export is what it lists.
func reflects(exported *clustersetv1alpha1.ExportedService, listed clusterlist.Clusters, given bool) bool {
	audience := exported.Spec.Audience
	if !given || audience == nil {
		return given == (audience != nil)
	}
	ids := sets.New[string]()
	for _, term := range listed {
		if term.ID != "" && term.ID != exported.Spec.Cluster {
			ids.Insert(term.ID)
		}
	}
	seen := sets.New(audience.Clusters...)
	return seen.Equal(ids) || listed.ByProperty() && seen.IsSuperset(ids)
}

// lastFailure records the error of the last request, or nil if it succeeded. It is
// used by the goroutine that sends requests until that goroutine has ended.
type lastFailure struct {
	err    error
	cancel func()
}

// record ends the wait after errors that a retry does not solve.
func (f *lastFailure) record(err error) {
	f.err = err
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		f.cancel()
	}
}

// listWatch lists and watches one ServiceExport.
func listWatch(c *cluster.Cluster, namespace, name string, failure *lastFailure) cache.ListerWatcher {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			list, err := exports.List(ctx, options)
			failure.record(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			watcher, err := exports.Watch(ctx, options)
			failure.record(err)
			return watcher, err
		},
	}, c.MCS)
}
