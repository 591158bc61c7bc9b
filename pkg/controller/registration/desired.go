// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	aboutv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about/v1beta1"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// served is a group-version of mcs-apiserver and its priority in discovery. Of two groups
// with a resource of the same name, kubectl prefers the one with the higher priority.
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

// behindCRDs returns the group-version with a priority below that of CRDs, which is 1000: while
// these serve resources, kubectl means theirs.
func (s served) behindCRDs() served {
	s.groupPriority -= 1500
	return s
}

func (s served) apiServiceName() string { return apiconflict.APIServiceName(s.GroupVersion) }

// conflict returns what prevents the registration of a group-version. It is empty if the
// group-version is not served, or already by mcs-apiserver.
func conflict(existing *apiregistrationv1.APIService, service types.NamespacedName) apiconflict.Owner {
	if existing == nil {
		return apiconflict.Owner{}
	}
	var refersTo *types.NamespacedName
	if reference := existing.Spec.Service; reference != nil {
		refersTo = &types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	}
	return apiconflict.Find(existing.Labels, refersTo, service)
}

// isOurs reports whether an APIService, which may be nil, refers to mcs-apiserver.
func isOurs(existing *apiregistrationv1.APIService, service types.NamespacedName) bool {
	return existing != nil && existing.Spec.Service != nil &&
		existing.Spec.Service.Namespace == service.Namespace && existing.Spec.Service.Name == service.Name
}

// desired returns the desired APIService, given the existing one. Labels and annotations
// that others own are preserved.
func desired(existing *apiregistrationv1.APIService, gv served, service types.NamespacedName, ca []byte, owner metav1.OwnerReference) *apiregistrationv1.APIService {
	apiService := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: gv.apiServiceName()}}
	if existing != nil {
		apiService = existing.DeepCopy()
	}
	if apiService.Labels == nil {
		apiService.Labels = map[string]string{}
	}
	delete(apiService.Labels, apiconflict.AutomanagedLabel) // or the kube-apiserver would revert it
	maps.Copy(apiService.Labels, apiconflict.RegisteredLabels)
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

// unchanged reports whether the APIService does not have to be updated.
func unchanged(existing, apiService *apiregistrationv1.APIService) bool {
	return apiequality.Semantic.DeepEqual(existing.ObjectMeta, apiService.ObjectMeta) &&
		apiequality.Semantic.DeepEqual(existing.Spec, apiService.Spec)
}
