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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Reasons of the condition Ready of exports that no other cluster can import because of their list.
const (
	reasonInvalidClusterList = "InvalidClusterList"
	reasonNoMatchingCluster  = "NoMatchingCluster"
)

// settling is how long mcs-controller may take to judge a list that has just been changed: it writes the status of an
// export that changes again and again every 10 seconds. The condition Ready may be that of the list before for as long,
// unless it changes.
const settling = 12 * time.Second

// progress is what is known about an export while it is waited for.
type progress struct {
	// last is the ServiceExport, exported what other clusters see of it, nil as long as they see nothing.
	last     *multiclusterxv1beta1.ServiceExport
	exported *clustersetv1alpha1.ExportedService
	// report is called with what keeps other clusters from importing the export, once for each reason.
	report   func(message string)
	reported string
	// before is the condition Ready from before the list was changed, nil if it was not changed, or if mcs-controller
	// had enough time. settled ends that time, and is nil as long as other clusters see another list.
	before  *metav1.Condition
	settled <-chan time.Time
}

// waitUntilReady watches a ServiceExport until it is ready, and other clusters see it with the list of clusters
// that it has, which another client may have changed. changed is true if this command changed it. It returns its last state.
func waitUntilReady(ctx context.Context, c *cluster.Cluster, last *multiclusterxv1beta1.ServiceExport, changed bool, timeout time.Duration, report func(string)) (*multiclusterxv1beta1.ServiceExport, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &progress{last: last, report: report}
	if changed {
		p.before = meta.FindStatusCondition(last.Status.Conditions, multicluster.ServiceExportReady)
	}
	exports := follow(waiting, cancel, "ServiceExport", listWatch(c, last.Namespace, last.Name), &multiclusterxv1beta1.ServiceExport{})
	defer exports.stop()
	exported := follow(waiting, cancel, "ExportedServices", listExported(c, last.Namespace, last.Name), &clustersetv1alpha1.ExportedService{})
	defer exported.stop()
	done, err := false, error(nil)
	if cache.WaitForCacheSync(waiting.Done(), exports.synced, exported.synced) {
		done, err = p.evaluate(exports.store, exported.store)
		for !done && err == nil && waiting.Err() == nil {
			select {
			case <-exports.events:
			case <-exported.events:
			case <-p.settled:
				p.before = nil
			case <-waiting.Done():
			}
			if waiting.Err() == nil {
				done, err = p.evaluate(exports.store, exported.store)
			}
		}
	}
	switch {
	case done:
		return p.last, nil
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted while waiting: Service %q in namespace %q remains exported: %w", last.Name, last.Namespace, ctx.Err())
	}
	for _, followed := range []*followed{exports, exported} {
		followed.stop()
		if failure := followed.failure; failure != nil && !errors.Is(failure, context.Canceled) && !errors.Is(failure, context.DeadlineExceeded) { // at the end of the wait
			return nil, fmt.Errorf("failed to watch %s %q in namespace %q: %w", followed.kind, last.Name, last.Namespace, c.WrapError(failure, cluster.MCSUserAdvice))
		}
	}
	return nil, p.timedOut(timeout)
}

// evaluate reports whether the wait is over. The error is for what no wait solves.
func (p *progress) evaluate(exports, exported cache.Store) (bool, error) {
	object, exists, err := exports.GetByKey(p.last.Namespace + "/" + p.last.Name)
	if err != nil {
		return false, err
	}
	current, ok := object.(*multiclusterxv1beta1.ServiceExport)
	if !exists || !ok || current.UID != p.last.UID {
		return false, fmt.Errorf("ServiceExport %q in namespace %q was deleted while waiting for it to become ready", p.last.Name, p.last.Namespace)
	}
	p.last, p.exported = current, nil
	for _, object := range exported.List() {
		if one, ok := object.(*clustersetv1alpha1.ExportedService); ok && one.UID == current.UID && len(one.Spec.Path) == 0 { // other clusters choose the UIDs of what they export
			p.exported = one
		}
	}
	ready := meta.FindStatusCondition(current.Status.Conditions, multicluster.ServiceExportReady)
	if ready == nil || p.stale(ready) {
		return false, nil
	}
	if ready.Status == metav1.ConditionTrue {
		return p.reflected(), nil
	}
	_, _, errs := clusterlist.Parse(current.Annotations, multicluster.ExportToAnnotation)
	switch {
	case ready.Reason == reasonInvalidClusterList && len(errs) > 0: // otherwise, it was corrected
		return false, fmt.Errorf("ServiceExport %q in namespace %q is not ready: %s", current.Name, current.Namespace, serviceexport.NotReadyReason(current))
	case ready.Reason == reasonNoMatchingCluster && p.reflected() && p.reported != ready.Message:
		p.reported = ready.Message
		p.report(serviceexport.NotReadyReason(current))
	}
	return false, nil
}

// stale reports whether a condition may be that of the list before.
func (p *progress) stale(ready *metav1.Condition) bool {
	if p.before == nil || p.before.Status != ready.Status || p.before.Reason != ready.Reason || p.before.Message != ready.Message {
		p.before = nil
		return false
	}
	switch reflected := p.reflected(); {
	case !reflected:
		p.settled = nil
	case p.settled == nil:
		p.settled = time.After(settling)
	}
	return true
}

// reflected reports whether other clusters see the export with the list that it has.
func (p *progress) reflected() bool {
	listed, given, _ := clusterlist.Parse(p.last.Annotations, multicluster.ExportToAnnotation)
	return p.exported != nil && reflects(p.exported, listed, given)
}

// timedOut returns why the wait is not over.
func (p *progress) timedOut(timeout time.Duration) error {
	switch {
	case !meta.IsStatusConditionTrue(p.last.Status.Conditions, multicluster.ServiceExportReady):
		return fmt.Errorf("ServiceExport %q in namespace %q is not ready after %s: %s", p.last.Name, p.last.Namespace, timeout, serviceexport.NotReadyReason(p.last))
	case p.exported == nil:
		return fmt.Errorf("ServiceExport %q in namespace %q is ready, but other clusters do not see it after %s: `kubectl %s` shows whether mcs-apiserver is running",
			p.last.Name, p.last.Namespace, timeout, cluster.DescribeInstallation)
	}
	return fmt.Errorf("ServiceExport %q in namespace %q is not seen as annotation %s says after %s: all replicas of mcs-apiserver need a version that knows this annotation; upgrade them, or see `kubectl %s`",
		p.last.Name, p.last.Namespace, multicluster.ExportToAnnotation, timeout, cluster.DescribeInstallation)
}

// reflects reports whether what other clusters see of an export is what it lists. Which of them have a listed
// ClusterProperty is up to the server.
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

// followed are the objects of one kind that are watched.
type followed struct {
	kind   string
	store  cache.Store
	synced cache.InformerSynced
	events <-chan watch.Event
	// failure is the error of the last request, or nil if it succeeded. It may be read when the watch is stopped.
	failure error
	stop    func()
}

// requests list and watch objects.
type requests struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// client says which semantics lists and watches have.
	client any
}

// follow watches objects until it is stopped. It cancels the wait after errors that a retry does not solve.
func follow(ctx context.Context, cancel func(), kind string, r requests, object runtime.Object) *followed {
	f := &followed{kind: kind}
	record := func(err error) {
		f.failure = err
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			cancel()
		}
	}
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := r.list(ctx, options)
			record(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := r.watch(ctx, options)
			record(err)
			return watcher, err
		},
	}, r.client)
	store, informer, watcher, done := watchtools.NewIndexerInformerWatcherWithLogger(klog.FromContext(ctx), source, object)
	f.store, f.synced, f.events = store, informer.HasSynced, watcher.ResultChan()
	f.stop = func() {
		watcher.Stop()
		<-done
	}
	return f
}

// listWatch lists and watches one ServiceExport.
func listWatch(c *cluster.Cluster, namespace, name string) requests {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return requests{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return exports.List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return exports.Watch(ctx, options)
		},
		client: c.MCS,
	}
}

// listExported lists and watches what all clusters see of the exports of a Service.
func listExported(c *cluster.Cluster, namespace, name string) requests {
	exported := c.MCS.ClusterSetV1alpha1().ExportedServices(namespace)
	return requests{
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = serviceexport.Selector(name)
			return exported.List(ctx, options)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = serviceexport.Selector(name)
			return exported.Watch(ctx, options)
		},
		client: c.MCS,
	}
}
