// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// ofMCSController selects the CRDs that mcs-controller publishes.
func ofMCSController(options *metav1.ListOptions) {
	options.LabelSelector = labels.SelectorFromSet(apiconflict.RegisteredLabels).String()
}

// publish creates or updates the CRDs. It waits until the APIServices exist: the
// kube-apiserver creates those of CRDs itself if there are none. CRDs of others stay as they
// are. Without any to publish, it deletes those that were published.
func (c *Controller) publish(ctx context.Context, existing map[served]*apiregistrationv1.APIService, owner metav1.OwnerReference) error {
	if len(c.crds) == 0 {
		return c.unpublish(ctx)
	}
	for _, gv := range groupVersions {
		if gv.Group == multicluster.XGroupName && !isOurs(existing[gv], c.service) {
			return nil // its registration is an event
		}
	}
	for _, wanted := range c.crds {
		if err := c.publishOne(ctx, wanted, owner); err != nil {
			return fmt.Errorf("publish CustomResourceDefinition %s: %w", wanted.GetName(), err)
		}
	}
	return nil
}

func (c *Controller) publishOne(ctx context.Context, wanted *unstructured.Unstructured, owner metav1.OwnerReference) error {
	client := c.clients.Dynamic.Resource(apiconflict.CRDResource)
	existing, err := client.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, desiredCRD(nil, wanted, owner), metav1.CreateOptions{})
	case err != nil:
		return err
	case !apiconflict.IsPublished(existing):
		klog.FromContext(ctx).Info("A CustomResourceDefinition of others exists, so that none is published", "name", existing.GetName())
		return nil
	case existing.GetDeletionTimestamp() != nil:
		return nil // the end of its deletion is an event
	default:
		updated := desiredCRD(existing, wanted, owner)
		same, compareErr := sameCRD(existing, updated)
		if same || compareErr != nil {
			return compareErr
		}
		_, err = client.Update(ctx, updated, metav1.UpdateOptions{})
	}
	if err == nil {
		klog.FromContext(ctx).Info("Published CustomResourceDefinition", "name", wanted.GetName(), "new", existing == nil)
	}
	return err
}

// desiredCRD returns the desired CRD, given the existing one.
func desiredCRD(existing, wanted *unstructured.Unstructured, owner metav1.OwnerReference) *unstructured.Unstructured {
	definition := wanted.DeepCopy()
	if existing != nil {
		definition = existing.DeepCopy()
		definition.Object["spec"] = wanted.DeepCopy().Object["spec"]
	}
	labels := map[string]string{}
	maps.Copy(labels, definition.GetLabels())
	maps.Copy(labels, apiconflict.RegisteredLabels)
	definition.SetLabels(labels)
	definition.SetOwnerReferences([]metav1.OwnerReference{owner})
	return definition
}

// sameCRD reports whether a CRD does not have to be updated. Numbers may have different types.
func sameCRD(existing, updated *unstructured.Unstructured) (bool, error) {
	normalized := make([]any, 2)
	for i, definition := range []*unstructured.Unstructured{existing, updated} {
		data, err := json.Marshal([]any{definition.GetLabels(), definition.GetOwnerReferences(), definition.Object["spec"]})
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(data, &normalized[i]); err != nil {
			return false, err
		}
	}
	return apiequality.Semantic.DeepEqual(normalized[0], normalized[1]), nil
}

// unpublish deletes the CRDs that were published.
func (c *Controller) unpublish(ctx context.Context) error {
	client := c.clients.Dynamic.Resource(apiconflict.CRDResource)
	for _, name := range apiconflict.PublishedCRDs {
		existing, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
		case !apiconflict.IsPublished(existing) || existing.GetDeletionTimestamp() != nil:
			continue
		}
		err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(existing.GetUID()))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete CustomResourceDefinition %s: %w", name, err)
		}
		klog.FromContext(ctx).Info("Deleted published CustomResourceDefinition", "name", name)
	}
	return nil
}

// areInert reports whether a group-version is served by CRDs, all of which mcs-controller
// published.
func (c *Controller) areInert(ctx context.Context, owner apiconflict.Owner, crds []string) (bool, error) {
	if !owner.CRD || len(crds) == 0 {
		return false, nil
	}
	for _, name := range crds {
		definition, err := c.clients.Dynamic.Resource(apiconflict.CRDResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
		case !apiconflict.IsPublished(definition):
			return false, nil
		}
	}
	return true, nil
}
