// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crdsServing returns the names of the CRDs that serve a group-version. It lists
// metadata only, since a cluster may have hundreds of CRDs with very large schemas.
func (c *Controller) crdsServing(ctx context.Context, gv schema.GroupVersion) ([]string, error) {
	list, err := c.clients.Metadata.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		if !strings.HasSuffix(item.Name, "."+gv.Group) {
			continue
		}
		crd, err := c.clients.Dynamic.Resource(crdResource).Get(ctx, item.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", item.Name, err)
		}
		if crdServes(crd, gv) {
			names = append(names, item.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func crdServes(crd *unstructured.Unstructured, gv schema.GroupVersion) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return group == gv.Group && slices.ContainsFunc(versions, func(version any) bool {
		fields, ok := version.(map[string]any)
		return ok && fields["name"] == gv.Version && fields["served"] == true
	})
}
