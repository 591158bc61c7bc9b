// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memberrefusals reports in Events what is refused of members, and what is
// suspicious about them. An Event is seen by those who watch a namespace, and not only
// by those who look at a Member.
package memberrefusals

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// interval is the minimum time between two Events about the same member with the same
// reason: what is refused changes as often as the member likes.
const interval = 10 * time.Minute

// Controller reports what is refused of members.
type Controller struct {
	clock    clock.PassiveClock
	recorder events.EventRecorder
	queue    loop.Queue
	handlers loop.Handlers
	members  clustersetlisters.MemberLister
	secrets  corev1listers.SecretLister
	// reported are the last Events by member and reason. Only the worker uses it.
	reported map[string]map[string]report
}

// Reasons of Events.
const (
	reasonRefused     = "ExportsRefused"
	reasonNotAssigned = "AllocationCIDRsRefused"
	reasonBackdated   = "ExportsBackdated"
)

// warnings are what is reported: the reason of the Event, and the condition of the Member
// with its reasons.
var warnings = []struct {
	event, condition string
	reasons          []string
}{
	{reasonRefused, clusterset.MemberSynced, []string{clusterset.ReasonInvalidObjects, clusterset.ReasonTooManyExports, clusterset.ReasonResponseTooLarge}},
	{reasonNotAssigned, clusterset.MemberClusterSetIP, []string{clusterset.ReasonNotAssigned}},
	{reasonBackdated, clusterset.MemberExportAges, []string{clusterset.ReasonBackdated}},
}

// report is what was last reported about a member.
type report struct {
	at      time.Time
	message string
}

// New returns a controller. secrets are the member Secrets, which Events refer to.
func New(clock clock.PassiveClock, recorder events.EventRecorder, own mcsinformers.SharedInformerFactory, secrets coreinformers.SecretInformer) *Controller {
	members := own.ClusterSet().V1alpha1().Members()
	c := &Controller{
		clock: clock, recorder: recorder, queue: loop.NewQueue("memberrefusals"),
		members: members.Lister(), secrets: secrets.Lister(), reported: map[string]map[string]report{},
	}
	c.handlers = loop.Handlers{
		members.Informer(): loop.OnChange(func(object metav1.Object) { c.queue.Add(types.NamespacedName{Name: object.GetName()}) }),
	}
	return c
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "memberrefusals"))
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) sync(_ context.Context, key types.NamespacedName) error {
	entry, err := c.members.Get(key.Name)
	if apierrors.IsNotFound(err) {
		delete(c.reported, key.Name)
		return nil
	}
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		if message := problem(entry, warning.condition, warning.reasons); message != "" {
			if err := c.report(entry, warning.event, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// report reports a problem of a member in an Event, unless that was done or is too early.
func (c *Controller) report(entry *clustersetv1alpha1.Member, reason, message string) error {
	last := c.reported[entry.Name][reason]
	if message == last.message {
		return nil
	}
	if wait := last.at.Add(interval).Sub(c.clock.Now()); wait > 0 {
		c.queue.AddAfter(types.NamespacedName{Name: entry.Name}, wait)
		return nil
	}
	found, err := secret.ByUID(c.secrets, entry.UID)
	if found == nil || err != nil {
		return err // of a cluster that a hub relays
	}
	if c.reported[entry.Name] == nil {
		c.reported[entry.Name] = map[string]report{}
	}
	c.reported[entry.Name][reason] = report{c.clock.Now(), message}
	c.recorder.Eventf(found, nil, corev1.EventTypeWarning, reason, "Import", "%s", truncate.Bytes("Member "+entry.Name+": "+message, truncate.MaxEventNote))
	return nil
}

// problem returns the message of a condition that is False for one of some reasons, an
// empty string if it is not.
func problem(entry *clustersetv1alpha1.Member, conditionType string, reasons []string) string {
	condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType)
	if condition == nil || condition.Status != metav1.ConditionFalse || !slices.Contains(reasons, condition.Reason) {
		return ""
	}
	return condition.Message
}
