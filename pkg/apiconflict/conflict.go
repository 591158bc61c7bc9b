// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiconflict tells what serves a group-version instead of mcs-apiserver, and what to
// do about it.
package apiconflict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// AutomanagedLabel marks the APIServices that the kube-apiserver creates for CRDs. It
// reverts changes to them. Removing the label hands the group-version over.
const AutomanagedLabel = "kube-aggregator.kubernetes.io/automanaged"

// APIServiceName returns the name of the APIService of a group-version, which the API
// prescribes.
func APIServiceName(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// Owner is what serves a group-version instead of mcs-apiserver: CRDs, or the Service of
// another server. It is empty if nothing does.
type Owner struct {
	CRD     bool
	Service string
}

// Find returns what prevents the registration of a group-version that is served already. Its
// APIService has these labels, and refers to a Service unless the kube-apiserver serves it.
func Find(labels map[string]string, refersTo *types.NamespacedName, service types.NamespacedName) Owner {
	switch {
	case refersTo != nil && *refersTo != service:
		return Owner{Service: refersTo.String()}
	case refersTo == nil && labels[AutomanagedLabel] != "":
		return Owner{CRD: true}
	}
	return Owner{} // served by mcs-apiserver, or handed over by removing the label
}

// Refusal returns a message for the administrator: what conflicts, and what to do.
func Refusal(gv schema.GroupVersion, owner Owner, crds []string) string {
	if owner.CRD {
		return fmt.Sprintf("CustomResourceDefinition %s serves %s, and registering the API would hide its objects; "+
			"move its objects to mcs-apiserver with `kubectl mcs migrate`, or delete it if it is not needed",
			strings.Join(crds, ", "), gv)
	}
	return fmt.Sprintf("Service %s serves %s; uninstall that server, or hand the group-version over with `kubectl delete apiservice %s`",
		owner.Service, gv, APIServiceName(gv))
}

// CRDResource is the resource of CRDs.
var CRDResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRDsServing returns the names of the CRDs that serve any of the group-versions, sorted. It
// lists metadata only, since a cluster may have hundreds of CRDs with very large schemas.
func CRDsServing(ctx context.Context, names metadata.Interface, objects dynamic.Interface, groupVersions ...schema.GroupVersion) (map[schema.GroupVersion][]string, error) {
	list, err := names.Resource(CRDResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	serving := map[schema.GroupVersion][]string{}
	for _, item := range list.Items {
		ofGroup := func(gv schema.GroupVersion) bool { return strings.HasSuffix(item.Name, "."+gv.Group) }
		if !slices.ContainsFunc(groupVersions, ofGroup) {
			continue
		}
		crd, err := objects.Resource(CRDResource).Get(ctx, item.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", item.Name, err)
		}
		for _, gv := range groupVersions {
			if Serves(crd, gv) {
				serving[gv] = append(serving[gv], item.Name)
			}
		}
	}
	for _, found := range serving {
		slices.Sort(found)
	}
	return serving, nil
}

// Serves reports whether a CRD serves a group-version.
func Serves(crd *unstructured.Unstructured, gv schema.GroupVersion) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return group == gv.Group && slices.ContainsFunc(versions, func(version any) bool {
		fields, ok := version.(map[string]any)
		return ok && fields["name"] == gv.Version && fields["served"] == true
	})
}
