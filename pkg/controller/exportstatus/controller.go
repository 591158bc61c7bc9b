// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exportstatus writes the status of ServiceExports: their conditions, the
// decision about their shared ClusterSet IP, and Events.
package exportstatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	recorder "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/ipallocator"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	workers = 4
	// A member that exports the same services can change the conditions of all exports as
	// often as its own. statusInterval is the minimum time between two writes of a status,
	// after statusBurst at once.
	statusInterval = 10 * time.Second
	statusBurst    = 10
	// decisionInterval is the same for writes with another decision about shared ClusterSet
	// IPs. These do not wait for the others: until a decision is recorded, the service loses its
	// IP when the cluster that has recorded it withdraws its export.
	decisionInterval = time.Second
	// firstStatusDelay is how long a new export may wait for mcs-apiserver to export it, which
	// takes milliseconds, before its status says that it is pending: one write instead of two.
	firstStatusDelay = time.Second
	// membersInterval is how long to wait for more changes of members: each may concern
	// everything that has a shared ClusterSet IP.
	membersInterval = time.Second
	// byService indexes ExportedServices by the namespace and name of their service.
	byService = "exportsOfService"
)

// membersKey stands for a change of members in the queue.
var membersKey = types.NamespacedName{}

// Controller writes the status of ServiceExports.
type Controller struct {
	client   versioned.Interface
	clock    clock.PassiveClock
	recorder recorder.EventRecorder
	queue    loop.Queue
	handlers loop.Handlers
	exports  multiclusterxlisters.ServiceExportLister
	services corev1listers.ServiceLister
	members  clustersetlisters.MemberLister
	// exported are the ExportedServices of all clusters.
	exported  cache.Indexer
	allocator *ipallocator.Allocator
	// pace is that of all writes but those of decisions.
	pace, decisionPace *pace.Limiter[types.NamespacedName]

	mu sync.Mutex
	// unserved are the new exports that wait for their first status.
	unserved map[types.NamespacedName]unserved
}

// New returns a controller. own is the informer factory of the mcs-apiserver API,
// host that of the cluster's own API.
func New(client versioned.Interface, clock clock.PassiveClock, recorder recorder.EventRecorder, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory) (*Controller, error) {
	exports := own.MulticlusterX().V1beta1().ServiceExports()
	exported := own.ClusterSet().V1alpha1().ExportedServices()
	members := own.ClusterSet().V1alpha1().Members()
	services := host.Core().V1().Services()
	for _, added := range []struct {
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{exported.Informer(), cache.Indexers{byService: indexByService}},
		{exported.Informer(), ipallocator.Indexers()},
		{exports.Informer(), ipallocator.Indexers()},
	} {
		if err := loop.EnsureIndexers(added.informer, added.indexers); err != nil {
			return nil, err
		}
	}
	c := &Controller{
		client: client, clock: clock, recorder: recorder, queue: loop.NewQueue("exportstatus"),
		exports: exports.Lister(), services: services.Lister(), members: members.Lister(), exported: exported.Informer().GetIndexer(),
		pace:         pace.New[types.NamespacedName](clock, statusInterval, statusBurst),
		decisionPace: pace.New[types.NamespacedName](clock, decisionInterval, statusBurst),
		unserved:     map[types.NamespacedName]unserved{},
	}
	c.allocator = ipallocator.New(clock, c.exported, exports.Informer().GetIndexer(), c.derived, c.allocations, c.queue.Add)
	c.handlers = loop.Handlers{
		services.Informer(): loop.OnChange(c.enqueue),
		exports.Informer():  loop.OnTransition(c.ownChanged),
		exported.Informer(): loop.OnTransition(c.exportedChanged),
		members.Informer():  loop.OnTransition(c.memberChanged),
	}
	return c, nil
}

// derived returns the derived Service of a service, nil if there is none.
func (c *Controller) derived(service types.NamespacedName) *corev1.Service {
	found, err := c.services.Services(service.Namespace).Get(multicluster.DerivedServiceName(service.Namespace, service.Name))
	if err != nil || found.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy {
		return nil
	}
	return found
}

// allocations returns the allocation CIDRs of all members.
func (c *Controller) allocations() clustersetip.Allocations {
	entries, err := c.members.List(labels.Everything())
	if err != nil {
		return clustersetip.Allocations{} // unreachable: listing a cache does not fail
	}
	return ipallocator.Allocations(entries)
}

func indexByService(object any) ([]string, error) {
	exported, ok := object.(*clustersetv1alpha1.ExportedService)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want ExportedService", object)
	}
	return []string{exported.Namespace + "/" + exported.Spec.Service}, nil
}

func (c *Controller) enqueue(object metav1.Object) {
	c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
}

func (c *Controller) exportedChanged(old, object any) {
	c.allocator.ObserveExported(old, object)
	for _, state := range []any{old, object} {
		if exported, ok := state.(*clustersetv1alpha1.ExportedService); ok && exported.Labels[multicluster.ServiceNameLabel] != "" {
			c.queue.Add(types.NamespacedName{Namespace: exported.Namespace, Name: exported.Labels[multicluster.ServiceNameLabel]})
		}
	}
}

func (c *Controller) ownChanged(old, object any) {
	c.allocator.ObserveOwn(old, object)
	for _, state := range []any{old, object} {
		if own, ok := state.(*multiclusterxv1beta1.ServiceExport); ok {
			c.enqueue(own)
		}
	}
}

// memberChanged enqueues all exports when this cluster joins or leaves a ClusterSet, or
// when a member is expelled, those that list clusters when it changes who can import them, and the waiting exports when a member changed in a way that
// they may be waiting for. A member can change its Member as often as it changes an object.
func (c *Controller) memberChanged(old, object any) {
	before, had := old.(*clustersetv1alpha1.Member)
	after, has := object.(*clustersetv1alpha1.Member)
	switch {
	case !had || !has || !ipallocator.SameAllocation(before, after):
		c.queue.AddAfter(membersKey, membersInterval)
	case !sameMember(before, after):
		c.allocator.RequeueWaiting()
	}
	all := localMembership(old) != localMembership(object) || expelled(old) != expelled(object)
	if !all && importing(old) == importing(object) {
		return
	}
	exports, err := c.exports.List(labels.Everything())
	if err != nil {
		return // unreachable: listing a cache does not fail
	}
	for _, export := range exports {
		if _, lists := export.Annotations[multicluster.ExportToAnnotation]; all || lists {
			c.enqueue(export)
		}
	}
}

// sameMember reports whether a member is unchanged except for the time it was last
// seen, which changes every few seconds, and for the number of its exports and the
// conditions that are about these or about the connection.
func sameMember(before, after *clustersetv1alpha1.Member) bool {
	one, other := before.Status, after.Status
	for _, status := range []*clustersetv1alpha1.MemberStatus{&one, &other} {
		status.LastSeen, status.Exports, status.Endpoints = nil, 0, 0
		status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(condition metav1.Condition) bool {
			return condition.Type != clusterset.MemberAccepted && condition.Type != clusterset.MemberClusterSetIP
		})
	}
	return apiequality.Semantic.DeepEqual(one, other)
}

// localMembership identifies the membership of this cluster. It is empty for the
// Member of any other cluster.
func localMembership(object any) string {
	if entry, ok := object.(*clustersetv1alpha1.Member); ok && entry.Status.State == clustersetv1alpha1.MemberLocal {
		return entry.Name + "/" + entry.Status.ClusterSet + "/" + entry.Status.IDClaimedAt.String()
	}
	return ""
}

func expelled(object any) bool {
	entry, ok := object.(*clustersetv1alpha1.Member)
	return ok && ipallocator.Expelled(entry)
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "exportstatus"))
	synced, detach, err := c.handlers.Attach()
	if err != nil {
		return err
	}
	defer detach()
	if cache.WaitForNamedCacheSyncWithContext(ctx, synced...) {
		c.allocator.Start()
	}
	loop.Run(ctx, c.queue, workers, synced, c.sync)
	return nil
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	if key == membersKey {
		c.allocator.MembersChanged()
		return nil
	}
	current, err := c.exports.ServiceExports(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && current.DeletionTimestamp != nil {
		c.allocator.Forget(key)
		c.forgetUnserved(key)
		return nil
	}
	if err != nil {
		return err
	}
	observed, err := c.observe(key)
	if err != nil {
		return err
	}
	if wait := c.firstStatusIn(key, current, observed); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	serviceExport := current.DeepCopy()
	assigned := ipallocator.Result{}
	// What only some clusters see has no address that others could give to another service.
	if shown := served(serviceExport, observed); shown != nil && shown.Spec.Audience == nil {
		if assigned, err = c.allocator.Assign(observed.request(key, serviceExport)); err != nil {
			return err
		}
	} else {
		c.allocator.Release(key)
	}
	if assigned.RetryAfter > 0 {
		c.queue.AddAfter(key, assigned.RetryAfter)
	}
	observed.ipProblem = assigned.Problem
	changed := export.RecordDecision(serviceExport, assigned.Decision, observed.joinedAt())
	if apply(&serviceExport.Status.Conditions, conditions(serviceExport, observed)) || changed {
		limiter := c.pace
		if changed && !clustersetip.SameIPs(export.RecordedDecision(current, observed.joinedAt()), assigned.Decision) {
			limiter = c.decisionPace
		}
		if wait := limiter.Take(key); wait > 0 {
			c.queue.AddAfter(key, wait)
			return nil
		}
		if err := c.write(ctx, current, serviceExport, observed); err != nil {
			return err
		}
	}
	c.allocator.Recorded(key, assigned)
	return nil
}

// unserved is an export that mcs-apiserver does not export yet, and since when it is known.
type unserved struct {
	uid   types.UID
	since time.Time
}

// firstStatusIn returns how long the first status of an export waits for mcs-apiserver.
func (c *Controller) firstStatusIn(key types.NamespacedName, current *multiclusterxv1beta1.ServiceExport, observed facts) time.Duration {
	if len(current.Status.Conditions) > 0 || !awaitsServer(current, observed) {
		c.forgetUnserved(key)
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.unserved[key]
	if waiting.uid != current.UID {
		waiting = unserved{current.UID, c.clock.Now()}
		c.unserved[key] = waiting
	}
	return firstStatusDelay - c.clock.Since(waiting.since)
}

// forgetUnserved notes that an export does not wait for its first status.
func (c *Controller) forgetUnserved(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unserved, key)
}

// write writes the status of an export and records Events for changed conditions.
func (c *Controller) write(ctx context.Context, current, serviceExport *multiclusterxv1beta1.ServiceExport, observed facts) error {
	if _, err := c.client.MulticlusterXV1beta1().ServiceExports(current.Namespace).UpdateStatus(ctx, serviceExport, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("update status of ServiceExport: %w", err)
	}
	for _, event := range append(events(current.Status.Conditions, serviceExport.Status.Conditions), released(current, serviceExport, observed)...) {
		c.recorder.Eventf(regarding(serviceExport), nil, event.eventType, event.reason, "Export", "%s", note(event.message, observed.self))
	}
	return nil
}

// note returns the note of an Event. It ends with the cluster ID, since Events of
// several clusters may be collected in one place.
func note(message string, self *clustersetv1alpha1.Member) string {
	suffix := ""
	if self != nil {
		suffix = fmt.Sprintf(" (cluster %s)", self.Status.ClusterID)
	}
	return truncate.Bytes(message, truncate.MaxEventNote-len(suffix)) + suffix
}

// observe collects what the status of an export depends on.
func (c *Controller) observe(key types.NamespacedName) (facts, error) {
	observed := facts{derived: c.derived(key), now: c.clock.Now()}
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	switch {
	case err == nil:
		observed.service = service
	case !apierrors.IsNotFound(err):
		return observed, err
	}
	entries, err := c.members.List(labels.Everything())
	if err != nil {
		return observed, err
	}
	observed.members = entries
	for _, entry := range entries {
		if entry.Status.State == clustersetv1alpha1.MemberLocal {
			observed.self = entry
		}
	}
	objects, err := c.exported.ByIndex(byService, key.String())
	for _, object := range objects {
		observed.exported = append(observed.exported, object.(*clustersetv1alpha1.ExportedService))
	}
	return observed, err
}

func regarding(export *multiclusterxv1beta1.ServiceExport) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: multiclusterxv1beta1.SchemeGroupVersion.String(), Kind: "ServiceExport",
		Namespace: export.Namespace, Name: export.Name, UID: export.UID, ResourceVersion: export.ResourceVersion,
	}
}
