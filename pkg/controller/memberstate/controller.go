// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memberstate reports in Events on the member Secret when a member becomes silent,
// and when it responds again.
package memberstate

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coordinationv1listers "k8s.io/client-go/listers/coordination/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	// interval is the minimum time between two Events about a member. The state that it has
	// afterwards is reported, those in between are not.
	interval = 10 * time.Second
	// writeTimeout limits one write: the other members wait for it.
	writeTimeout = 5 * time.Second
)

// Reasons of Events.
const (
	reasonConnected   = "MemberConnected"
	reasonUnavailable = "MemberUnavailable"
	reasonStale       = "MemberStale"
	reasonLost        = "MemberLost"
)

// Controller reports the states of members.
type Controller struct {
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	client    coordinationv1client.LeasesGetter
	namespace string
	queue     loop.Queue
	handlers  loop.Handlers
	members   clustersetlisters.MemberLister
	secrets   corev1listers.SecretLister
	leases    coordinationv1listers.LeaseLister
	// reported are the states that were last reported, by member. Only the worker uses it.
	reported map[string]report
}

// report is what was last reported about a member.
type report struct {
	at    time.Time
	state clustersetv1alpha1.MemberState
}

// New returns a controller. secrets are the member Secrets, which Events refer to. What was
// reported is recorded in the Leases of members in a namespace, which installed is a factory
// for.
func New(client coordinationv1client.LeasesGetter, clock clock.PassiveClock, recorder events.EventRecorder, namespace string, installed informers.SharedInformerFactory,
	own mcsinformers.SharedInformerFactory, secrets coreinformers.SecretInformer,
) *Controller {
	members, leases := own.ClusterSet().V1alpha1().Members(), installed.Coordination().V1().Leases()
	c := &Controller{
		clock: clock, recorder: recorder, client: client, namespace: namespace, queue: loop.NewQueue("memberstate"),
		members: members.Lister(), secrets: secrets.Lister(), leases: leases.Lister(), reported: map[string]report{},
	}
	c.handlers = loop.Handlers{
		members.Informer(): loop.OnChange(func(object metav1.Object) { c.queue.Add(types.NamespacedName{Name: object.GetName()}) }),
		leases.Informer():  loop.OnChange(c.leaseChanged),
	}
	return c
}

func (c *Controller) leaseChanged(object metav1.Object) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		if seen, ok := sighting.FromLease(lease); ok {
			c.queue.Add(types.NamespacedName{Name: seen.Member})
		}
	}
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "memberstate"))
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	entry, err := c.members.Get(key.Name)
	if apierrors.IsNotFound(err) {
		delete(c.reported, key.Name)
		return nil
	}
	if err != nil {
		return err
	}
	lease, err := c.leases.Leases(c.namespace).Get(sighting.LeaseName(key.Name))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	last, known := c.reported[key.Name]
	if !known {
		last.state = recorded(lease)
	}
	if event := eventFor(last.state, entry); event.reason != "" {
		if wait := last.at.Add(interval).Sub(c.clock.Now()); wait > 0 {
			c.queue.AddAfter(key, wait)
			return nil
		}
		found, err := secret.ByUID(c.secrets, entry.UID)
		if found == nil || err != nil {
			return err // of a cluster that a hub relays
		}
		c.recorder.Eventf(found, nil, event.kind, event.reason, "Read", "%s", truncate.Bytes(event.note, truncate.MaxEventNote))
		last = report{c.clock.Now(), entry.Status.State}
	} else if last.state == "" && entry.Status.State == clustersetv1alpha1.MemberConnected {
		last.state = entry.Status.State // nothing to report, but what follows is
	}
	if last.state == "" {
		return nil
	}
	c.reported[key.Name] = last
	return c.record(ctx, lease, last.state)
}

// recorded returns the state of a member that an earlier leader reported, empty if there is
// none. The Lease is nil if the member was never seen.
func recorded(lease *coordinationv1.Lease) clustersetv1alpha1.MemberState {
	if lease == nil {
		return ""
	}
	return clustersetv1alpha1.MemberState(lease.Annotations[clusterset.ReportedStateAnnotation])
}

// record records the state that was reported, for later leaders: that a member responds again
// is reported also if it does while there is none. A member that was always connected needs
// no record.
func (c *Controller) record(ctx context.Context, lease *coordinationv1.Lease, state clustersetv1alpha1.MemberState) error {
	if before := recorded(lease); lease == nil || before == state || before == "" && state == clustersetv1alpha1.MemberConnected {
		return nil
	}
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, clusterset.ReportedStateAnnotation, string(state))
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := c.client.Leases(c.namespace).Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // a changed Lease is enqueued
		return fmt.Errorf("record reported state of member: %w", err)
	}
	return nil
}

// event is what is reported about a member; without a reason, that is nothing.
type event struct{ kind, reason, note string }

// eventFor returns what is to be reported about a member whose state was another before,
// empty if none was reported. That it is connected is reported only if it was not before.
func eventFor(before clustersetv1alpha1.MemberState, entry *clustersetv1alpha1.Member) event {
	status := &entry.Status
	if status.State == before {
		return event{}
	}
	switch status.State {
	case clustersetv1alpha1.MemberConnected:
		if before == "" {
			return event{}
		}
		return event{corev1.EventTypeNormal, reasonConnected, fmt.Sprintf("Member %s responds again", entry.Name)}
	case clustersetv1alpha1.MemberUnavailable:
		return event{corev1.EventTypeWarning, reasonUnavailable, note(entry, "its Kubernetes API responds, but mcs-apiserver there does not")}
	case clustersetv1alpha1.MemberStale:
		return event{corev1.EventTypeWarning, reasonStale, note(entry, "it is silent")}
	case clustersetv1alpha1.MemberLost:
		return event{corev1.EventTypeWarning, reasonLost, note(entry, "it has been silent for its TTL, and its endpoints do not answer or cannot be asked")}
	}
	return event{}
}

// note describes a silent member: what happened, why, and what was found about its
// endpoints.
func note(entry *clustersetv1alpha1.Member, what string) string {
	text := fmt.Sprintf("Member %s: %s", entry.Name, what)
	if entry.Status.LastSeen != nil {
		text += ", last seen " + entry.Status.LastSeen.UTC().Format(time.RFC3339)
	}
	for _, conditionType := range []string{clusterset.MemberReachable, clusterset.MemberEndpointsReachable} {
		if condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType); condition != nil && condition.Reason != "Reachable" {
			text += "; " + condition.Message
		}
	}
	return text
}
