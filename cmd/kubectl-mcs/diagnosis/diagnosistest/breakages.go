// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosistest has facts about a service that works, and about one that is broken in the twelve
// ways of test/e2e/doctor, for tests of what shows a diagnosis.
package diagnosistest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

// Breakage is a way in which a service is broken.
type Breakage struct {
	// Name is that of test/e2e/doctor.
	Name string
	// Hop and Reason are those of the first thing that is broken, and Message is a part of what is said about it.
	Hop     diagnosis.Hop
	Reason  string
	Message string
	// NeedsPod is true if only a Pod that connects to the service notices it.
	NeedsPod bool

	change func(*diagnosis.Facts)
}

// Facts returns what is known about shop/web, which the west exports and the east imports. Without a Pod,
// less is known.
func (b Breakage) Facts(pod bool) diagnosis.Facts {
	facts := Works()
	b.change(&facts)
	if !pod {
		facts.Probe = diagnosis.Probe{Omitted: "nobody asked for it", Declined: true}
	}
	return facts
}

// Breakages are the twelve ways of test/e2e/doctor.
var Breakages = []Breakage{
	{Name: "no namespace", Hop: diagnosis.Namespace, Message: "does not exist in this cluster", change: func(facts *diagnosis.Facts) {
		path := &facts.Importing.Path
		path.Namespace.Value, path.Import.Value, path.Derived.Value, path.Slices.Value = nil, nil, nil, nil
		facts.Probe = diagnosis.Probe{Omitted: "namespace shop does not exist", Pointless: true}
	}},
	{Name: "no endpoints", Hop: diagnosis.Endpoints, Message: "no endpoints", change: func(facts *diagnosis.Facts) {
		facts.Importing.Path.Endpoints.Value, facts.Importing.Path.Slices.Value = nil, nil
		facts.Probe.Connections = facts.Probe.Connections[:1]
		connect(facts, podprobe.Refused, podprobe.Refused)
	}},
	{Name: "wrong port", Hop: diagnosis.Pods, Message: "refuse connections", NeedsPod: true, change: func(facts *diagnosis.Facts) {
		connect(facts, podprobe.Refused, podprobe.Refused)
	}},
	{Name: "conflicting type", Hop: diagnosis.Conflicts, Reason: "TypeConflict", Message: "type", change: func(facts *diagnosis.Facts) {
		path := &facts.Importing.Path
		path.Exports.Value = append(path.Exports.Value, *clustertest.NewExported("east", time.Minute, clustertest.Headless))
		path.Endpoints.Value = append(path.Endpoints.Value, *clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1"))
		path.Slices.Value = append(path.Slices.Value, importedSlice("east", "10.1.0.1"))
	}},
	{Name: "cut link", Hop: diagnosis.Members, Reason: "Unreachable", Message: "last seen", change: func(facts *diagnosis.Facts) {
		west(facts, clustersetv1alpha1.MemberStale, clusterset.MemberReachable, "Unreachable", "no connection")
		connect(facts, podprobe.TimedOut, podprobe.TimedOut)
	}},
	{Name: "expired credential", Hop: diagnosis.Credentials, Reason: "Unauthorized", Message: "expired", change: func(facts *diagnosis.Facts) {
		west(facts, clustersetv1alpha1.MemberLost, clusterset.MemberReachable, "Unauthorized", "the credential expired at noon")
		connect(facts, podprobe.TimedOut, podprobe.TimedOut)
	}},
	{Name: "wrong ID", Hop: diagnosis.Members, Reason: "WrongClusterID", Message: "Refused", change: func(facts *diagnosis.Facts) {
		west(facts, clustersetv1alpha1.MemberRefused, clusterset.MemberAccepted, "WrongClusterID", `cluster ID is "north"`)
		path := &facts.Importing.Path
		path.Exports.Value, path.Endpoints.Value, path.Import.Value, path.Derived.Value, path.Slices.Value = nil, nil, nil, nil, nil
		facts.Probe = diagnosis.Probe{Omitted: "the service is not imported", Pointless: true}
	}},
	{Name: "no DNS block", Hop: diagnosis.DNS, Message: "server block", change: func(facts *diagnosis.Facts) {
		facts.Importing.Host.DNS = []plan.DNSFinding{{Message: "the Corefile has no server block for clusterset.local", Remedy: "run `kubectl mcs dns enable --context east-admin`"}}
		facts.Probe.Lookup.Outcome, facts.Probe.Lookup.Addresses = podprobe.NotFound, nil
	}},
	{Name: "kube-proxy stopped", Hop: diagnosis.Proxy, Message: "does not route", NeedsPod: true, change: func(facts *diagnosis.Facts) {
		connect(facts, podprobe.TimedOut, podprobe.Succeeded)
	}},
	{Name: "packets are dropped", Hop: diagnosis.Pods, Message: "packets are dropped", NeedsPod: true, change: func(facts *diagnosis.Facts) {
		connect(facts, podprobe.TimedOut, podprobe.TimedOut)
	}},
	{Name: "server is down", Hop: diagnosis.Server, Message: "replicas", change: func(facts *diagnosis.Facts) {
		unserved(facts)
		facts.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService is not available: no endpoints"}
		facts.Importing.Deployment.Value.Ready, facts.Importing.Deployment.Value.Replicas = 0, 0
	}},
	{Name: "CRD in the way", Hop: diagnosis.Registration, Reason: "RegistrationRefused", Message: "serviceexports.multicluster.x-k8s.io", change: func(facts *diagnosis.Facts) {
		unserved(facts)
		facts.Importing.Host.API = plan.API{Observed: true, Conflicts: []string{"CustomResourceDefinition serviceexports.multicluster.x-k8s.io serves v1alpha1"}, Unavailable: "APIService does not exist"}
		facts.Importing.Deployment.Value.Ready = 0
	}},
}

const version = "v0.1.0"

// Works returns facts about shop/web, which responds.
func Works() diagnosis.Facts {
	versioned := func(status *clustersetv1alpha1.MemberStatus) { status.Version = version }
	derived := clustertest.NewService(multicluster.DerivedServiceName("shop", "web"), func(service *corev1.Service) {
		service.Labels = map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}
		service.Spec.ClusterIPs = []string{"10.0.0.7"}
	})
	importing := diagnosis.Cluster{
		Context: "east-admin", InstalledIn: "mcs-system",
		Host: plan.Facts{
			Context: "east-admin", Kubernetes: "v1.36.3", Clock: &plan.Clock{Least: -time.Second, Most: time.Second}, API: plan.API{Observed: true},
			Proxy: &plan.Proxy{Mode: "nftables", Source: "kube-system/kube-proxy"}, DNS: []plan.DNSFinding{{OK: true, Message: "serves"}},
		},
		Deployment: diagnosis.Of(&diagnosis.Deployment{Namespace: "mcs-system", Name: "mcs-apiserver", Replicas: 2, Ready: 2, Image: "mcs-controller:" + version}),
		Lease:      diagnosis.Of(&diagnosis.Lease{Namespace: "mcs-system", Name: "mcs-controller", Holder: "pod-1", Renewed: clustertest.Noon, ReadAt: clustertest.Noon, Duration: 5 * time.Second}),
		Members: diagnosis.Of([]clustersetv1alpha1.Member{
			*clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, versioned), *clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, versioned),
		}),
		Credentials: diagnosis.Of([]diagnosis.Credential{{ClusterID: "west", Secret: "member-west", Issued: clustertest.Noon.Add(-time.Hour), Expires: clustertest.Noon.Add(23 * time.Hour)}}),
		Path: diagnosis.Path{
			Exports:   diagnosis.Of([]clustersetv1alpha1.ExportedService{*clustertest.NewExported("west", time.Hour)}),
			Endpoints: diagnosis.Of([]clustersetv1alpha1.ExportedEndpointSlice{*clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1", "10.2.0.2")}),
			Namespace: diagnosis.Of(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}),
			Import:    diagnosis.Of(clustertest.NewImport()), Derived: diagnosis.Of(derived),
			Slices: diagnosis.Of([]discoveryv1.EndpointSlice{importedSlice("west", "10.2.0.1", "10.2.0.2")}),
		},
	}
	facts := diagnosis.Facts{Now: clustertest.Noon, Client: version, Namespace: "shop", Service: "web", Importing: importing}
	facts.Probe.Node = "node-1"
	facts.Probe.Lookup = &podprobe.Lookup{Name: "web.shop.svc.clusterset.local", Addresses: []string{"10.0.0.7"}, Outcome: podprobe.Succeeded, Servers: []string{"10.0.0.10"}}
	facts.Probe.Connections = []diagnosis.Connection{
		{Connection: podprobe.Connection{Address: "10.0.0.7:80"}},
		{Connection: podprobe.Connection{Address: "10.2.0.1:8080"}, Cluster: "west"},
		{Connection: podprobe.Connection{Address: "10.2.0.2:8080"}, Cluster: "west"},
	}
	connect(&facts, podprobe.Succeeded, podprobe.Succeeded)
	return facts
}

func importedSlice(cluster string, addresses ...string) discoveryv1.EndpointSlice {
	source := clustertest.NewSlice(cluster, discoveryv1.AddressTypeIPv4, addresses...)
	return discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived-web-" + cluster, Labels: map[string]string{multicluster.SourceClusterLabel: cluster}},
		Endpoints:  source.Spec.Endpoints, Ports: source.Spec.Ports, AddressType: source.Spec.AddressType,
	}
}

// connect sets how connections end: by the IP of the service, and to the endpoints.
func connect(facts *diagnosis.Facts, ip, endpoints podprobe.Outcome) {
	for i := range facts.Probe.Connections {
		facts.Probe.Connections[i].Outcome = endpoints
	}
	facts.Probe.Connections[0].Outcome = ip
}

// west sets the state of the member west, with the condition that is the reason.
func west(facts *diagnosis.Facts, state clustersetv1alpha1.MemberState, condition, reason, message string) {
	facts.Importing.Members.Value[1] = *clustertest.NewMember("west", state, clustertest.Seen(time.Minute), clustertest.Condition(condition, metav1.ConditionFalse, reason, message),
		func(status *clustersetv1alpha1.MemberStatus) { status.Version = version })
}

// unserved is the API of mcs-apiserver not being served. What was imported before responds.
func unserved(facts *diagnosis.Facts) {
	const why = "the server is currently unable to handle the request"
	facts.Importing.Members = diagnosis.Read[[]clustersetv1alpha1.Member]{Failure: why, Unserved: true}
	facts.Importing.Path.Exports = diagnosis.Read[[]clustersetv1alpha1.ExportedService]{Failure: why, Unserved: true}
	facts.Importing.Path.Endpoints = diagnosis.Read[[]clustersetv1alpha1.ExportedEndpointSlice]{Failure: why, Unserved: true}
	facts.Importing.Path.Import = diagnosis.Read[*multiclusterxv1beta1.ServiceImport]{Failure: why, Unserved: true}
}
