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

// applyService makes the Service of an import be as it should, and returns it:
// nil while it has to go before it can come back.
func (c *Controller) applyService(ctx context.Context, key types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport) (*corev1.Service, error) {
	existing := c.existingService(key)
	if existing != nil && !ours(existing) {
		return nil, fmt.Errorf("service %q is in the way of the one that stands for an import, and was not made by mcs-controller: delete it", existing.Name)
	}
	if existing != nil && existing.DeletionTimestamp != nil {
		return nil, nil // its end will be noticed
	}
	if existing != nil && mustReplace(existing, serviceImport) {
		return nil, c.deleteService(ctx, existing)
	}
	wanted := c.variantFor(key, serviceImport, existing)
	for {
		service, err := c.writeService(ctx, key, existing, desiredService(existing, serviceImport, wanted))
		if err == nil {
			return c.applyIngress(ctx, service, wanted)
		}
		instead, other := wanted.nextBest(err)
		if !other {
			return nil, err
		}
		c.refuse(key, wanted.ips, instead)
		wanted = instead
	}
}

// writeService creates or updates a Service, unless it is as it should be.
func (c *Controller) writeService(ctx context.Context, key types.NamespacedName, existing, desired *corev1.Service) (*corev1.Service, error) {
	switch {
	case existing == nil:
		return c.createService(ctx, key, desired)
	case sameService(existing, desired):
		return existing, nil
	}
	updated, err := c.client.CoreV1().Services(key.Namespace).Update(ctx, desired, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update the Service that stands for an import: %w", err)
	}
	return updated, nil
}

// reclaimTime is how long addresses that were in use are asked for again. The
// cluster frees them a moment after their Service is gone.
const reclaimTime = 10 * time.Second

// createService makes a Service, with the addresses that it had before if it
// had any, unless somebody else has them now.
func (c *Controller) createService(ctx context.Context, key types.NamespacedName, desired *corev1.Service) (*corev1.Service, error) {
	client := c.client.CoreV1().Services(key.Namespace)
	c.mu.Lock()
	had := c.addresses[key]
	c.mu.Unlock()
	if len(had.ips) > 0 && desired.Spec.ClusterIP != corev1.ClusterIPNone {
		same := desired.DeepCopy()
		same.Spec.ClusterIP, same.Spec.ClusterIPs, same.Spec.IPFamilies = had.ips[0], had.ips, had.families
		var created *corev1.Service
		err := c.free(ctx, had.ips)
		if err == nil {
			created, err = client.Create(ctx, same, metav1.CreateOptions{})
		}
		if !apierrors.IsInvalid(err) && !errors.Is(err, errInUse) || !c.giveUp(key) {
			return created, described(err)
		}
	}
	created, err := client.Create(ctx, desired, metav1.CreateOptions{})
	return created, described(err)
}

var errInUse = errors.New("an address of an import has not been freed yet")

// free says whether the cluster has freed addresses. It does so one by one, and
// a Service that is created in between would leave one of them in use for minutes.
func (c *Controller) free(ctx context.Context, ips []string) error {
	for _, ip := range ips {
		_, err := c.client.NetworkingV1().IPAddresses().Get(ctx, ip, metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s", errInUse, ip)
		case !apierrors.IsNotFound(err): // a cluster without this API says so too
			return err
		}
	}
	return nil
}

// giveUp says whether the addresses that an import had were refused for so
// long that there is no hope to have them back.
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

func described(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("create the Service that stands for an import: %w", err)
}

func (c *Controller) deleteService(ctx context.Context, service *corev1.Service) error {
	err := c.client.CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &service.UID}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // conflict: it is another one already
	}
	return fmt.Errorf("delete the Service that stood for an import: %w", err)
}

// applySlices makes the slices of an import be as they should, with a write
// for each that differs and none for the others.
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
			errs = append(errs, c.deleteSlice(ctx, held)) // and is made anew when that is noticed
		default:
			if mended := mendedSlice(held, slice); !sameSlice(held, mended) {
				_, err := client.Update(ctx, mended, metav1.UpdateOptions{})
				errs = append(errs, err)
			}
		}
	}
	for name, slice := range existing {
		if desired[name] == nil {
			errs = append(errs, c.deleteSlice(ctx, slice))
		}
	}
	return firstConflictOr(errs)
}

// firstConflictOr joins errors, unless all that happened is that the cache is
// behind.
func firstConflictOr(errs []error) error {
	for _, err := range errs {
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("write the EndpointSlices of an import: %w", errors.Join(errs...))
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
	return fmt.Errorf("delete an EndpointSlice of an import: %w", err)
}
