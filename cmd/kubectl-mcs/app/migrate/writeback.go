// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

// isWritten reports whether the objects of a CRD are written. If the CRD serves any version
// already, they were written before, and users may have changed them since.
func (s *site) isWritten(resource crdmigration.Resource) bool {
	_, ours := s.servedBy(resource, s.ours)
	_, held := s.servedBy(resource, s.held)
	return ours && !held
}

// writeBack makes the objects of CRDs those of mcs-apiserver.
func (s *site) writeBack(ctx context.Context) error {
	for _, resource := range resources() {
		if !s.isWritten(resource) {
			continue
		}
		gvr, _ := s.servedBy(resource, s.ours)
		own, err := s.list(ctx, gvr)
		if err != nil {
			return s.WrapError(err, advice)
		}
		side := sideGroupVersion.WithResource(resource.Plural)
		custom, err := s.list(ctx, side)
		if err != nil {
			return s.WrapError(err, advice)
		}
		changes := resource.Back(custom, own, sideVersion, resource.Plural != crdmigration.Imports.Plural)
		if len(changes.Refused) > 0 {
			return fmt.Errorf("context %q: %s %s: %s", s.Context, resource.Kind, changes.Refused[0].Name, changes.Refused[0].Reason)
		}
		if changes.Delete, err = s.deleted(ctx, resource, gvr, changes.Delete); err != nil {
			return s.WrapError(err, advice)
		}
		if err := s.writeChanges(ctx, side, resource, changes); err != nil {
			return s.WrapError(fmt.Errorf("write %s of the CRD: %w", resource.Plural, err), advice)
		}
	}
	return nil
}

// deleted returns those of the objects that mcs-apiserver lacks because they were deleted there.
// The others, which it refuses, were never copied: they stay as they are in the CRD.
func (s *site) deleted(ctx context.Context, resource crdmigration.Resource, gvr schema.GroupVersionResource, lacking []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var deleted []*unstructured.Unstructured
	for _, object := range lacking {
		copied, err := resource.Copy(object)
		if err != nil {
			continue
		}
		copied.SetAPIVersion(gvr.GroupVersion().String())
		unstructured.RemoveNestedField(copied.Object, "metadata", "annotations", multicluster.MigratedFromAnnotation)
		_, err = s.objects.Resource(gvr).Namespace(object.GetNamespace()).Create(ctx, copied, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil || isRefusal(err):
			deleted = append(deleted, object)
		case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err):
			return nil, fmt.Errorf("check whether %s %s/%s was deleted in mcs-apiserver: %w", resource.Kind, object.GetNamespace(), object.GetName(), err)
		}
	}
	return deleted, nil
}

func (s *site) writeChanges(ctx context.Context, gvr schema.GroupVersionResource, resource crdmigration.Resource, changes crdmigration.Changes) error {
	in := func(object *unstructured.Unstructured) dynamic.ResourceInterface {
		return s.objects.Resource(gvr).Namespace(object.GetNamespace())
	}
	for _, object := range changes.Delete {
		if err := ignoreNotFound(in(object).Delete(ctx, object.GetName(), metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	for _, object := range changes.Create {
		created, err := in(object).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		if err := writeStatus(ctx, in(object), resource, created, object); err != nil {
			return err
		}
	}
	for _, change := range changes.Update {
		latest, wanted := change.Existing, change.Wanted.DeepCopy()
		if change.Content || change.Status { // without a status subresource, the status is content
			wanted.SetResourceVersion(latest.GetResourceVersion())
			wanted.SetUID(latest.GetUID())
			updated, err := in(latest).Update(ctx, wanted, metav1.UpdateOptions{})
			if err != nil {
				return fmt.Errorf("%s/%s: %w", latest.GetNamespace(), latest.GetName(), err)
			}
			latest = updated
		}
		if err := writeStatus(ctx, in(latest), resource, latest, change.Wanted); err != nil {
			return err
		}
	}
	return nil
}

// writeStatus writes the status, if the CRD has a subresource for it.
func writeStatus(ctx context.Context, client dynamic.ResourceInterface, resource crdmigration.Resource, latest, wanted *unstructured.Unstructured) error {
	if resource.SameStatus(latest, wanted) {
		return nil
	}
	latest = latest.DeepCopy()
	latest.Object["status"] = wanted.DeepCopy().Object["status"]
	_, err := client.UpdateStatus(ctx, latest, metav1.UpdateOptions{})
	return err
}
