// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory shows the members of the ClusterSet, this cluster included, as
// ClusterProfiles in the namespace of the installation, for tools that find clusters by the
// Cluster Inventory API. They are stored, not computed: other cluster managers store
// ClusterProfiles, and the resourceVersions of stored and computed objects do not compare.
package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

const (
	// settleTime is how long a Member has to be missing until its profile is deleted: the
	// members that a hub relays arrive after the hub itself.
	settleTime = 5 * time.Second
	// writeTimeout limits the writes for one member: the other members wait for them.
	writeTimeout = 10 * time.Second
)

// namespaceKey is the key of the namespace, and everythingKey that of all profiles. All others
// have the name of a profile only.
var (
	namespaceKey  = types.NamespacedName{Namespace: "namespace"}
	everythingKey = types.NamespacedName{Namespace: "everything"}
)

// Controller writes the ClusterProfiles of members.
type Controller struct {
	host      typedcorev1.NamespacesGetter
	client    versioned.Interface
	clock     clock.PassiveClock
	namespace string
	queue     loop.Queue
	handlers  loop.Handlers
	members   clustersetlisters.MemberLister
	profiles  multiclusterxlisters.ClusterProfileLister
	// missing is which profiles have no Member. Only the worker uses it.
	missing map[string]absence
	// versions are those that members report and that are not shown yet. Only the worker uses it.
	versions map[string]reported
	// writes limits how often a profile is written, by its name, and relayed how many are
	// created and deleted, by hub.
	writes, relayed *pace.Limiter[string]
}

// New returns a controller. own is the informer factory of the mcs-apiserver API, and
// installed that of the same API in the namespace of the installation.
func New(host typedcorev1.NamespacesGetter, client versioned.Interface, clock clock.PassiveClock, namespace string, own, installed mcsinformers.SharedInformerFactory) *Controller {
	members, profiles := own.ClusterSet().V1alpha1().Members(), installed.MulticlusterX().V1alpha1().ClusterProfiles()
	c := &Controller{
		host: host, client: client, clock: clock, namespace: namespace,
		members: members.Lister(), profiles: profiles.Lister(), missing: map[string]absence{}, versions: map[string]reported{},
		writes: pace.New[string](clock, writeInterval, 1), relayed: pace.New[string](clock, time.Second/relayedRate, relayedBurst),
	}
	c.queue = loop.NewFairQueue("inventory", 1, c.source)
	c.handlers = loop.Handlers{
		members.Informer():  loop.OnTransition(c.memberChanged),
		profiles.Informer(): loop.OnChange(c.enqueue),
	}
	return c
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "inventory"))
	c.queue.Add(namespaceKey) // without any Member there is no event
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) enqueue(object metav1.Object) {
	c.queue.Add(types.NamespacedName{Name: object.GetName()})
}

// memberChanged enqueues a member, and soon everything if this cluster joined or left a
// ClusterSet, or a member that may be a hub responds again or is gone.
func (c *Controller) memberChanged(old, object any) {
	before, after := stateOf(old), stateOf(object)
	for _, state := range []any{old, object} {
		if entry, ok := state.(*clustersetv1alpha1.Member); ok {
			c.enqueue(entry)
		}
	}
	if before == after {
		return
	}
	c.queue.AddAfter(everythingKey, gathering) // does not postpone what was added before
}

// memberState is what the profiles of other members depend on.
type memberState struct {
	state           clustersetv1alpha1.MemberState
	localClusterSet string
}

func stateOf(object any) memberState {
	entry, ok := object.(*clustersetv1alpha1.Member)
	if !ok {
		return memberState{}
	}
	if entry.Status.State == clustersetv1alpha1.MemberLocal {
		return memberState{entry.Status.State, entry.Status.ClusterSet}
	}
	return memberState{state: entry.Status.State}
}

// names returns the names of all Members and profiles.
func (c *Controller) names() []string {
	members, err := c.members.List(labels.Everything())
	if err != nil {
		return nil // unreachable: listing a cache does not fail
	}
	profiles, err := c.profiles.ClusterProfiles(c.namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	var names []string
	for _, member := range members {
		names = append(names, member.Name)
	}
	for _, profile := range profiles {
		names = append(names, profile.Name)
	}
	return names
}

// clusterSet returns the ClusterSet of this cluster, empty if it is in none.
func (c *Controller) clusterSet() (string, error) {
	members, err := c.members.List(labels.Everything())
	if err != nil {
		return "", err
	}
	for _, member := range members {
		if member.Status.State == clustersetv1alpha1.MemberLocal {
			return member.Status.ClusterSet, nil
		}
	}
	return "", nil
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	if key == everythingKey {
		c.queue.Add(namespaceKey)
		for _, name := range c.names() {
			c.queue.Add(types.NamespacedName{Name: name})
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	clusterSet, err := c.clusterSet()
	if err != nil {
		return err
	}
	if key == namespaceKey {
		return c.label(ctx, clusterSet)
	}
	existing, err := c.profiles.ClusterProfiles(c.namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		existing, err = nil, nil
	}
	if err != nil {
		return err
	}
	entry, err := c.members.Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && entry.Status.ClusterID != key.Name { // an entry of another Secret for a cluster
		entry, err = nil, nil
	}
	if err != nil {
		return err
	}
	switch {
	case entry != nil && isShown(entry, clusterSet, existing != nil):
		delete(c.missing, key.Name)
		return c.show(ctx, entry, existing)
	case existing == nil || !isOurs(existing) || existing.DeletionTimestamp != nil:
		delete(c.missing, key.Name)
		return nil
	}
	if entry == nil && clusterSet != "" {
		expected := c.isExpected(existing)
		switch {
		case !c.settled(key, expected):
			return nil
		case expected:
			return c.report(ctx, existing, health(clustersetv1alpha1.MemberConnecting))
		}
	}
	return c.hide(ctx, existing)
}

// absence is since when a profile has no Member, and whether the Member may come back.
type absence struct {
	since    time.Time
	expected bool
}

// settled reports whether the Member of a profile has been missing long enough, since it is
// expected to come back or since it is not; otherwise, it is looked for again. A hub that is silent
// for long may be read again before the clusters that it relays are.
func (c *Controller) settled(key types.NamespacedName, expected bool) bool {
	missing, known := c.missing[key.Name]
	if !known || missing.expected != expected {
		missing = absence{c.clock.Now(), expected}
		c.missing[key.Name] = missing
	}
	wait := missing.since.Add(settleTime).Sub(c.clock.Now())
	if wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	return wait <= 0
}

// isExpected reports whether the Member of a profile may come back: that of a relayed cluster
// is missing after a restart until its hub was read.
func (c *Controller) isExpected(profile *multiclusterxv1alpha1.ClusterProfile) bool {
	hub, err := c.members.Get(profile.Annotations[clusterset.RelayedByAnnotation])
	return err == nil && hub.Status.State != clustersetv1alpha1.MemberConnected && hub.Status.State != clustersetv1alpha1.MemberRefused
}

// report sets a condition of a profile, and changes nothing else.
func (c *Controller) report(ctx context.Context, existing *multiclusterxv1alpha1.ClusterProfile, condition metav1.Condition) error {
	profile := existing.DeepCopy()
	condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
	if !meta.SetStatusCondition(&profile.Status.Conditions, condition) || !c.mayWrite(profile.Name) {
		return nil
	}
	return c.updateStatus(ctx, profile)
}

func (c *Controller) updateStatus(ctx context.Context, profile *multiclusterxv1alpha1.ClusterProfile) error {
	if _, err := c.client.MulticlusterXV1alpha1().ClusterProfiles(c.namespace).UpdateStatus(ctx, profile, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of ClusterProfile of member %s: %w", profile.Name, err)
	}
	return nil
}

// show creates or updates the profile of a member.
func (c *Controller) show(ctx context.Context, entry *clustersetv1alpha1.Member, existing *multiclusterxv1alpha1.ClusterProfile) error {
	if existing != nil && !isOurs(existing) {
		return foreign(existing)
	}
	api := c.client.MulticlusterXV1alpha1().ClusterProfiles(c.namespace)
	profile := desired(entry, existing, c.namespace, metav1.NewTime(c.clock.Now()))
	profile.Status.Version.Kubernetes = c.version(entry.Name, profile.Status.Version.Kubernetes, entry.Status.KubernetesVersion)
	if existing != nil && sameObject(existing, profile) && sameStatus(existing, profile) {
		return nil
	}
	if existing == nil && !c.mayReplace(entry.Name) || !c.mayWrite(entry.Name) {
		return nil
	}
	written := existing
	var err error
	switch {
	case existing == nil:
		if written, err = api.Create(ctx, profile, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create ClusterProfile of member %s: %w", entry.Name, err)
		}
		klog.FromContext(ctx).Info("Created ClusterProfile of member", "cluster", entry.Name)
	case !sameObject(existing, profile):
		if written, err = api.Update(ctx, profile, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update ClusterProfile of member %s: %w", entry.Name, err)
		}
	}
	profile.ResourceVersion = written.ResourceVersion
	if sameStatus(written, profile) {
		return nil
	}
	return c.updateStatus(ctx, profile)
}

// hide deletes a profile.
func (c *Controller) hide(ctx context.Context, profile *multiclusterxv1alpha1.ClusterProfile) error {
	if !c.mayReplace(profile.Name) {
		return nil
	}
	err := c.client.MulticlusterXV1alpha1().ClusterProfiles(c.namespace).Delete(ctx, profile.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(profile.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ClusterProfile of former member %s: %w", profile.Name, err)
	}
	delete(c.missing, profile.Name)
	delete(c.versions, profile.Name)
	klog.FromContext(ctx).Info("Deleted ClusterProfile of former member", "cluster", profile.Name)
	return nil
}

// label sets the label of the namespace that says of which ClusterSet the profiles in it
// are. A name that cannot be the value of a label is left out.
func (c *Controller) label(ctx context.Context, clusterSet string) error {
	if len(validation.IsValidLabelValue(clusterSet)) > 0 {
		clusterSet = ""
	}
	namespace, err := c.host.Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get namespace of ClusterProfiles: %w", err)
	}
	if namespace.Labels[inventory.ClusterSetLabel] == clusterSet {
		return nil
	}
	var value *string // null removes the label
	if clusterSet != "" {
		value = &clusterSet
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]*string{inventory.ClusterSetLabel: value}}})
	if err != nil {
		return err
	}
	if _, err := c.host.Namespaces().Patch(ctx, c.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label namespace of ClusterProfiles with the ClusterSet: %w", err)
	}
	return nil
}
