// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedService is a Service as one cluster exports it: everything that the
// merge needs, and nothing else of the Service.
type ExportedService struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ExportedServiceSpec
}

// ExportedServiceSpec is what the import would be if nobody else exported the service.
type ExportedServiceSpec struct {
	// Cluster is the id of the exporting cluster.
	Cluster string
	// Service is the name of the Service.
	Service string
	// ExportedAt is when the ServiceExport was created.
	ExportedAt metav1.Time
	// EffectiveAt is when the export took effect: when it was created, or when
	// the cluster joined the ClusterSet, whichever was later.
	EffectiveAt           metav1.Time
	Type                  ServiceType
	Ports                 []ServicePort
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	IPFamilies            []corev1.IPFamily
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
	ExportedLabels        map[string]string
	ExportedAnnotations   map[string]string
	// UseClusterSetIP is whether the export asks for one IP in all clusters.
	UseClusterSetIP bool
	// ClusterSetIP is what the exporting cluster holds to, whatever it asks for
	// now; nil until that is decided.
	ClusterSetIP *ClusterSetIPDecision
	// Path is the way from the exporting cluster to this one: the clusters that
	// showed it to the next, the exporting cluster first. It is empty for what
	// this cluster exports itself.
	Path []string
}

// ClusterSetIPDecision is what was decided about the IP of a service when its
// first export took effect. It holds for as long as anybody exports the service.
type ClusterSetIPDecision struct {
	// IPs are the same in all clusters, at most one per IP family. If there are
	// none, every importing cluster has its own.
	IPs []string
	// DecidedBy is the id of the cluster whose export was the first, and which
	// allocated the IPs.
	DecidedBy string
	// Since is when it was decided, as a rule when that export took effect. Of two
	// decisions the older stands.
	Since metav1.Time
}

// ServiceType tells services with a virtual IP from those without.
type ServiceType string

const (
	// ClusterSetIP services are reached through a virtual IP.
	ClusterSetIP ServiceType = "ClusterSetIP"
	// Headless services have no virtual IP.
	Headless ServiceType = "Headless"
)

// ServicePort is one port of an exported Service.
type ServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedServiceList is a list of ExportedServices.
type ExportedServiceList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ExportedService
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSlice holds endpoints of an exported Service.
type ExportedEndpointSlice struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ExportedEndpointSliceSpec
}

// ExportedEndpointSliceSpec is an EndpointSlice of the exporting cluster.
type ExportedEndpointSliceSpec struct {
	// Cluster is the id of the exporting cluster.
	Cluster string
	// Service is the name of the Service.
	Service     string
	AddressType discoveryv1.AddressType
	Endpoints   []discoveryv1.Endpoint
	// Ports have the names that the exporting cluster's Service gives them.
	Ports []discoveryv1.EndpointPort
	// Path is that of the ExportedService.
	Path []string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSliceList is a list of ExportedEndpointSlices.
type ExportedEndpointSliceList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ExportedEndpointSlice
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Member is what this cluster knows of a cluster of its ClusterSet, itself included.
type Member struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Status MemberStatus
}

// MemberState sums up how a member can be reached.
type MemberState string

const (
	// MemberLocal is this cluster itself.
	MemberLocal MemberState = "Local"
	// MemberConnecting has not been reached yet.
	MemberConnecting MemberState = "Connecting"
	// MemberConnected has just been seen.
	MemberConnected MemberState = "Connected"
	// MemberStale has not been seen for a while: nothing changes yet.
	MemberStale MemberState = "Stale"
	// MemberLost has not been seen for longer than its TTL.
	MemberLost MemberState = "Lost"
	// MemberRefused is kept out: its Secret or what it says of itself is wrong.
	MemberRefused MemberState = "Refused"
)

// LostPolicy is what happens to the endpoints of a member that is lost.
type LostPolicy string

const (
	// LostPolicyWithdraw takes them out of use.
	LostPolicyWithdraw LostPolicy = "Withdraw"
	// LostPolicyKeep keeps them in use.
	LostPolicyKeep LostPolicy = "Keep"
)

// Conditions of a Member.
const (
	// MemberAccepted tells whether the member's Secret and identity are right.
	MemberAccepted = "Accepted"
	// MemberReachable tells whether the member answers.
	MemberReachable = "Reachable"
	// MemberSynced tells whether all that it exports is known, and taken.
	MemberSynced = "Synced"
	// MemberMutual tells whether membership is mutual.
	MemberMutual = "Mutual"
	// MemberClusterSetIP tells whether the cluster can allocate addresses that
	// are the same in all clusters. It is there only if the cluster has any.
	MemberClusterSetIP = "ClusterSetIP"

	// ReasonListsOthers is why membership is not mutual when the member knows
	// this cluster, and others that this cluster does not.
	ReasonListsOthers = "ListsOthers"
)

// MemberStatus is all there is of a Member.
type MemberStatus struct {
	// ClusterID is what the cluster's Secret calls it; for this cluster, its claim.
	ClusterID string
	// ClusterUID is the UID of its namespace kube-system, which nobody else has.
	ClusterUID types.UID
	// ClusterSet is what it claims to belong to.
	ClusterSet string
	State      MemberState
	// LastSeen is when it last answered.
	LastSeen *metav1.Time
	// TTLSeconds is how long it may be silent before it is lost.
	TTLSeconds int32
	LostPolicy LostPolicy
	// Exports and Endpoints count what is known of it.
	Exports   int32
	Endpoints int32
	// Synced is true when these counts are all that it exports.
	Synced bool
	// ClusterSetIPCIDRs is the cluster's part of the addresses for one IP in all
	// clusters: those that it allocates.
	ClusterSetIPCIDRs []string
	// ClusterSetIPRanges is where such addresses may be, as the cluster sees it.
	ClusterSetIPRanges []string
	// IDClaimedAt is since when it claims its id in its ClusterSet: of two with
	// one id, the older claim counts.
	IDClaimedAt *metav1.Time
	// Peers are the ids of the clusters that it lists as members itself. This
	// cluster's own entry has them, for the others to compare.
	Peers []string
	// Path is the way from the member to this cluster if others relay it.
	Path []string
	// Conditions has at most one entry per type.
	Conditions []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// MemberList is a list of Members.
type MemberList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []Member
}
