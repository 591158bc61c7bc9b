// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	aboutv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about/v1beta1"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// The kube-apiserver labels the APIServices that it makes for CRDs, and takes
// back what others change about them. Whoever removes the label hands the
// group-version over.
const automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"

// served is a group-version of ours and its place in discovery. Of two groups
// with a resource of the same name, kubectl takes the one of higher priority.
type served struct {
	schema.GroupVersion
	groupPriority, versionPriority int32
}

var groupVersions = []served{
	{multiclusterxv1beta1.SchemeGroupVersion, 2000, 20},
	{multiclusterxv1alpha1.SchemeGroupVersion, 2000, 10},
	{multiclusterv1.SchemeGroupVersion, 1900, 20},
	{multiclusterv1alpha1.SchemeGroupVersion, 1900, 10},
	{clustersetv1alpha1.SchemeGroupVersion, 1800, 10},
	{aboutv1beta1.SchemeGroupVersion, 1700, 20},
}

// apiServiceName is the only name that an APIService of the group-version can have.
func (s served) apiServiceName() string { return s.Version + "." + s.Group }

// conflictOwner is who serves a group-version in our place.
type conflictOwner struct {
	crd     bool
	service string
}

// conflict says who is in the way of registering a group-version. It is empty
// when the group-version is free or ours already.
func conflict(existing *apiregistrationv1.APIService, service types.NamespacedName) conflictOwner {
	switch {
	case existing == nil:
		return conflictOwner{}
	case existing.Spec.Service != nil && !isService(existing.Spec.Service, service):
		return conflictOwner{service: existing.Spec.Service.Namespace + "/" + existing.Spec.Service.Name}
	case existing.Spec.Service == nil && existing.Labels[automanagedLabel] != "":
		return conflictOwner{crd: true}
	}
	return conflictOwner{} // ours, or handed over by whoever removed the label
}

func isService(reference *apiregistrationv1.ServiceReference, service types.NamespacedName) bool {
	return reference.Namespace == service.Namespace && reference.Name == service.Name
}

// refusal tells the administrator what is in the way and how to go on.
func refusal(gv served, owner conflictOwner, crds []string) string {
	if owner.crd {
		return fmt.Sprintf("CustomResourceDefinition %s serves %s, and registering over it would hide its objects: "+
			"remove it if nothing needs it, or hand the group-version over with `kubectl label apiservice %s %s-`",
			strings.Join(crds, ", "), gv.GroupVersion, gv.apiServiceName(), automanagedLabel)
	}
	return fmt.Sprintf("Service %s serves %s: uninstall that server, or hand the group-version over with `kubectl delete apiservice %s`",
		owner.service, gv.GroupVersion, gv.apiServiceName())
}

// desired is what the APIService ought to be, given what is there now.
// Whatever others have added to it stays.
func desired(existing *apiregistrationv1.APIService, gv served, service types.NamespacedName, ca []byte, owner metav1.OwnerReference) *apiregistrationv1.APIService {
	apiService := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: gv.apiServiceName()}}
	if existing != nil {
		apiService = existing.DeepCopy()
	}
	if apiService.Labels == nil {
		apiService.Labels = map[string]string{}
	}
	maps.Copy(apiService.Labels, map[string]string{
		"app.kubernetes.io/name":       "mcs-apiserver",
		"app.kubernetes.io/managed-by": "mcs-controller",
	})
	apiService.OwnerReferences = []metav1.OwnerReference{owner}
	apiService.Spec = apiregistrationv1.APIServiceSpec{
		Service:              &apiregistrationv1.ServiceReference{Namespace: service.Namespace, Name: service.Name, Port: ptr.To[int32](443)},
		Group:                gv.Group,
		Version:              gv.Version,
		CABundle:             ca,
		GroupPriorityMinimum: gv.groupPriority,
		VersionPriority:      gv.versionPriority,
	}
	return apiService
}

// unchanged says whether writing the object would change nothing.
func unchanged(existing, apiService *apiregistrationv1.APIService) bool {
	return apiequality.Semantic.DeepEqual(existing.ObjectMeta, apiService.ObjectMeta) &&
		apiequality.Semantic.DeepEqual(existing.Spec, apiService.Spec)
}
