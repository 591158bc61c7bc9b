// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration registers the API groups of mcs-apiserver with the aggregation
// layer of the kube-apiserver, by means of APIServices. It never takes over a
// group-version that a CRD or another server provides. It removes the APIServices while
// an administrator detaches the API. While objects of CRDs are migrated, it registers the
// group-versions that they do not serve. On request, it publishes inert CRDs for programs that
// wait for them.
package registration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

// withdraw deletes the APIServices of mcs-apiserver.
func (c *Controller) withdraw(ctx context.Context, existing map[served]*apiregistrationv1.APIService) error {
	for _, apiService := range existing {
		if !isOurs(apiService, c.service) {
			continue
		}
		err := c.clients.Aggregator.ApiregistrationV1().APIServices().Delete(ctx, apiService.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(apiService.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete APIService %s: %w", apiService.Name, err)
		}
	}
	return nil
}

// register creates or updates the APIServices of the group-versions that are not refused.
func (c *Controller) register(ctx context.Context, existing map[served]*apiregistrationv1.APIService, refused sets.Set[served], migrating bool, ca []byte, owner metav1.OwnerReference) error {
	for _, gv := range groupVersions {
		if refused.Has(gv) {
			continue
		}
		wanted := gv
		if migrating {
			wanted = gv.behindCRDs()
		}
		if err := c.apply(ctx, existing[gv], desired(existing[gv], wanted, c.service, c.trusted(existing[gv], ca), owner)); err != nil {
			return err
		}
	}
	return nil
}

// trusted returns the CA bundle of an APIService, which may not exist yet.
func (c *Controller) trusted(existing *apiregistrationv1.APIService, ca []byte) []byte {
	if !c.keepAuthorities || !isOurs(existing, c.service) {
		return ca
	}
	return servingcert.Union(time.Now(), ca, existing.Spec.CABundle)
}

// addAuthority adds a CA bundle to those of the APIServices that are registered.
func (c *Controller) addAuthority(ctx context.Context, existing map[served]*apiregistrationv1.APIService, ca []byte) error {
	if !c.keepAuthorities {
		return nil
	}
	for _, gv := range groupVersions {
		if !isOurs(existing[gv], c.service) {
			continue
		}
		apiService := existing[gv].DeepCopy()
		apiService.Spec.CABundle = c.trusted(existing[gv], ca)
		if err := c.apply(ctx, existing[gv], apiService); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) apply(ctx context.Context, existing, apiService *apiregistrationv1.APIService) error {
	logger := klog.FromContext(ctx)
	client := c.clients.Aggregator.ApiregistrationV1().APIServices()
	var err error
	switch {
	case existing == nil:
		_, err = client.Create(ctx, apiService, metav1.CreateOptions{})
	case unchanged(existing, apiService):
		return nil
	default:
		_, err = client.Update(ctx, apiService, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("apply APIService %s: %w", apiService.Name, err)
	}
	logger.Info("Registered API", "groupVersion", apiService.Spec.Group+"/"+apiService.Spec.Version, "new", existing == nil)
	return nil
}

func (c *Controller) owner(ctx context.Context) (metav1.OwnerReference, error) {
	role, err := c.clients.Kubernetes.RbacV1().ClusterRoles().Get(ctx, ownerClusterRole, metav1.GetOptions{})
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("get the ClusterRole that owns the APIServices: %w", err)
	}
	return metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
}
