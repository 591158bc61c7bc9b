// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmirror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

// copy makes the objects of mcs-apiserver copies of those of a CRD, as its cache has them.
// Objects that mcs-apiserver refuses are reported, and do not prevent that the rest is copied.
func (c *Controller) copy(ctx context.Context, resource crdmigration.Resource, gvr schema.GroupVersionResource, returned time.Time) (crdmigration.ResourceReport, error) {
	var custom []*unstructured.Unstructured
	for _, object := range c.sources[gvr].informer.GetStore().List() {
		custom = append(custom, object.(*unstructured.Unstructured))
	}
	digest, err := resource.Digest(custom)
	if err != nil {
		return crdmigration.ResourceReport{}, err
	}
	existing, err := c.clients.Own.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return crdmigration.ResourceReport{}, fmt.Errorf("list objects of mcs-apiserver: %w", err)
	}
	var own []*unstructured.Unstructured
	for i := range existing.Items {
		own = append(own, &existing.Items[i])
	}
	changes := resource.Mirror(custom, own, returned)
	if !changes.Empty() {
		if err := c.stillServed(ctx, resource, gvr); err != nil {
			return crdmigration.ResourceReport{}, err
		}
	}
	refused, err := c.apply(ctx, resource, gvr, changes)
	if err != nil {
		return crdmigration.ResourceReport{}, err
	}
	if !changes.Empty() {
		klog.FromContext(ctx).Info("Copied objects of a CustomResourceDefinition", "resource", gvr.Resource,
			"created", len(changes.Create), "updated", len(changes.Update), "deleted", len(changes.Delete), "refused", len(refused))
	}
	return crdmigration.NewResourceReport(digest, len(custom)-len(changes.Kept)-len(refused), changes.Kept, refused), nil
}

// stillServed returns an error if the CRD does not serve the objects any more. It is asked after
// the copies were read: their users may have changed them since the group-version was handed
// over, and what vanished with its CRD was not deleted by anybody. Later changes of a copy are
// noticed by its resourceVersion.
func (c *Controller) stillServed(ctx context.Context, resource crdmigration.Resource, gvr schema.GroupVersionResource) error {
	version, served, err := c.servedByCRD(ctx, resource)
	if err == nil && (!served || version != gvr.Version) {
		err = fmt.Errorf("no CustomResourceDefinition serves %s any more: the copies of its objects are kept", gvr.GroupResource())
	}
	return err
}

// apply writes the changes, and returns which objects are refused.
func (c *Controller) apply(ctx context.Context, resource crdmigration.Resource, gvr schema.GroupVersionResource, changes crdmigration.Changes) ([]crdmigration.Refusal, error) {
	refused := changes.Refused
	each := func(object *unstructured.Unstructured, write func(dynamic.ResourceInterface) error) error {
		err := write(c.clients.Own.Resource(gvr).Namespace(object.GetNamespace()))
		if reason, ok := refusal(err); ok {
			refused = append(refused, crdmigration.Refusal{Name: object.GetNamespace() + "/" + object.GetName(), Reason: reason})
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		return nil
	}
	for _, object := range changes.Release {
		if err := each(object, func(client dynamic.ResourceInterface) error { return release(ctx, client, object) }); err != nil {
			return nil, err
		}
	}
	for _, object := range changes.Delete {
		if err := each(object, func(client dynamic.ResourceInterface) error { return remove(ctx, client, object) }); err != nil {
			return nil, err
		}
	}
	for _, object := range changes.Create {
		if err := each(object, func(client dynamic.ResourceInterface) error { return create(ctx, client, resource, object) }); err != nil {
			return nil, err
		}
	}
	for _, change := range changes.Update {
		if err := each(change.Existing, func(client dynamic.ResourceInterface) error { return update(ctx, client, change) }); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// release removes the finalizers of a copy, which nobody else does: those of its source were
// removed, or it would exist.
func release(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	object.SetFinalizers(nil)
	_, err := client.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remove deletes a copy.
func remove(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func create(ctx context.Context, client dynamic.ResourceInterface, resource crdmigration.Resource, object *unstructured.Unstructured) error {
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil || resource.SameStatus(created, object) {
		return err
	}
	return writeStatus(ctx, client, created, object)
}

func update(ctx context.Context, client dynamic.ResourceInterface, change crdmigration.Update) error {
	latest := change.Existing
	if change.Content {
		wanted := change.Wanted.DeepCopy()
		wanted.SetResourceVersion(latest.GetResourceVersion())
		updated, err := client.Update(ctx, wanted, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		latest = updated
	}
	if change.Status {
		return writeStatus(ctx, client, latest, change.Wanted)
	}
	return nil
}

func writeStatus(ctx context.Context, client dynamic.ResourceInterface, latest, wanted *unstructured.Unstructured) error {
	latest = latest.DeepCopy()
	latest.Object["status"] = wanted.DeepCopy().Object["status"]
	_, err := client.UpdateStatus(ctx, latest, metav1.UpdateOptions{})
	return err
}

// refusal returns why mcs-apiserver refuses an object, unless a retry may help.
func refusal(err error) (string, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	switch code := status.Status().Code; {
	case code == http.StatusConflict, code == http.StatusTooManyRequests, code == http.StatusUnauthorized:
		return "", false
	case code >= 400 && code < 500:
		return status.Status().Message, true
	}
	return "", false
}
