// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedService describes a Service exported by one cluster of the
// ClusterSet: all fields that the merge into a ServiceImport needs, and no
// other part of the Service. ExportedServices are computed and read-only. The
// name is the name of the Service and the ID of the cluster, joined by a dot.
type ExportedService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The creation timestamp is the
	// creation timestamp of the ServiceExport.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec describes the exported Service.
	// +optional
	Spec ExportedServiceSpec `json:"spec,omitempty"`
}

// ExportedServiceSpec describes the ServiceImport that would result if only
// this cluster exported the service.
type ExportedServiceSpec struct {
	// cluster is the ID of the exporting cluster.
	Cluster string `json:"cluster"`
	// service is the name of the Service.
	Service string `json:"service"`
	// exportedAt is the creation time of the ServiceExport. Of exports that took
	// effect at the same time, the one that was created first takes precedence.
	ExportedAt metav1.Time `json:"exportedAt"`
	// effectiveAt is the time at which the export took effect: the creation of
	// the ServiceExport, or the time at which the cluster joined the
	// ClusterSet, whichever is later. Importing clusters take the time of
	// joining from the member Secret, if the Secret has it. In conflicts, the
	// export that took effect first takes precedence; it is the founding export.
	// +optional
	EffectiveAt metav1.Time `json:"effectiveAt,omitempty,omitzero"`
	// type is the type of the exported service. Must be ClusterSetIP or
	// Headless.
	Type ServiceType `json:"type"`
	// ports are the ports of the Service.
	// +optional
	// +listType=atomic
	Ports []ServicePort `json:"ports,omitempty"`
	// sessionAffinity is the session affinity of the Service.
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// sessionAffinityConfig is the session affinity configuration of the
	// Service.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// ipFamilies are the IP families of the Service.
	// +optional
	// +listType=atomic
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// internalTrafficPolicy is the internal traffic policy of the Service.
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	// trafficDistribution is the traffic distribution of the Service.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
	// clusterPreference lists the tiers of clusters that should answer, the most
	// preferred first: "cluster" for the cluster of the client, and "property:NAME"
	// for the clusters whose ClusterProperty NAME has the value of that cluster. All
	// clusters follow.
	// +optional
	// +listType=atomic
	ClusterPreference []string `json:"clusterPreference,omitempty"`
	// preferenceMinReady is how many ready endpoints a tier needs to be used. One
	// if unset.
	// +optional
	PreferenceMinReady int32 `json:"preferenceMinReady,omitempty"`
	// exportedLabels are the exported labels of the ServiceExport.
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`
	// exportedAnnotations are the exported annotations of the ServiceExport.
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`
	// useClusterSetIP indicates whether the export requests a shared ClusterSet
	// IP.
	// +optional
	UseClusterSetIP bool `json:"useClusterSetIP,omitempty"`
	// clusterSetIP is the decision about the shared ClusterSet IP that the
	// exporting cluster has recorded, regardless of what the export requests
	// now. Unset until the decision is made.
	// +optional
	ClusterSetIP *ClusterSetIPDecision `json:"clusterSetIP,omitempty"`
	// audience are the clusters that may read the object. Unset if all may.
	// Relays pass it on to these only.
	// +optional
	Audience *Audience `json:"audience,omitempty"`
	// path is the relay path of the object: the IDs of the clusters that passed it
	// on, the exporting cluster first. Empty for exports of this cluster.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
}

// Audience are the clusters that an export is for, besides the exporting cluster.
type Audience struct {
	// clusters are the IDs of the clusters, sorted. If empty, no other cluster may
	// read the object.
	// +optional
	// +listType=atomic
	Clusters []string `json:"clusters,omitempty"`
}

// ClusterSetIPDecision records the decision about the shared ClusterSet IP of a
// service. The decision is made when the founding export takes effect and holds
// until the last cluster withdraws the service.
type ClusterSetIPDecision struct {
	// ips are the shared ClusterSet IPs, at most one per IP family. If empty,
	// every importing cluster allocates its own virtual IP.
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
	// decidedBy is the ID of the cluster with the founding export, which
	// allocated the IPs.
	DecidedBy string `json:"decidedBy"`
	// since is the time of the decision, usually the time at which the founding
	// export took effect. If two clusters have recorded different decisions,
	// the older decision takes precedence.
	Since metav1.Time `json:"since"`
	// adoptedFrom are the IDs of the clusters through which the exporting cluster
	// heard of the decision, the nearest first; of more than 64 the farthest are left
	// out. It is empty if it made the decision itself, or heard of it from the cluster
	// that did. Their decisions are given up when they are expelled.
	// +optional
	// +listType=atomic
	AdoptedFrom []string `json:"adoptedFrom,omitempty"`
}

// ServiceType designates the type of an exported service.
// +enum
type ServiceType string

const (
	// ClusterSetIP services are accessible via a ClusterSet IP.
	ClusterSetIP ServiceType = "ClusterSetIP"
	// Headless services have no ClusterSet IP.
	Headless ServiceType = "Headless"
)

// ServicePort represents a port of an exported Service.
type ServicePort struct {
	// name is the name of the port. Optional if the Service has only one port.
	// +optional
	Name string `json:"name,omitempty"`
	// protocol is the IP protocol of the port. Must be TCP, UDP, or SCTP.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// appProtocol is a hint for the application protocol of the port.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
	// port is the port number on which the Service is exposed.
	Port int32 `json:"port"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedServiceList is a list of ExportedServices.
type ExportedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ExportedServices.
	// +listType=atomic
	Items []ExportedService `json:"items"`
}

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSlice contains endpoints of an exported Service.
// ExportedEndpointSlices are computed and read-only. The name is the name of
// the EndpointSlice in the exporting cluster and the ID of the cluster, joined
// by a dot.
type ExportedEndpointSlice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec describes the exported EndpointSlice.
	// +optional
	Spec ExportedEndpointSliceSpec `json:"spec,omitempty"`
}

// ExportedEndpointSliceSpec describes an EndpointSlice of the exporting
// cluster.
type ExportedEndpointSliceSpec struct {
	// cluster is the ID of the exporting cluster.
	Cluster string `json:"cluster"`
	// service is the name of the Service.
	Service string `json:"service"`
	// addressType is the IP family of the addresses.
	AddressType discoveryv1.AddressType `json:"addressType"`
	// endpoints are the endpoints of the EndpointSlice, without references to
	// objects of the exporting cluster.
	// +optional
	// +listType=atomic
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// ports are the ports of the endpoints, with the port names of the Service
	// in the exporting cluster.
	// +optional
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
	// path is the relay path, as in ExportedService.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
	// changedAt is when Pods or the Service changed, because of which the
	// exporting cluster changed the EndpointSlice, by the clock of the cluster
	// that the object is read from. Unset if that is unknown. A slice of which
	// only this differs is not updated.
	// +optional
	ChangedAt *metav1.MicroTime `json:"changedAt,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSliceList is a list of ExportedEndpointSlices.
type ExportedEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ExportedEndpointSlices.
	// +listType=atomic
	Items []ExportedEndpointSlice `json:"items"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Member describes a cluster of the ClusterSet as seen from this cluster. This
// cluster has a Member too. Members are computed from the member Secrets and
// from what the clusters report, and are read-only. The name is the cluster ID;
// a Secret without a valid cluster ID is represented by a Member named after
// the Secret.
type Member struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The creation timestamp and the UID
	// are taken from the member Secret, or from the namespace kube-system for the
	// Member of the local cluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// status describes the observed state of the member.
	// +optional
	Status MemberStatus `json:"status,omitempty"`
}

// MemberState summarizes the connection to a member.
// +enum
type MemberState string

const (
	// MemberLocal is the state of this cluster itself.
	MemberLocal MemberState = "Local"
	// MemberConnecting means that the member has not been reached yet.
	MemberConnecting MemberState = "Connecting"
	// MemberConnected means that the member was seen recently.
	MemberConnected MemberState = "Connected"
	// MemberUnavailable is like MemberStale, but the Kubernetes API of the member
	// responds: only mcs-apiserver there does not.
	MemberUnavailable MemberState = "Unavailable"
	// MemberStale means that the member has not been seen recently, or only by
	// another replica of mcs-apiserver. Its exports are unchanged, and so are its
	// endpoints, unless it has been silent for its TTL and they do not answer.
	MemberStale MemberState = "Stale"
	// MemberLost means that the member has not been seen for longer than its
	// TTL, and its endpoints do not answer either or cannot be asked.
	MemberLost MemberState = "Lost"
	// MemberRefused means that the member is not accepted, because its Secret
	// is invalid or its identity does not match the Secret.
	MemberRefused MemberState = "Refused"
)

// LostPolicy describes what happens to the endpoints of a lost member.
// +enum
type LostPolicy string

const (
	// LostPolicyWithdraw withdraws the endpoints, service by service, unless they
	// answer.
	LostPolicyWithdraw LostPolicy = "Withdraw"
	// LostPolicyKeepLast is like LostPolicyWithdraw, but keeps the last ready
	// endpoints of an import.
	LostPolicyKeepLast LostPolicy = "KeepLast"
	// LostPolicyKeep keeps the endpoints in use.
	LostPolicyKeep LostPolicy = "Keep"
)

// ClusterProperty is a ClusterProperty of a cluster.
type ClusterProperty struct {
	// name is the name of the ClusterProperty.
	Name string `json:"name"`
	// value is its value.
	Value string `json:"value"`
}

// MemberStatus describes the observed state of a member.
type MemberStatus struct {
	// clusterID is the cluster ID in the member Secret. For this cluster, the
	// value of the ClusterClaim id.k8s.io.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// clusterUID is the UID of the namespace kube-system of the cluster, which
	// identifies the cluster regardless of its ID.
	// +optional
	ClusterUID types.UID `json:"clusterUID,omitempty"`
	// clusterSet is the ClusterSet that the cluster claims to belong to.
	// +optional
	ClusterSet string `json:"clusterSet,omitempty"`
	// version is the version of mcs-apiserver in the cluster. Empty if the cluster
	// does not report it.
	// +optional
	Version string `json:"version,omitempty"`
	// kubernetesVersion is the version of Kubernetes in the cluster. Empty if the
	// cluster does not report it.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// properties are ClusterProperties of the cluster besides its ID and its
	// ClusterSet, the first 16 by name with a value of at most 1024 characters. Set
	// only if the cluster is this one or is read directly.
	// +optional
	// +listType=map
	// +listMapKey=name
	Properties []ClusterProperty `json:"properties,omitempty"`
	// state summarizes the connection to the member. The conditions contain the
	// reasons.
	State MemberState `json:"state"`
	// lastSeen is the time of the last successful response of the member to any
	// replica of mcs-apiserver, or the start of the first replica after all of
	// them were down.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// ttlSeconds is how long the member may be silent before it is considered
	// lost.
	// +optional
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// lostPolicy describes what happens to the endpoints of the member when the
	// member is lost.
	// +optional
	LostPolicy LostPolicy `json:"lostPolicy,omitempty"`
	// expired indicates whether the member has been silent for its TTL, in all
	// replicas of mcs-apiserver. Its endpoints are kept only if they answer, or the
	// lost policy says so.
	// +optional
	Expired bool `json:"expired,omitempty"`
	// overdue indicates whether the member has been silent for one hour longer than
	// its TTL. Its endpoints are not kept, even if they answer, unless the lost
	// policy says so. This does not follow from lastSeen: clocks may be wrong.
	// +optional
	Overdue bool `json:"overdue,omitempty"`
	// exports is the number of Services known to be exported by the member.
	Exports int32 `json:"exports"`
	// endpoints is the number of endpoints of the exported Services.
	Endpoints int32 `json:"endpoints"`
	// synced indicates whether exports and endpoints covered everything that the
	// member exports when it was last read. The condition Synced is False while
	// the member cannot be read.
	Synced bool `json:"synced"`
	// clusterSetIPCIDRs are the allocation CIDRs of the cluster, from which the
	// cluster allocates shared ClusterSet IPs.
	// +optional
	// +listType=atomic
	ClusterSetIPCIDRs []string `json:"clusterSetIPCIDRs,omitempty"`
	// clusterSetIPRanges are the ClusterSet IP ranges that the cluster is
	// configured with. Shared ClusterSet IPs are accepted only within these
	// ranges.
	// +optional
	// +listType=atomic
	ClusterSetIPRanges []string `json:"clusterSetIPRanges,omitempty"`
	// idClaimedAt is the time since which the cluster has claimed its ID in its
	// ClusterSet. If two clusters claim the same ID, the older claim takes
	// precedence.
	// +optional
	IDClaimedAt *metav1.Time `json:"idClaimedAt,omitempty"`
	// peers are the IDs of the clusters that the cluster lists as members. Set
	// only on the Member of the local cluster, so that other clusters can
	// compare.
	// +optional
	// +listType=atomic
	Peers []string `json:"peers,omitempty"`
	// path is the relay path from the member to this cluster. Empty if the
	// member is read directly.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
	// conditions describe the state of the member. Known condition types are
	// Accepted, Reachable, Synced, Mutual, and ClusterSetIP.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MemberList is a list of Members.
type MemberList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of Members.
	// +listType=atomic
	Items []Member `json:"items"`
}
