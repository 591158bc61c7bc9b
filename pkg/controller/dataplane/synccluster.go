// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// syncCluster reconciles the EndpointSlices of one cluster. What it is decided by is read while
// the decision about the import is locked, so that nothing is written that is older.
func (c *Controller) syncCluster(ctx context.Context, key key) error {
	unlock := c.tiers.deciding.lock(key.NamespacedName)
	defer unlock()
	c.echoes.forget(key)
	serviceImport, err := c.imports.ServiceImports(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		c.setLeft(key, false)
		return nil // the key of the derived Service removes everything
	case err != nil:
		return err
	case retained(serviceImport) && c.postponeUnread(key.cluster), c.postponeOutdated(key.cluster):
		return c.adaptSlices(ctx, key, serviceImport, unlock) // what exists may be newer than what is known
	}
	return c.syncSlices(ctx, key, serviceImport, unlock)
}

// syncSlices imports or withdraws the endpoints of one cluster.
func (c *Controller) syncSlices(ctx context.Context, key key, serviceImport *multiclusterxv1beta1.ServiceImport, unlock func()) error {
	exporter, err := c.exporter(key)
	if err != nil {
		return err
	}
	verdict := c.verdict(key)
	leave := verdict == leaveEndpoints && exporter != nil
	owner := c.setLeft(key, leave)
	service := c.serviceOf(key.NamespacedName)
	if service == nil {
		return nil // the event of the derived Service follows
	}
	if verdict == withdrawEndpoints {
		exporter = nil
	}
	left := leave && (owner == "" || owner == service.UID || len(exporter.slices) == 0)
	if left && headless(serviceImport) {
		return nil // it is enqueued again when it is known whether they answer
	}
	answering, wait, unattached := c.decideAndAttach(ctx, key, serviceImport, service, plan{exporter, left}, unlock)
	defer c.enqueueAffected(key, answering)
	if wait {
		return unattached
	}
	defer c.reportUncovered(key, answering)
	switch {
	case left:
		return errors.Join(unattached, c.writeSlices(ctx, key, answering.adapt(key.cluster, service, c.existingSlices(key.NamespacedName), true)))
	case exporter != nil:
		exporter.answering = answering
	}
	return errors.Join(unattached, c.applySlices(ctx, key, serviceImport, service, exporter))
}

// adaptSlices lets the EndpointSlices of a cluster follow which clusters answer, and leaves them
// as they are otherwise.
func (c *Controller) adaptSlices(ctx context.Context, key key, serviceImport *multiclusterxv1beta1.ServiceImport, unlock func()) error {
	service := c.serviceOf(key.NamespacedName)
	if service == nil || headless(serviceImport) {
		return nil
	}
	answering, wait, unattached := c.decideAndAttach(ctx, key, serviceImport, service, plan{left: true}, unlock)
	defer c.enqueueAffected(key, answering)
	if wait {
		return unattached
	}
	defer c.reportUncovered(key, answering)
	return errors.Join(unattached, c.writeSlices(ctx, key, answering.adapt(key.cluster, service, c.existingSlices(key.NamespacedName), false)))
}
