// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// maxEndpoints is the maximum number of endpoints per slice. It is the default of
// Kubernetes for its own slices: larger slices cost every node more per change.
const maxEndpoints = 100

// maxChunks is an upper bound of the slices that the endpoints of one source need.
const maxChunks = 1000

// Names of slices have a short hash of their source. A member can find a name for a slice of
// its own that has the same as a slice of another member. It then gets the long hash, for
// which that is impossible. Short hashes are the rule because earlier releases know no others:
// after a rollback, they would delete all slices with other names before they create theirs.
const (
	shortHash = 10
	longHash  = 26 // 128 bits
)

// exporter is a cluster that exports a service, with its endpoints.
type exporter struct {
	service *clustersetv1alpha1.ExportedService
	slices  []*clustersetv1alpha1.ExportedEndpointSlice
	// answering is which clusters answer for the import.
	answering *answering
}

// own reports whether the exporter is this cluster.
func (e exporter) own() bool { return len(e.service.Spec.Path) == 0 }

// desiredSlices returns the EndpointSlices that are imported from one cluster, by
// name: one per slice of that cluster, or several if that is too large, in one or more
// forms. Endpoints stay in the existing slice that they are in.
func desiredSlices(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service, exporter exporter, existing map[string]*discoveryv1.EndpointSlice) map[string]*discoveryv1.EndpointSlice {
	desired := map[string]*discoveryv1.EndpointSlice{}
	byBase, served := chunksByBase(existing), merge.NewServed(exporter.service.Spec.Ports)
	var imported []importedSource
	for _, source := range exporter.slices {
		if isImported(serviceImport, owner, source) {
			imported = append(imported, importedSource{
				source, baseName(owner.Name, source, byBase),
				slicePorts(serviceImport.Spec.Ports, served, source.Spec.Ports), importEndpoints(owner.Spec.TrafficDistribution, exporter.own(), source),
			})
		}
	}
	exporter.answering.hintImported(exporter.service.Spec.Cluster, owner.Spec.TrafficDistribution, imported, existing)
	for _, one := range imported {
		source, ports := one.source, one.ports
		for number, chunk := range distribute(one.endpoints, byBase[one.base]) {
			name := chunkName(one.base, number)
			for _, form := range formsOf(name, serviceImport, existing) {
				slice := newSlice(serviceImport, owner, source, form, name+string(form))
				slice.Endpoints, slice.Ports = chunk, ports
				exporter.answering.label(slice)
				desired[slice.Name] = slice
			}
		}
	}
	return desired
}

// importedSource is a slice of a cluster with its ports and endpoints as they are imported.
type importedSource struct {
	source *clustersetv1alpha1.ExportedEndpointSlice
	// base is the name of the first slice that is imported of it.
	base      string
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// isImported reports whether an import has the IP family of a slice. It may not reflect yet
// which families the derived Service has.
func isImported(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service, source *clustersetv1alpha1.ExportedEndpointSlice) bool {
	return hasFamily(serviceImport.Spec.IPFamilies, source.Spec.AddressType) && hasFamily(owner.Spec.IPFamilies, source.Spec.AddressType)
}

// hasReady reports whether any endpoint that is imported from a cluster is ready, at a port of
// the import if that has any.
func hasReady(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service, exporter exporter) bool {
	served := merge.NewServed(exporter.service.Spec.Ports)
	for _, source := range exporter.slices {
		serves := len(serviceImport.Spec.Ports) == 0 || len(slicePorts(serviceImport.Spec.Ports, served, source.Spec.Ports)) > 0
		if isImported(serviceImport, owner, source) && serves && slices.ContainsFunc(importEndpoints(nil, exporter.own(), source), isReady) {
			return true
		}
	}
	return false
}

func isReady(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) }

type sliceVerb int

const (
	deleteSlice sliceVerb = iota
	// retireSlice deletes a slice that was replaced, if those that replace it exist.
	retireSlice
	updateSlice
	createSlice
	// replaceSlice creates a slice that replaces others of another form.
	replaceSlice
)

// sliceChange is a write of an EndpointSlice.
type sliceChange struct {
	verb  sliceVerb
	slice *discoveryv1.EndpointSlice
	// replacedBy are the names of the slices that replace it, if it is retired.
	replacedBy []string
}

func (c sliceChange) isDeletion() bool { return c.verb == deleteSlice || c.verb == retireSlice }

// sliceChanges returns the writes that turn the existing EndpointSlices of a cluster
// into the desired ones: in the order of the verbs, and each kind in the order of names, so
// that a part of them is the same part next time.
func sliceChanges(cluster string, desired, existing map[string]*discoveryv1.EndpointSlice) []sliceChange {
	var changes []sliceChange
	for name, slice := range desired {
		held, exists := existing[name]
		switch {
		case !exists && len(otherForms(name, existing)) > 0:
			changes = append(changes, sliceChange{verb: replaceSlice, slice: slice})
		case !exists:
			changes = append(changes, sliceChange{verb: createSlice, slice: slice})
		case isOfAnother(held, cluster): // never replaced; see baseName
		case held.AddressType != slice.AddressType:
			changes = append(changes, sliceChange{verb: deleteSlice, slice: held}) // the event of the deletion creates it again
		default:
			if updated := updatedSlice(held, slice); !sameSlice(held, updated) {
				changes = append(changes, sliceChange{verb: updateSlice, slice: updated})
			}
		}
	}
	for name, slice := range existing {
		replacedBy := otherForms(name, desired)
		switch {
		case desired[name] != nil || isOfAnother(slice, cluster):
		case len(replacedBy) > 0:
			changes = append(changes, sliceChange{retireSlice, slice, replacedBy})
		default: // if somebody removed the label and another cluster has the slice, the event creates it again
			changes = append(changes, sliceChange{verb: deleteSlice, slice: slice})
		}
	}
	slices.SortFunc(changes, func(a, b sliceChange) int {
		return cmp.Or(cmp.Compare(a.verb, b.verb), cmp.Compare(a.slice.Name, b.slice.Name))
	})
	return changes
}

func chunkName(base string, number int) string {
	if number == 0 {
		return base
	}
	return fmt.Sprintf("%s-%d", base, number+1)
}

// splitName returns the part of the name of a slice that identifies its source, and which of the
// slices of that it is.
func splitName(full string) (base string, number int) {
	name := withoutForm(full)
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return name, 0
	}
	parsed, err := strconv.Atoi(name[at+1:])
	if err != nil || parsed <= 1 || parsed > maxChunks || chunkName(name[:at], parsed-1) != name {
		return name, 0
	}
	return name[:at], parsed - 1
}

// chunksByBase returns the existing slices by the part of their names that identifies their
// source, nil for a missing one. Of slices that differ in their form, it returns the last by name.
func chunksByBase(existing map[string]*discoveryv1.EndpointSlice) map[string][]*discoveryv1.EndpointSlice {
	byBase := map[string][]*discoveryv1.EndpointSlice{}
	for _, full := range slices.Sorted(maps.Keys(existing)) {
		base, number := splitName(full)
		chunks := byBase[base]
		if missing := number + 1 - len(chunks); missing > 0 {
			chunks = append(chunks, make([]*discoveryv1.EndpointSlice, missing)...)
		}
		chunks[number] = existing[full]
		byBase[base] = chunks
	}
	return byBase
}

// baseName returns the name of the first slice for a source: one with a short hash, unless
// slices of another cluster have it. A source that has the long hash keeps it.
func baseName(owner string, source *clustersetv1alpha1.ExportedEndpointSlice, byBase map[string][]*discoveryv1.EndpointSlice) string {
	sum := sha256.Sum256([]byte(source.Spec.Cluster + "/" + source.Name))
	hash := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))
	short, long := owner+"-"+hash[:shortHash], owner+"-"+hash[:longHash]
	ofAnother := func(slice *discoveryv1.EndpointSlice) bool {
		return slice != nil && isOfAnother(slice, source.Spec.Cluster)
	}
	if len(byBase[long]) > 0 || slices.ContainsFunc(byBase[short], ofAnother) {
		return long
	}
	return short
}

// isOfAnother reports whether a slice was imported from another cluster. If somebody removed
// the label, it may be from any.
func isOfAnother(slice *discoveryv1.EndpointSlice, cluster string) bool {
	source := slice.Labels[multicluster.SourceClusterLabel]
	return source != "" && source != cluster
}

func newSlice(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service, source *clustersetv1alpha1.ExportedEndpointSlice, form form, name string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: serviceImport.Namespace, Name: name, Labels: form.labels(serviceImport, owner),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: source.Spec.AddressType,
	}
	// Blocking the deletion of the owner would need a permission on its finalizers.
	slice.OwnerReferences[0].BlockOwnerDeletion = nil
	slice.Labels[multicluster.SourceClusterLabel] = source.Spec.Cluster
	if len(source.Spec.Path) > 0 && form != ofDerivedService { // of another cluster, once
		origin := importedslice.Source{Name: source.Name, UID: source.UID, CreationTimestamp: source.CreationTimestamp, Ports: source.Spec.Ports}
		slice.Annotations = map[string]string{multicluster.SourceSliceAnnotation: origin.Annotation()}
	}
	return slice
}

func hasFamily(families []corev1.IPFamily, addressType discoveryv1.AddressType) bool {
	return len(families) == 0 || slices.Contains(families, corev1.IPFamily(addressType))
}

// slicePorts returns the ports of the import that a cluster serves, with the
// numbers that its endpoints have for them.
func slicePorts(imported []multiclusterxv1beta1.ServicePort, served merge.Served, endpoints []discoveryv1.EndpointPort) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	targets := served.Targets(endpoints)
	for _, port := range imported {
		if target, ok := targets.Port(port.Protocol, port.Port); ok {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: ptr.To(port.Name), Protocol: ptr.To(cmp.Or(port.Protocol, corev1.ProtocolTCP)), Port: ptr.To(target), AppProtocol: port.AppProtocol,
			})
		}
	}
	return ports
}

// importEndpoints returns the endpoints of a slice as they are imported, sorted by
// address. distribution is the traffic distribution of the derived Service, which is
// not that of the import if the host does not support the latter.
func importEndpoints(distribution *string, own bool, source *clustersetv1alpha1.ExportedEndpointSlice) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for _, endpoint := range source.Spec.Endpoints {
		addresses := endpoint.Addresses
		if !own {
			addresses = slices.DeleteFunc(slices.Clone(addresses), func(address string) bool { return !validation.IsEndpointAddress(address) })
		}
		if len(addresses) == 0 {
			continue
		}
		imported := importedslice.Endpoint(endpoint)
		imported.Addresses = addresses
		if own {
			// In another cluster, a node of the same name would count as local.
			imported.NodeName = endpoint.NodeName
		}
		imported.Hints = hints(distribution, imported)
		endpoints = append(endpoints, imported)
	}
	importedslice.Sort(endpoints)
	return endpoints
}

// hints computes the hints of an endpoint from a traffic distribution. The hints of
// the exporting cluster are ignored.
func hints(distribution *string, endpoint discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	var result discoveryv1.EndpointHints
	switch ptr.Deref(distribution, "") {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		// kube-proxy ignores nodes if a ready endpoint has none.
		result.ForNodes = []discoveryv1.ForNode{{Name: ptr.Deref(endpoint.NodeName, preference.Nowhere)}}
		fallthrough
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
		if endpoint.Zone != nil {
			result.ForZones = []discoveryv1.ForZone{{Name: *endpoint.Zone}}
		}
	}
	if len(result.ForZones)+len(result.ForNodes) == 0 {
		return nil
	}
	return &result
}

// distribute divides endpoints among slices of at most maxEndpoints. An endpoint
// stays in its existing slice; new ones fill the slices with room. Within a slice
// the endpoints keep their order.
func distribute(endpoints []discoveryv1.Endpoint, existing []*discoveryv1.EndpointSlice) [][]discoveryv1.Endpoint {
	home := map[string]int{}
	for number, slice := range existing {
		if slice == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			home[endpoint.Addresses[0]] = number
		}
	}
	sizes := make([]int, max(len(existing), 1))
	at := make([]int, len(endpoints))
	for i, endpoint := range endpoints {
		number, ok := home[endpoint.Addresses[0]]
		if !ok || sizes[number] == maxEndpoints {
			number = -1
		} else {
			sizes[number]++
		}
		at[i] = number
	}
	for i := range endpoints {
		if at[i] >= 0 {
			continue
		}
		at[i] = slices.IndexFunc(sizes, func(size int) bool { return size < maxEndpoints })
		if at[i] < 0 {
			sizes, at[i] = append(sizes, 0), len(sizes)
		}
		sizes[at[i]]++
	}
	for len(sizes) > 1 && sizes[len(sizes)-1] == 0 {
		sizes = sizes[:len(sizes)-1]
	}
	chunks := make([][]discoveryv1.Endpoint, len(sizes))
	for i, endpoint := range endpoints {
		chunks[at[i]] = append(chunks[at[i]], endpoint)
	}
	return chunks
}

// updatedSlice returns an existing slice with the desired state. Labels and
// annotations that others own are preserved, except for those that say whose slice it is.
func updatedSlice(existing, desired *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	copied := *existing // of a large slice, most is replaced
	copied.Endpoints = nil
	slice := copied.DeepCopy()
	for _, label := range whoseLabels {
		delete(slice.Labels, label) // the type of the import may change
	}
	maps.Copy(slice.Labels, desired.Labels)
	if len(desired.Annotations) > 0 && slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	maps.Copy(slice.Annotations, desired.Annotations)
	slice.OwnerReferences, slice.Endpoints, slice.Ports = desired.OwnerReferences, desired.Endpoints, desired.Ports
	return slice
}

// sameSlice reports whether the slice does not have to be updated.
func sameSlice(existing, updated *discoveryv1.EndpointSlice) bool {
	return apiequality.Semantic.DeepEqual(existing.Labels, updated.Labels) &&
		apiequality.Semantic.DeepEqual(existing.Annotations, updated.Annotations) &&
		apiequality.Semantic.DeepEqual(existing.OwnerReferences, updated.OwnerReferences) &&
		clusterset.SameEndpoints(existing.Endpoints, updated.Endpoints) &&
		apiequality.Semantic.DeepEqual(existing.Ports, updated.Ports)
}
