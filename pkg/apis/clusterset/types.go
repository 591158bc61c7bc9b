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

// ExportedService describes a Service exported by one cluster: all fields that
// the merge needs, and no other part of the Service.
type ExportedService struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ExportedServiceSpec
}

// ExportedServiceSpec describes the ServiceImport that would result if only
// this cluster exported the service.
type ExportedServiceSpec struct {
	// Cluster is the ID of the exporting cluster.
	Cluster string
	// Service is the name of the Service.
	Service string
	// ExportedAt is the creation time of the ServiceExport.
	ExportedAt metav1.Time
	// EffectiveAt is the time at which the export took effect: the creation of
	// the ServiceExport, or the time at which the cluster joined the
	// ClusterSet, whichever is later. Importing clusters take the time of joining
	// from the member Secret, if the Secret has it, and relays pass the result on.
	// The oldest export takes precedence.
	EffectiveAt           metav1.Time
	Type                  ServiceType
	Ports                 []ServicePort
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	IPFamilies            []corev1.IPFamily
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
	// ClusterPreference lists the tiers of clusters that should answer, the most
	// preferred first. All clusters follow. Tiers of newer releases are not known
	// here. Clusters of older releases have none.
	ClusterPreference []string
	// PreferenceMinReady is how many ready endpoints a tier needs to be used. Zero
	// means one.
	PreferenceMinReady  int32
	ExportedLabels      map[string]string
	ExportedAnnotations map[string]string
	// UseClusterSetIP indicates whether the export requests a shared ClusterSet
	// IP.
	UseClusterSetIP bool
	// ClusterSetIP is the decision about the shared ClusterSet IP that the
	// exporting cluster has recorded, regardless of what the export requests
	// now. Nil until the decision is made.
	ClusterSetIP *ClusterSetIPDecision
	// Audience are the clusters that may read the object. Nil if all may.
	Audience *Audience
	// Path is the relay path of the object: the IDs of the clusters that passed
	// it on, the exporting cluster first. Empty for exports of this cluster.
	Path []string
}

// Audience are the clusters that an export is for, besides the exporting cluster. It
// is a struct so that no audience is not taken for one that nobody belongs to.
type Audience struct {
	// Joined are their IDs, sorted, with a comma before, between and after them: one text, which
	// an export, all its endpoints and what selects them have in common.
	Joined string
}

// MaxAudience limits the clusters of an Audience.
const MaxAudience = 256

// ClusterSetIPDecision records the decision about the shared ClusterSet IP of a
// service. The decision is made when the founding export takes effect and holds
// until the last cluster withdraws the service.
type ClusterSetIPDecision struct {
	// IPs are the shared ClusterSet IPs, at most one per IP family. If empty,
	// every importing cluster allocates its own virtual IP.
	IPs []string
	// DecidedBy is the ID of the cluster with the founding export, which
	// allocated the IPs.
	DecidedBy string
	// Since is the time of the decision, usually the time at which the founding
	// export took effect. The older of two decisions takes precedence.
	Since metav1.Time
	// AdoptedFrom are the IDs of the clusters through which the exporting cluster
	// heard of the decision, the nearest first; of more than 64 the farthest are left
	// out. It is empty if it made the decision itself, or heard of it from the cluster
	// that did. Their decisions are given up when they are expelled.
	AdoptedFrom []string
}

// MaxAdoptedFrom limits through how many clusters a decision may have been heard.
const MaxAdoptedFrom = 64

// MaxPorts limits the ports of an exported Service, and of an import. Services that stand for
// a range of ports have up to a few hundred. The host writes about 150 bytes for each port of
// a derived Service, up to 500 with a long application protocol, whenever one of them changes.
const MaxPorts = 256

// ServiceType designates the type of an exported service.
type ServiceType string

const (
	// ClusterSetIP services are accessible via a ClusterSet IP.
	ClusterSetIP ServiceType = "ClusterSetIP"
	// Headless services have no ClusterSet IP.
	Headless ServiceType = "Headless"
)

// ServicePort represents a port of an exported Service.
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

// ExportedEndpointSlice contains endpoints of an exported Service.
type ExportedEndpointSlice struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ExportedEndpointSliceSpec
}

// ExportedEndpointSliceSpec describes an EndpointSlice of the exporting
// cluster.
type ExportedEndpointSliceSpec struct {
	// Cluster is the ID of the exporting cluster.
	Cluster string
	// Service is the name of the Service.
	Service     string
	AddressType discoveryv1.AddressType
	Endpoints   []discoveryv1.Endpoint
	// Ports have the port names of the Service in the exporting cluster.
	Ports []discoveryv1.EndpointPort
	// Audience is that of the ExportedService. It is set when the object is published, and
	// not sent.
	Audience *Audience
	// Path is the relay path, as in ExportedServiceSpec.
	Path []string
	// ChangedAt is when Pods or the Service changed, because of which the
	// exporting cluster changed the EndpointSlice, by the clock of the cluster
	// that the object is read from. Nil if that is unknown.
	ChangedAt *metav1.MicroTime
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExportedEndpointSliceList is a list of ExportedEndpointSlices.
type ExportedEndpointSliceList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ExportedEndpointSlice
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Member describes a cluster of the ClusterSet as seen from this cluster, this
// cluster included.
type Member struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Status MemberStatus
}

// MemberState summarizes the connection to a member.
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

// Conditions of a Member.
const (
	// MemberAccepted indicates whether the member Secret is valid and the
	// identity of the member matches the Secret.
	MemberAccepted = "Accepted"
	// MemberReachable indicates whether the member responds.
	MemberReachable = "Reachable"
	// MemberSynced indicates whether everything that the member exports is
	// known and accepted.
	MemberSynced = "Synced"
	// MemberMutual indicates whether both clusters list each other and agree on
	// all other members.
	MemberMutual = "Mutual"
	// MemberClusterSetIP indicates whether the cluster can allocate shared
	// ClusterSet IPs. Absent if the cluster has no allocation CIDR.
	MemberClusterSetIP = "ClusterSetIP"
	// MemberEndpointsReachable indicates whether the endpoints of a silent member
	// accept connections from this cluster. Absent while there is nothing to report.
	MemberEndpointsReachable = "EndpointsReachable"
	// MemberExportAges indicates whether the ages that the member claims for its
	// exports are plausible. Unknown if it is unknown when the member joined.
	MemberExportAges = "ExportAges"

	// ReasonNotAssigned is the reason of MemberClusterSetIP if the member claims
	// allocation CIDRs that its Secret does not assign to it.
	ReasonNotAssigned = "NotAssigned"
	// ReasonExpelled is the reason of MemberAccepted if the Secret expels the member.
	ReasonExpelled = "Expelled"
	// ReasonListsOthers is the reason of MemberMutual if the member lists this
	// cluster and also lists clusters that are not members here.
	ReasonListsOthers = "ListsOthers"
	// ReasonBackdated is the reason of MemberExportAges if new exports of the member
	// claim to be older than their arrival allows.
	ReasonBackdated = "Backdated"
	// ReasonNoJoinTime is the reason of MemberExportAges if the Secret does not say
	// when the member joined.
	ReasonNoJoinTime = "NoJoinTime"
	// ReasonUnrecorded is the reason of MemberSynced while what the member exported
	// before this server started is unknown, and nothing of it may be withdrawn.
	ReasonUnrecorded = "Unrecorded"
	// ReasonOutdated is the reason of MemberSynced while another replica may know newer
	// exports of the member, or it was lost and has not been read since, and nothing of it
	// may be changed or withdrawn.
	ReasonOutdated = "Outdated"
	// ReasonReachedElsewhere is the reason of MemberSynced of a cluster that is lost to its
	// hub, or with it, while another replica reaches the cluster itself: that one may know newer
	// exports, and nothing of the cluster may be changed or withdrawn. Hubs do not report it.
	ReasonReachedElsewhere = "ReachedElsewhere"
	// ReasonEndpointsAnswer, ReasonEndpointsSilent, ReasonEndpointsCannotBeAsked,
	// ReasonEndpointsNotAsked and ReasonNoVantagePoint are the reasons of
	// MemberEndpointsReachable.
	ReasonEndpointsAnswer        = "EndpointsAnswer"
	ReasonEndpointsSilent        = "EndpointsSilent"
	ReasonEndpointsCannotBeAsked = "EndpointsCannotBeAsked"
	ReasonEndpointsNotAsked      = "EndpointsNotAsked"
	ReasonNoVantagePoint         = "NoVantagePoint"
	// ReasonInvalidObjects is the reason of MemberSynced if objects of the member are
	// rejected or admitted only in part.
	ReasonInvalidObjects = "InvalidObjects"
	// ReasonTooManyExports and ReasonResponseTooLarge are the reasons of MemberSynced if
	// the member sends more than is read.
	ReasonTooManyExports   = "TooManyExports"
	ReasonResponseTooLarge = "ResponseTooLarge"
)

// ClusterProperty is a ClusterProperty of a cluster.
type ClusterProperty struct {
	Name  string
	Value string
}

// MemberStatus describes the observed state of a member.
type MemberStatus struct {
	// ClusterID is the cluster ID in the member Secret. For this cluster, the
	// value of the ClusterClaim id.k8s.io.
	ClusterID string
	// ClusterUID is the UID of the namespace kube-system of the cluster, which
	// identifies the cluster regardless of its ID.
	ClusterUID types.UID
	// ClusterSet is the ClusterSet that the cluster claims to belong to.
	ClusterSet string
	// Version is the version of mcs-apiserver in the cluster. Empty if the cluster
	// does not report it.
	Version string
	// KubernetesVersion is the version of Kubernetes in the cluster. Empty if the cluster
	// does not report it.
	KubernetesVersion string
	// Properties are ClusterProperties of the cluster besides its ID and its ClusterSet, at
	// most one per name. Set only if the cluster is this one or is read directly.
	Properties []ClusterProperty
	State      MemberState
	// LastSeen is the time of the last successful response to any replica of
	// mcs-apiserver, or the start of the first replica after all of them were down.
	LastSeen *metav1.Time
	// TTLSeconds is how long the member may be silent before it is considered
	// lost.
	TTLSeconds int32
	LostPolicy LostPolicy
	// Expired indicates whether the member has been silent for its TTL, in all
	// replicas of mcs-apiserver. Its endpoints are kept only if they answer, or the
	// lost policy says so.
	Expired bool
	// Overdue indicates whether the member has been silent for one hour longer than
	// its TTL. Its endpoints are not kept, even if they answer, unless the lost
	// policy says so. This does not follow from LastSeen: clocks may be wrong.
	Overdue bool
	// Exports and Endpoints count what is known of the member.
	Exports   int32
	Endpoints int32
	// Synced indicates whether these counts covered everything that the member
	// exports when it was last read.
	Synced bool
	// ClusterSetIPCIDRs are the allocation CIDRs of the cluster.
	ClusterSetIPCIDRs []string
	// ClusterSetIPRanges are the ClusterSet IP ranges that the cluster is
	// configured with.
	ClusterSetIPRanges []string
	// IDClaimedAt is the time since which the cluster has claimed its ID in its
	// ClusterSet. If two clusters claim the same ID, the older claim takes
	// precedence.
	IDClaimedAt *metav1.Time
	// Peers are the IDs of the clusters that the cluster lists as members. Set
	// only on the Member of the local cluster, so that other clusters can
	// compare.
	Peers []string
	// Path is the relay path from the member to this cluster. Empty if the member
	// is read directly.
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
