// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// applyService creates or updates the derived Service of an import and returns it. It
// returns nil while an existing Service has to be deleted first. If the host refuses
// the Service, it falls back to a form that the host accepts.
func (c *Controller) applyService(ctx context.Context, key types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport) (*corev1.Service, error) {
	existing := c.existingService(key)
	if existing != nil && !isDerived(existing) {
		return nil, fmt.Errorf("name conflict: Service %q is not managed by mcs-controller; delete it so that the derived Service can be created", existing.Name)
	}
	if existing != nil && existing.DeletionTimestamp != nil {
		return nil, nil // its deletion is an event
	}
	if existing != nil && mustReplace(existing, serviceImport) {
		return nil, c.deleteService(ctx, existing)
	}
	form := c.variantFor(key, serviceImport, existing)
	for {
		form.distribution = distributionFor(serviceImport.Spec.TrafficDistribution, c.refusals.distribution)
		desired := desiredService(existing, serviceImport, form)
		service, err := c.writeService(ctx, key, existing, desired)
		if err == nil {
			if form.distribution.problem != "" {
				c.queue.AddAfter(key, retryRefused)
			}
			return c.applyIngress(ctx, service, form)
		}
		if value := desired.Spec.TrafficDistribution; value != nil && refusesDistribution(err) {
			c.refusals.refuseDistribution(*value)
			continue
		}
		instead, found := form.fallback(err)
		if !found {
			return nil, err
		}
		c.refusals.refuseAddresses(key, form.ips, instead)
		c.queue.AddAfter(key, retryRefused)
		form = instead
	}
}

// writeService creates or updates a Service if it differs.
func (c *Controller) writeService(ctx context.Context, key types.NamespacedName, existing, desired *corev1.Service) (*corev1.Service, error) {
	switch {
	case existing == nil:
		return c.createService(ctx, key, desired)
	case sameService(existing, desired):
		return existing, nil
	}
	updated, err := c.client.CoreV1().Services(key.Namespace).Update(ctx, desired, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update derived Service: %w", err)
	}
	return updated, nil
}

// reclaimTime is how long a recreated Service tries to get its former cluster IPs
// back. The host releases them a moment after their Service is deleted.
const reclaimTime = 10 * time.Second

// createService creates a Service with its former cluster IPs, if it had any and no
// other Service has them now.
func (c *Controller) createService(ctx context.Context, key types.NamespacedName, desired *corev1.Service) (*corev1.Service, error) {
	client := c.client.CoreV1().Services(key.Namespace)
	c.mu.Lock()
	had := c.addresses[key]
	c.mu.Unlock()
	if len(had.ips) > 0 && desired.Spec.ClusterIP != corev1.ClusterIPNone {
		same := desired.DeepCopy()
		same.Spec.ClusterIP, same.Spec.ClusterIPs, same.Spec.IPFamilies = had.ips[0], had.ips, had.families
		var created *corev1.Service
		err := c.checkReleased(ctx, had.ips)
		if err == nil {
			created, err = client.Create(ctx, same, metav1.CreateOptions{})
		}
		addressesRefused := errors.Is(err, errNotReleased) || apierrors.IsInvalid(err) && !refusesDistribution(err)
		if !addressesRefused || !c.giveUp(key) {
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

// applySlices creates, updates and deletes the imported EndpointSlices of an import.
// It writes only those that differ.
func (c *Controller) applySlices(ctx context.Context, key types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport, service *corev1.Service, exporters []exporter) error {
	existing := c.existingSlices(key)
	desired := desiredSlices(serviceImport, service, exporters, existing)
	client := c.client.DiscoveryV1().EndpointSlices(key.Namespace)
	var errs []error
	for name, slice := range desired {
		held, exists := existing[name]
		switch {
		case !exists:
			_, err := client.Create(ctx, slice, metav1.CreateOptions{})
			errs = append(errs, err)
		case held.AddressType != slice.AddressType:
			errs = append(errs, c.deleteSlice(ctx, held)) // the event of the deletion creates it again
		default:
			if updated := updatedSlice(held, slice); !sameSlice(held, updated) {
				_, err := client.Update(ctx, updated, metav1.UpdateOptions{})
				errs = append(errs, err)
			}
		}
	}
	for name, slice := range existing {
		if desired[name] == nil {
			errs = append(errs, c.deleteSlice(ctx, slice))
		}
	}
	return joinErrors(errs)
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
