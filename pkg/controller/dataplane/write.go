// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// applyService creates or updates the derived Service of an import. If the host refuses
// the Service, it falls back to a form that the host accepts.
func (c *Controller) applyService(ctx context.Context, name types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport) error {
	existing := c.existingService(name)
	if existing != nil && !isDerived(existing) {
		return fmt.Errorf("name conflict: Service %q is not managed by mcs-controller; delete it so that the derived Service can be created", existing.Name)
	}
	if existing != nil && !isDerivedFrom(existing, name.Name) {
		return fmt.Errorf("name conflict: Service %q is derived from ServiceImport %q, which keeps it; withdraw that one, or export the Service with another name",
			existing.Name, existing.Labels[multicluster.ServiceNameLabel])
	}
	if existing != nil && existing.DeletionTimestamp != nil {
		return nil
	}
	if existing != nil && !isChanging(existing) && c.postponeAnyOutdated(name) {
		return nil // it may have been changed because of an export that is newer
	}
	if len(wantedIPs(serviceImport)) > 0 && !hasHealthPort(existing) && len(c.exporters(name)) == 0 {
		return nil // it is not known who gets a health check node port; the event of the export follows
	}
	if c.awaitLabels(name, existing != nil && mustChangeType(existing, serviceImport) && !headless(serviceImport)) {
		return nil
	}
	form := c.variantFor(name, serviceImport, existing)
	form.distribution = distributionFor(serviceImport.Spec.TrafficDistribution, c.refusals.distribution)
	form.notes = c.preferenceNotes(serviceImport, existing)
	c.tiers.setIneffective(name, form.notes.ineffective)
	if form.policy != corev1.ServiceExternalTrafficPolicyLocal {
		c.healthPorts.release(name)
	}
	c.contributions.observe(name, c.versionsOf(name))
	if !upToDate(existing, serviceImport, form) && (!c.affordableService(name, desiredService(existing, serviceImport, form)) || !c.mayWrite(ofService(name))) {
		return nil
	}
	c.contributions.written(name)
	c.volume.End(ofService(name)) // it was its turn, or it has nothing to write
	if existing != nil && mustChangeType(existing, serviceImport) {
		var err error
		if existing, err = c.beginTypeChange(ctx, existing, serviceImport); err != nil || existing == nil {
			return err
		}
	}
	for {
		form.distribution = distributionFor(serviceImport.Spec.TrafficDistribution, c.refusals.distribution)
		form.notes = c.preferenceNotes(serviceImport, existing)
		desired := desiredService(existing, serviceImport, form)
		service, err := c.writeService(ctx, name, existing, desired)
		if err == nil {
			c.rememberAddresses(name, service) // it may be gone from the cache before its events are handled
			if form.distribution.problem != "" {
				c.queue.AddAfter(ofService(name), retryRefused)
			}
			if err = c.applyIngress(ctx, service, form); err == nil {
				return nil
			}
			existing = service
		}
		if value := desired.Spec.TrafficDistribution; value != nil && refusesDistribution(err) {
			c.refusals.refuseDistribution(*value)
			continue
		}
		instead, found := form.fallback(err)
		if !found {
			return err
		}
		c.refusals.refuseAddresses(name, form.ips, instead)
		c.queue.AddAfter(ofService(name), retryRefused)
		c.healthPorts.release(name)
		form = instead
	}
}

// upToDate reports whether there is a derived Service that has the desired form.
func upToDate(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport, form variant) bool {
	return existing != nil && !mustChangeType(existing, serviceImport) && sameService(existing, desiredService(existing, serviceImport, form)) &&
		apiequality.Semantic.DeepEqual(existing.Status.LoadBalancer, form.ingress())
}

// writeService creates or updates a Service if it differs.
func (c *Controller) writeService(ctx context.Context, key types.NamespacedName, existing, desired *corev1.Service) (*corev1.Service, error) {
	switch {
	case existing == nil:
		return c.createService(ctx, key, desired)
	case sameService(existing, desired):
		return existing, nil
	}
	if len(desired.Spec.Ports) > usualPorts {
		c.manyPorts.Lock() // several at once would take all processors of the host
		defer c.manyPorts.Unlock()
	}
	if former := c.withFormerIPs(key, desired); former != nil && isChanging(existing) && c.checkReleased(ctx, former.Spec.ClusterIPs) == nil {
		updated, err := c.updateService(ctx, former)
		if !refusesAddresses(err) {
			return updated, err
		}
	}
	return c.updateService(ctx, desired)
}

func (c *Controller) updateService(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	updated, err := c.client.CoreV1().Services(service.Namespace).Update(ctx, service, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update derived Service: %w", err)
	}
	return updated, nil
}

// refusesAddresses reports whether an error may mean that cluster IPs are not available.
func refusesAddresses(err error) bool { return apierrors.IsInvalid(err) && !refusesDistribution(err) }

// withFormerIPs returns a derived Service with its former cluster IPs, or nil if it had none.
func (c *Controller) withFormerIPs(key types.NamespacedName, desired *corev1.Service) *corev1.Service {
	c.mu.Lock()
	had := c.addresses[key]
	c.mu.Unlock()
	if len(had.ips) == 0 || desired.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	same := desired.DeepCopy()
	same.Spec.ClusterIP, same.Spec.ClusterIPs, same.Spec.IPFamilies = had.ips[0], had.ips, had.families
	return same
}

// reclaimTime is how long a recreated Service tries to get its former cluster IPs
// back. The host releases them a moment after their Service is deleted.
const reclaimTime = 10 * time.Second

// createService creates a Service with its former cluster IPs, if it had any and no
// other Service has them now.
func (c *Controller) createService(ctx context.Context, key types.NamespacedName, desired *corev1.Service) (*corev1.Service, error) {
	client := c.client.CoreV1().Services(key.Namespace)
	if same := c.withFormerIPs(key, desired); same != nil {
		var created *corev1.Service
		err := c.checkReleased(ctx, same.Spec.ClusterIPs)
		if err == nil {
			created, err = client.Create(ctx, same, metav1.CreateOptions{})
		}
		if !errors.Is(err, errNotReleased) && !refusesAddresses(err) || !c.giveUp(key) {
			return created, creationError(err)
		}
	}
	created, err := client.Create(ctx, desired, metav1.CreateOptions{})
	return created, creationError(err)
}

var errNotReleased = errors.New("cluster IP has not been released yet")

// checkReleased returns an error while the host has not released all of the given
// cluster IPs. It releases them one by one, and a Service that is created in between
// would leave one of them allocated for minutes.
func (c *Controller) checkReleased(ctx context.Context, ips []string) error {
	for _, ip := range ips {
		_, err := c.client.NetworkingV1().IPAddresses().Get(ctx, ip, metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s", errNotReleased, ip)
		case !apierrors.IsNotFound(err): // also the answer of a host without this API
			return err
		}
	}
	return nil
}

// giveUp reports whether the former cluster IPs of a derived Service have been
// refused for longer than reclaimTime.
func (c *Controller) giveUp(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, now := c.addresses[key], c.clock.Now()
	if had.refused.IsZero() {
		had.refused = now
		c.addresses[key] = had
	}
	return now.Sub(had.refused) >= reclaimTime
}

func creationError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("create derived Service: %w", err)
}

func (c *Controller) deleteService(ctx context.Context, service *corev1.Service) error {
	err := c.client.CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &service.UID}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // conflict: another Service has the name by now
	}
	return fmt.Errorf("delete derived Service: %w", err)
}

// maxWrites is how many EndpointSlices of a key are written before other keys get
// their turn, and turnPause how long the cache gets to follow before the next turn.
const (
	maxWrites = 100
	turnPause = 100 * time.Millisecond
)

// applySlices creates, updates and deletes the EndpointSlices that are imported from
// one cluster. It writes only those that differ. exporter is nil if there should be
// none.
func (c *Controller) applySlices(ctx context.Context, key key, serviceImport *multiclusterxv1beta1.ServiceImport, service *corev1.Service, exporter *exporter) error {
	if !c.isDue(key) {
		return nil // nothing is computed that cannot be written
	}
	existing := c.existingSlices(key.NamespacedName)
	desired := map[string]*discoveryv1.EndpointSlice{}
	if exporter != nil {
		desired = desiredSlices(serviceImport, service, *exporter, existing)
	}
	changes := sliceChanges(key.cluster, desired, existing)
	if isChanging(service) { // it does not show which IP families this cluster supports
		changes = slices.DeleteFunc(changes, func(change sliceChange) bool { return change.verb == createSlice || change.verb == replaceSlice })
	}
	if exporter != nil && exporter.answering == nil { // a preference depends on what the cache shows
		c.echoes.expect(key, changes)
	}
	return c.writeSlices(ctx, key, changes)
}

// writeSlices writes as much as is affordable.
func (c *Controller) writeSlices(ctx context.Context, key key, changes []sliceChange) error {
	all := len(changes)
	changes = c.affordable(key, changes[:min(all, maxWrites)])
	if len(changes) == 0 || !c.mayWrite(key) {
		return nil
	}
	if len(changes) == maxWrites && all > maxWrites {
		c.queue.AddAfter(key, turnPause)
	}
	c.endTurns(key, changes)
	errs := make([]error, 0, len(changes))
	for _, change := range changes {
		errs = append(errs, c.writeSlice(ctx, change))
	}
	return joinErrors(errs)
}

func (c *Controller) writeSlice(ctx context.Context, change sliceChange) error {
	client := c.client.DiscoveryV1().EndpointSlices(change.slice.Namespace)
	var err error
	switch change.verb {
	case createSlice, replaceSlice:
		_, err = client.Create(ctx, change.slice, metav1.CreateOptions{})
	case updateSlice:
		var updated *discoveryv1.EndpointSlice
		if updated, err = client.Update(ctx, change.slice, metav1.UpdateOptions{}); err == nil {
			c.written.Mutation(updated)
		}
	case deleteSlice:
		err = c.deleteSlice(ctx, change.slice)
	case retireSlice:
		err = c.retireSlice(ctx, change)
	}
	return err
}

// retireSlice deletes a slice if those that replace it exist. The cache may have some of them
// that were deleted meanwhile; the event of their deletion creates them again.
func (c *Controller) retireSlice(ctx context.Context, change sliceChange) error {
	for _, name := range change.replacedBy {
		_, err := c.client.DiscoveryV1().EndpointSlices(change.slice.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("confirm that imported EndpointSlice %q exists, which replaces %q: %w", name, change.slice.Name, err)
		}
	}
	return c.deleteSlice(ctx, change.slice)
}

// joinErrors joins errors. If all of them show that the cache lags behind, it
// returns the first, which the loop retries quietly.
func joinErrors(errs []error) error {
	for _, err := range errs {
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("apply imported EndpointSlices: %w", errors.Join(errs...))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) deleteSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	err := c.client.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete imported EndpointSlice: %w", err)
}
