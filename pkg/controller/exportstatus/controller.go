// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exportstatus tells people what has become of their ServiceExports, in
// conditions and Events.
package exportstatus

import (
	"context"
	"fmt"

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

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	workers   = 4
	byService = "exportsOfService"
	// maxNote is how long the text of an Event may be.
	maxNote = 1024
)

// Controller writes the status of ServiceExports.
type Controller struct {
	client   versioned.Interface
	recorder recorder.EventRecorder
	queue    loop.Queue
	synced   []cache.InformerSynced
	exports  multiclusterxlisters.ServiceExportLister
	services corev1listers.ServiceLister
	members  clustersetlisters.MemberLister
	exported cache.Indexer
	// own are the exports of this cluster.
	own    cache.Indexer
	clock  clock.PassiveClock
	ledger *ledger
}

// New returns a controller. own are informers of our API, host those of the
// cluster's.
func New(client versioned.Interface, clock clock.PassiveClock, recorder recorder.EventRecorder, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory) (*Controller, error) {
	exports := own.MulticlusterX().V1beta1().ServiceExports()
	exported := own.ClusterSet().V1alpha1().ExportedServices()
	members := own.ClusterSet().V1alpha1().Members()
	services := host.Core().V1().Services()
	if err := exported.Informer().AddIndexers(exportedIndexers()); err != nil {
		return nil, err
	}
	if err := exports.Informer().AddIndexers(cache.Indexers{byIP: indexByIP}); err != nil {
		return nil, err
	}
	c := &Controller{
		client: client, recorder: recorder, queue: loop.NewQueue("exportstatus"),
		exports: exports.Lister(), services: services.Lister(), members: members.Lister(), exported: exported.Informer().GetIndexer(),
		own: exports.Informer().GetIndexer(), clock: clock, ledger: newLedger(),
	}
	registration, err := services.Informer().AddEventHandler(loop.OnChange(c.enqueue))
	if err != nil {
		return nil, err
	}
	c.synced = append(c.synced, registration.HasSynced)
	for informer, handle := range map[cache.SharedIndexInformer]func(old, object any){
		exports.Informer():  c.ownChanged,
		exported.Informer(): c.exportedChanged,
		members.Informer():  c.memberChanged,
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { handle(nil, object) },
			UpdateFunc: handle,
			DeleteFunc: func(object any) { handle(tombstone.Unwrap(object), nil) },
		})
		if err != nil {
			return nil, err
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

func indexByService(object any) ([]string, error) {
	exported, ok := object.(*clustersetv1alpha1.ExportedService)
	if !ok {
		return nil, fmt.Errorf("%T is no ExportedService", object)
	}
	return []string{exported.Namespace + "/" + exported.Spec.Service}, nil
}

func (c *Controller) enqueue(object metav1.Object) {
	c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
}

func (c *Controller) enqueueExported(object any) {
	exported, ok := object.(*clustersetv1alpha1.ExportedService)
	if !ok {
		return
	}
	if exported.Spec.ClusterSetIP != nil && len(exported.Spec.ClusterSetIP.IPs) > 0 {
		for _, ip := range exported.Spec.ClusterSetIP.IPs { // who else holds it has to look again
			for holder := range c.holders(ip) {
				c.queue.Add(holder)
			}
		}
	}
	if name := exported.Labels[multicluster.ServiceNameLabel]; name != "" {
		c.queue.Add(types.NamespacedName{Namespace: exported.Namespace, Name: name})
	}
}

// enqueueWaiting looks at the exports that wait for something.
func (c *Controller) enqueueWaiting() {
	for _, key := range c.ledger.all() {
		c.queue.Add(key)
	}
}

// memberChanged looks at everything again when this cluster joins or leaves, and
// at what waits when anything else has changed that it may wait for.
func (c *Controller) memberChanged(old, object any) {
	if !sameMember(old, object) {
		c.enqueueWaiting()
	}
	if clusterSetOf(old) == clusterSetOf(object) {
		return
	}
	exports, err := c.exports.List(labels.Everything())
	if err != nil {
		return // listing a cache does not fail
	}
	for _, export := range exports {
		c.enqueue(export)
	}
}

// sameMember says whether nothing has changed but when a member was last seen, which
// does every few seconds, and how much it exports.
func sameMember(old, object any) bool {
	before, had := old.(*clustersetv1alpha1.Member)
	after, has := object.(*clustersetv1alpha1.Member)
	if !had || !has {
		return false
	}
	one, other := before.Status, after.Status
	for _, status := range []*clustersetv1alpha1.MemberStatus{&one, &other} {
		status.LastSeen, status.Exports, status.Endpoints = nil, 0, 0
	}
	return apiequality.Semantic.DeepEqual(one, other)
}

// clusterSetOf is empty for every entry but this cluster's own.
func clusterSetOf(object any) string {
	if entry, ok := object.(*clustersetv1alpha1.Member); ok && entry.Status.State == clustersetv1alpha1.MemberLocal {
		return entry.Name + "/" + entry.Status.ClusterSet + "/" + entry.Status.IDClaimedAt.String()
	}
	return ""
}

// Run works until the context ends. One replica at a time runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "exportstatus"))
	if cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		c.ledger.start(c.clock.Now())
	}
	loop.Run(ctx, c.queue, workers, c.synced, c.sync)
	return nil
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	held, err := c.exports.ServiceExports(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && held.DeletionTimestamp != nil {
		c.ledger.wait(key, false)
		c.release(key, nil)
		return nil
	}
	if err != nil {
		return err
	}
	known, err := c.facts(key)
	if err != nil {
		return err
	}
	serviceExport := held.DeepCopy()
	decided := decision{}
	if offered(serviceExport, known) {
		if decided, err = c.decide(key, serviceExport, known); err != nil {
			return err
		}
	}
	waits := decided.problem != nil || decided.wait > 0
	if waits {
		c.ledger.wait(key, true)
	}
	if decided.wait > 0 {
		c.queue.AddAfter(key, decided.wait)
	}
	c.release(key, decided.ips())
	known.problem = decided.problem
	changed := export.RecordDecision(serviceExport, decided.held, known.joinedAt())
	if apply(&serviceExport.Status.Conditions, conditions(serviceExport, known)) || changed {
		if err := c.write(ctx, held, serviceExport, known); err != nil {
			return err
		}
	}
	if !waits { // only now: until it is written, it may have to be decided again
		c.ledger.wait(key, false)
	}
	return nil
}

// release gives back the addresses that an export does not hold to: others may have
// waited for them.
func (c *Controller) release(key types.NamespacedName, but []string) {
	if c.ledger.release(key, but, c.clock.Now()) {
		c.enqueueWaiting()
	}
}

// write writes the status of an export, and tells people what has changed.
func (c *Controller) write(ctx context.Context, held, serviceExport *multiclusterxv1beta1.ServiceExport, known facts) error {
	if _, err := c.client.MulticlusterXV1beta1().ServiceExports(held.Namespace).UpdateStatus(ctx, serviceExport, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("write the status of a ServiceExport: %w", err)
	}
	for _, event := range events(held.Status.Conditions, serviceExport.Status.Conditions) {
		c.recorder.Eventf(regarding(serviceExport), nil, event.eventType, event.reason, "Export", "%s", note(event.message, known.self))
	}
	return nil
}

// note is the text of an Event, with the cluster's id: Events of many clusters
// may be collected in one place.
func note(message string, self *clustersetv1alpha1.Member) string {
	suffix := ""
	if self != nil {
		suffix = fmt.Sprintf(" (cluster %s)", self.Status.ClusterID)
	}
	return truncate.Bytes(message, maxNote-len(suffix)) + suffix
}

func (c *Controller) facts(key types.NamespacedName) (facts, error) {
	var known facts
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	switch {
	case err == nil:
		known.service = service
	case !apierrors.IsNotFound(err):
		return known, err
	}
	entries, err := c.members.List(labels.Everything())
	if err != nil {
		return known, err
	}
	known.members = entries
	for _, entry := range entries {
		if entry.Status.State == clustersetv1alpha1.MemberLocal {
			known.self = entry
		}
	}
	objects, err := c.exported.ByIndex(byService, key.String())
	for _, object := range objects {
		known.exported = append(known.exported, object.(*clustersetv1alpha1.ExportedService))
	}
	return known, err
}

func regarding(export *multiclusterxv1beta1.ServiceExport) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: multiclusterxv1beta1.SchemeGroupVersion.String(), Kind: "ServiceExport",
		Namespace: export.Namespace, Name: export.Name, UID: export.UID, ResourceVersion: export.ResourceVersion,
	}
}
