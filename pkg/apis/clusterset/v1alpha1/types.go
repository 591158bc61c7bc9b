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

// ExportedService is a Service as one cluster of the ClusterSet exports it:
// everything that the merge into a ServiceImport needs, and nothing else of
// the Service. It is computed and can only be read. Its name is that of the
// Service and the id of the cluster, with a dot between them.
type ExportedService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The creation time is that of
	// the ServiceExport.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the import would be if nobody else exported the service.
	// +optional
	Spec ExportedServiceSpec `json:"spec,omitempty"`
}

// ExportedServiceSpec is what the import would be if nobody else exported the service.
type ExportedServiceSpec struct {
	// cluster is the id of the exporting cluster.
	Cluster string `json:"cluster"`
	// service is the name of the Service.
	Service string `json:"service"`
	// exportedAt is when the ServiceExport was created. The oldest counts most.
	ExportedAt metav1.Time `json:"exportedAt"`
	// effectiveAt is when the export took effect: when it was created, or when the
	// cluster joined the ClusterSet, whichever was later.
	// +optional
	EffectiveAt metav1.Time `json:"effectiveAt,omitempty,omitzero"`
	// type tells services with a virtual IP from those without.
	Type ServiceType `json:"type"`
	// ports are those of the Service.
	// +optional
	// +listType=atomic
	Ports []ServicePort `json:"ports,omitempty"`
	// sessionAffinity is that of the Service.
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// sessionAffinityConfig is that of the Service.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// ipFamilies are those of the Service.
	// +optional
	// +listType=atomic
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// internalTrafficPolicy is that of the Service.
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	// trafficDistribution is that of the Service.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
	// exportedLabels are those that the ServiceExport names.
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`
	// exportedAnnotations are those that the ServiceExport names.
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`
	// useClusterSetIP is whether the export asks for one IP in all clusters.
	// +optional
	UseClusterSetIP bool `json:"useClusterSetIP,omitempty"`
	// clusterSetIP is what the exporting cluster holds to, whatever it asks for
	// now. It is missing until that is decided.
	// +optional
	ClusterSetIP *ClusterSetIPDecision `json:"clusterSetIP,omitempty"`
	// path is the way from the exporting cluster to this one: the clusters that
	// showed it to the next, the exporting cluster first. It is empty for what
	// this cluster exports itself.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
}

// ClusterSetIPDecision is what was decided about the IP of a service when its
// first export took effect. It holds for as long as anybody exports the service.
type ClusterSetIPDecision struct {
	// ips are the same in all clusters, at most one per IP family. If there are
	// none, every importing cluster has its own.
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
	// decidedBy is the id of the cluster whose export was the first, and which
	// allocated the IPs.
	DecidedBy string `json:"decidedBy"`
	// since is when it was decided, as a rule when that export took effect. Of two
	// decisions the older stands.
	Since metav1.Time `json:"since"`
}

// ServiceType tells services with a virtual IP from those without.
// +enum
type ServiceType string

const (
	// ClusterSetIP services are reached through a virtual IP.
	ClusterSetIP ServiceType = "ClusterSetIP"
	// Headless services have no virtual IP.
	Headless ServiceType = "Headless"
)

// ServicePort is one port of an exported Service.
type ServicePort struct {
	// name is the name of the port. It may be empty when there is one port only.
	// +optional
	Name string `json:"name,omitempty"`
	// protocol is TCP, UDP or SCTP.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// appProtocol is what is spoken on the port.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
	// port is the number of the port.
	Port int32 `json:"port"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedServiceList is a list of ExportedServices.
type ExportedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the services.
	// +listType=atomic
	Items []ExportedService `json:"items"`
}

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSlice holds endpoints of an exported Service. It is computed
// and can only be read. Its name is that of the EndpointSlice in the exporting
// cluster and the id of the cluster, with a dot between them.
type ExportedEndpointSlice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the EndpointSlice.
	// +optional
	Spec ExportedEndpointSliceSpec `json:"spec,omitempty"`
}

// ExportedEndpointSliceSpec is an EndpointSlice of the exporting cluster.
type ExportedEndpointSliceSpec struct {
	// cluster is the id of the exporting cluster.
	Cluster string `json:"cluster"`
	// service is the name of the Service.
	Service string `json:"service"`
	// addressType is the IP family of the addresses.
	AddressType discoveryv1.AddressType `json:"addressType"`
	// endpoints are those of the EndpointSlice, without references to objects
	// of the exporting cluster.
	// +optional
	// +listType=atomic
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// ports have the names that the exporting cluster's Service gives them.
	// +optional
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
	// path is the way from the exporting cluster to this one, as in ExportedServices.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSliceList is a list of ExportedEndpointSlices.
type ExportedEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the slices.
	// +listType=atomic
	Items []ExportedEndpointSlice `json:"items"`
}

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Member is what this cluster knows of a cluster of its ClusterSet, itself
// included. It is computed from the Secrets that make clusters members, and
// from what these clusters answer, and can only be read. Its name is the id of
// the cluster; a Secret that gives no usable id has an entry named after itself.
type Member struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Creation time and UID are those
	// of the Secret, for this cluster's own entry those of its namespace kube-system.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// status is what is known of the member.
	// +optional
	Status MemberStatus `json:"status,omitempty"`
}

// MemberState sums up how a member can be reached.
// +enum
type MemberState string

const (
	// MemberLocal is this cluster itself.
	MemberLocal MemberState = "Local"
	// MemberConnecting has not been reached yet.
	MemberConnecting MemberState = "Connecting"
	// MemberConnected has just been seen.
	MemberConnected MemberState = "Connected"
	// MemberStale has not been seen for a while. Nothing changes yet.
	MemberStale MemberState = "Stale"
	// MemberLost has not been seen for longer than its TTL.
	MemberLost MemberState = "Lost"
	// MemberRefused is kept out: its Secret or what it says of itself is wrong.
	MemberRefused MemberState = "Refused"
)

// LostPolicy is what happens to the endpoints of a member that is lost.
// +enum
type LostPolicy string

const (
	// LostPolicyWithdraw takes them out of use.
	LostPolicyWithdraw LostPolicy = "Withdraw"
	// LostPolicyKeep keeps them in use.
	LostPolicyKeep LostPolicy = "Keep"
)

// MemberStatus is all there is of a Member.
type MemberStatus struct {
	// clusterID is what the Secret calls the cluster; for this cluster, its claim id.k8s.io.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// clusterUID is the UID of its namespace kube-system, which no other cluster has.
	// +optional
	ClusterUID types.UID `json:"clusterUID,omitempty"`
	// clusterSet is the ClusterSet that it claims to belong to.
	// +optional
	ClusterSet string `json:"clusterSet,omitempty"`
	// state sums up how the member can be reached. The conditions give the reasons.
	State MemberState `json:"state"`
	// lastSeen is when it last answered.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// ttlSeconds is how long it may be silent before it is lost.
	// +optional
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// lostPolicy is what happens to its endpoints when it is lost.
	// +optional
	LostPolicy LostPolicy `json:"lostPolicy,omitempty"`
	// exports is how many services it exports, as far as is known.
	Exports int32 `json:"exports"`
	// endpoints is how many endpoints these have.
	Endpoints int32 `json:"endpoints"`
	// synced is true when these numbers are all that it exports.
	Synced bool `json:"synced"`
	// clusterSetIPCIDRs is the cluster's part of the addresses for one IP in all
	// clusters: those that it allocates.
	// +optional
	// +listType=atomic
	ClusterSetIPCIDRs []string `json:"clusterSetIPCIDRs,omitempty"`
	// clusterSetIPRanges is where such addresses may be, as the cluster sees it.
	// +optional
	// +listType=atomic
	ClusterSetIPRanges []string `json:"clusterSetIPRanges,omitempty"`
	// idClaimedAt is since when it claims its id in its ClusterSet. Of two with one
	// id, the older claim counts.
	// +optional
	IDClaimedAt *metav1.Time `json:"idClaimedAt,omitempty"`
	// peers are the ids of the clusters that it lists as members. A cluster's
	// own entry has them, for the others to compare.
	// +optional
	// +listType=atomic
	Peers []string `json:"peers,omitempty"`
	// path is the way from the member to this cluster, if other clusters relay it.
	// +optional
	// +listType=atomic
	Path []string `json:"path,omitempty"`
	// conditions are Accepted, Reachable, Synced and Mutual.
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
	// items are the members.
	// +listType=atomic
	Items []Member `json:"items"`
}
