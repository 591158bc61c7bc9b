// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

// Facts are what is known about a ClusterSet and, if it has a name, about a service in it.
type Facts struct {
	Now time.Time
	// Client is the version of this program.
	Client string
	// Namespace and Service are empty for the ClusterSet.
	Namespace, Service string
	// Importing is the cluster whose view is explained, Others are those of other contexts.
	Importing Cluster
	Others    []Cluster
	// Probe is what was seen from a Pod.
	Probe Probe
}

// Read is something that was read, or why it could not be. The zero value was read, and is
// empty.
type Read[T any] struct {
	Value T
	// Failure is empty if it was read.
	Failure string
	// Unserved is true if the failure is that its API is not served.
	Unserved bool
}

// Of returns something that was read.
func Of[T any](value T) Read[T] { return Read[T]{Value: value} }

// Failed returns something that could not be read.
func Failed[T any](why string) Read[T] { return Read[T]{Failure: why} }

// Cluster is what is known about one cluster.
type Cluster struct {
	Context string
	// Silent is why the kube-apiserver did not answer: nothing else is known.
	Silent string
	// Host has what is also checked before a cluster joins: the registration of the API, the
	// versions, the clock, kube-proxy and DNS.
	Host plan.Facts
	// InstalledIn is the namespace of mcs-apiserver. Deployment is nil if it is not installed there.
	InstalledIn string
	Deployment  Read[*Deployment]
	// Lease is that of mcs-controller, nil if there is none.
	Lease Read[*Lease]
	// Members are those in the view of this cluster, with itself.
	Members Read[[]clustersetv1alpha1.Member]
	// Credentials are those with which this cluster reads its members.
	Credentials Read[[]Credential]
	// Path is empty without a service.
	Path Path
}

// Deployment is the installation of mcs-apiserver.
type Deployment struct {
	Namespace, Name  string
	Replicas, Ready  int32
	UnreadyBecauseOf string
	// Reason and Message are those of the latest warning about the Deployment.
	Reason, Message string
	// Image is that of mcs-controller, and NodeSelector and Tolerations say where it may run.
	Image        string
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// Lease says which replica of mcs-controller writes derived objects.
type Lease struct {
	Namespace, Name string
	Holder          string
	Renewed         time.Time
	// ReadAt is when the Lease was read, by the clock of this machine. Whatever takes longer says nothing
	// about the Lease.
	ReadAt   time.Time
	Duration time.Duration
}

// Credential is the token of a member Secret, or the renewed one.
type Credential struct {
	ClusterID, Secret string
	Issued, Expires   time.Time
}

// Path is what is known about a service in one cluster.
type Path struct {
	// Exports and Endpoints are those of all clusters that this one knows.
	Exports   Read[[]clustersetv1alpha1.ExportedService]
	Endpoints Read[[]clustersetv1alpha1.ExportedEndpointSlice]
	// Elsewhere are other namespaces in which a service of the name is exported.
	Elsewhere []string
	// ServiceExport and Service are those of this cluster, nil if there are none.
	ServiceExport Read[*multiclusterxv1beta1.ServiceExport]
	Service       Read[*corev1.Service]
	// Namespace is nil if it does not exist.
	Namespace Read[*corev1.Namespace]
	// Import is nil if the service is not imported.
	Import Read[*multiclusterxv1beta1.ServiceImport]
	// Derived is the Service with the name of the derived Service, nil if there is none.
	Derived Read[*corev1.Service]
	// Slices are the imported EndpointSlices.
	Slices Read[[]discoveryv1.EndpointSlice]
	// Egress are the NetworkPolicies of the namespace that restrict what the Pod of the probe connects to.
	Egress Read[[]string]
}

// Probe is what was seen from a Pod in the namespace of the service.
type Probe struct {
	// Omitted is why there was no Pod, and Remedy what to do about it.
	Omitted, Remedy string
	// Pointless is true if there was nothing to try, and Declined if the user wants no Pod.
	Pointless, Declined bool
	// LeftBehind is the name of the Pod if it could not be deleted, and Undeleted is why.
	LeftBehind, Undeleted string
	// Labeled is true if the user chose labels of the Pod, so that it is like those of an application.
	Labeled bool
	// Node is where the Pod ran.
	Node string
	// Lookup is nil if nothing was looked up.
	Lookup      *podprobe.Lookup
	Connections []Connection
}

// Connection is an attempt to connect.
type Connection struct {
	podprobe.Connection
	// Cluster is that of the endpoint, empty for the IP of the service.
	Cluster string
}
