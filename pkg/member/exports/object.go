// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exports holds what a member exports: which objects its feed may
// contain, and the store of the objects that were admitted.
package exports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Kind is one of the two resources of a feed.
type Kind int

// The resources of a feed.
const (
	Services Kind = iota
	EndpointSlices
	// Kinds is how many there are.
	Kinds
)

// String returns the name of the resource.
func (k Kind) String() string { return [Kinds]string{"exportedservices", "exportedendpointslices"}[k] }

// Object is an ExportedService or an ExportedEndpointSlice.
type Object struct {
	Kind Kind
	// Cluster is the exporting cluster, which for a hub need not be the member itself.
	Cluster string
	// Service is the exported Service that the object belongs to.
	Service types.NamespacedName
	Name    string
	// Object is a *clusterset.ExportedService or a *clusterset.ExportedEndpointSlice.
	Object runtime.Object
	// Endpoints is the number of endpoints in the feed, including those that are
	// not admitted.
	Endpoints int32
	// Bytes is how much memory the object takes, once a policy was applied to it.
	Bytes int64
}

// Key identifies an object among all that one member exports.
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// Key returns the key of the object.
func (o Object) Key() Key { return Key{o.Kind, o.Service.Namespace, o.Name} }

// Identifier returns a part of a key. Text that is longer than any valid name is
// shortened, because keys are kept of objects that are rejected as well.
func Identifier(text string) string {
	const longest = 253 // of a DNS subdomain
	if len(text) <= longest {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return truncate.Bytes(text, 100) + "…" + hex.EncodeToString(hash[:])
}

// KeyOf returns the key of an object of the versioned API, and false for any
// other object.
func KeyOf(object any) (Key, bool) {
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		return Key{Services, Identifier(object.Namespace), Identifier(object.Name)}, true
	case *clustersetv1alpha1.ExportedEndpointSlice:
		return Key{EndpointSlices, Identifier(object.Namespace), Identifier(object.Name)}, true
	}
	return Key{}, false
}

// String returns the resource, namespace and name.
func (k Key) String() string { return fmt.Sprintf("%s %s/%s", k.Kind, k.Namespace, k.Name) }

// path returns the clusters that relayed the object, and its source.
func (o Object) path() []string {
	switch object := o.Object.(type) {
	case *clusterset.ExportedService:
		return object.Spec.Path
	case *clusterset.ExportedEndpointSlice:
		return object.Spec.Path
	}
	return nil
}

// Decode converts an object of the versioned API, and drops everything that is
// not used of it. It does not validate it.
func Decode(object any) (Object, error) {
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		service := &clusterset.ExportedService{}
		if err := clustersetv1alpha1.Convert_v1alpha1_ExportedService_To_clusterset_ExportedService(object, service, nil); err != nil {
			return Object{}, err
		}
		service.TypeMeta, service.ObjectMeta = metav1.TypeMeta{}, EssentialMetadata(service.ObjectMeta)
		key := types.NamespacedName{Namespace: Identifier(service.Namespace), Name: Identifier(service.Spec.Service)}
		return Object{Kind: Services, Cluster: Identifier(service.Spec.Cluster), Service: key, Name: Identifier(service.Name), Object: service}, nil
	case *clustersetv1alpha1.ExportedEndpointSlice:
		slice := &clusterset.ExportedEndpointSlice{}
		if err := clustersetv1alpha1.Convert_v1alpha1_ExportedEndpointSlice_To_clusterset_ExportedEndpointSlice(object, slice, nil); err != nil {
			return Object{}, err
		}
		slice.TypeMeta, slice.ObjectMeta = metav1.TypeMeta{}, EssentialMetadata(slice.ObjectMeta)
		key := types.NamespacedName{Namespace: Identifier(slice.Namespace), Name: Identifier(slice.Spec.Service)}
		slice.Spec.Endpoints = essentialEndpoints(slice.Spec.Endpoints)
		endpoints := int32(len(slice.Spec.Endpoints)) //nolint:gosec // a response is limited in size
		return Object{Kind: EndpointSlices, Cluster: Identifier(slice.Spec.Cluster), Service: key, Name: Identifier(slice.Name), Object: slice, Endpoints: endpoints}, nil
	}
	return Object{}, fmt.Errorf("unexpected type %T in a feed", object)
}

// FromImport returns endpoints of a Service that were restored from what was imported,
// if they are valid.
func FromImport(service *clusterset.ExportedService, slice *clusterset.ExportedEndpointSlice) (Object, error) {
	restored := *slice
	restored.Spec.Path = service.Spec.Path
	if errs := validation.ValidateExportedEndpointSlice(&restored); len(errs) > 0 {
		return Object{}, fmt.Errorf("restore endpoints %s/%s: %w", slice.Namespace, slice.Name, errs.ToAggregate())
	}
	return Object{
		Kind: EndpointSlices, Cluster: restored.Spec.Cluster, Service: types.NamespacedName{Namespace: restored.Namespace, Name: restored.Spec.Service},
		Name: restored.Name, Object: &restored, Endpoints: int32(len(restored.Spec.Endpoints)), //nolint:gosec // validated
	}, nil
}

// essentialEndpoints returns endpoints as they are imported, which is also how
// they are restored after a restart.
func essentialEndpoints(endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	var essential []discoveryv1.Endpoint
	for _, endpoint := range endpoints {
		essential = append(essential, importedslice.Endpoint(endpoint))
	}
	importedslice.Sort(essential)
	return essential
}

// EssentialMetadata drops the metadata that differs between the replicas of a
// member, and everything else that a member has no reason to set.
func EssentialMetadata(metadata metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: metadata.Name, Namespace: metadata.Namespace, UID: metadata.UID,
		CreationTimestamp: metadata.CreationTimestamp, Labels: metadata.Labels,
	}
}
