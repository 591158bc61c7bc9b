// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

const version = "v0.1.0"

func versioned(status *clustersetv1alpha1.MemberStatus) { status.Version = version }

// host is what is known about the host of a cluster in which all is well.
func host(context string) plan.Facts {
	return plan.Facts{
		Context: context, Kubernetes: "v1.36.3", Clock: &plan.Clock{Least: -time.Second, Most: time.Second}, API: plan.API{Observed: true},
		Proxy: &plan.Proxy{Mode: "nftables", Source: "kube-system/kube-proxy"}, DNS: []plan.DNSFinding{{OK: true, Message: "serves"}},
	}
}

// healthy is a cluster in which all is well. It is east, and the other one is west.
func healthy(id string) Cluster {
	peer := map[string]string{"east": "west", "west": "east"}[id]
	return Cluster{
		Context: id + "-admin", Host: host(id + "-admin"), InstalledIn: "mcs-system",
		Deployment: Of(&Deployment{Namespace: "mcs-system", Name: "mcs-apiserver", Replicas: 2, Ready: 2, Image: "mcs-controller:v0.1.0"}),
		Lease:      Of(&Lease{Namespace: "mcs-system", Name: "mcs-controller", Holder: "pod-1", Renewed: clustertest.Noon.Add(-2 * time.Second), ReadAt: clustertest.Noon, Duration: 5 * time.Second}),
		Members: Of([]clustersetv1alpha1.Member{
			*clustertest.NewMember(id, clustersetv1alpha1.MemberLocal, versioned), *clustertest.NewMember(peer, clustersetv1alpha1.MemberConnected, versioned),
		}),
		Credentials: Of([]Credential{{ClusterID: peer, Secret: "member-" + peer, Issued: clustertest.Noon.Add(-time.Hour), Expires: clustertest.Noon.Add(23 * time.Hour)}}),
	}
}

// imported is a slice of the import of shop/web in the east.
func imported(cluster string, addresses ...string) discoveryv1.EndpointSlice {
	source := clustertest.NewSlice(cluster, discoveryv1.AddressTypeIPv4, addresses...)
	return discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived-web-" + cluster, Labels: map[string]string{multicluster.SourceClusterLabel: cluster}},
		Endpoints:  source.Spec.Endpoints, Ports: source.Spec.Ports, AddressType: source.Spec.AddressType,
	}
}

// works are the facts about shop/web, which west exports and east imports.
func works() Facts {
	facts := Facts{Now: clustertest.Noon, Client: version, Namespace: "shop", Service: "web", Importing: healthy("east")}
	derived := clustertest.NewService(multicluster.DerivedServiceName("shop", "web"), func(service *corev1.Service) {
		service.Labels = map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}
		service.Spec.ClusterIPs = []string{"10.0.0.7"}
	})
	facts.Importing.Path = Path{
		Exports:   Of([]clustersetv1alpha1.ExportedService{*clustertest.NewExported("west", time.Hour)}),
		Endpoints: Of([]clustersetv1alpha1.ExportedEndpointSlice{*clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1", "10.2.0.2")}),
		Namespace: Of(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}),
		Import:    Of(clustertest.NewImport()), Derived: Of(derived),
		Slices: Of([]discoveryv1.EndpointSlice{imported("west", "10.2.0.1", "10.2.0.2")}),
	}
	facts.Probe = Probe{
		Node:   "node-1",
		Lookup: &podprobe.Lookup{Name: "web.shop.svc.clusterset.local", Addresses: []string{"10.0.0.7"}, Outcome: podprobe.Succeeded, Servers: []string{"10.0.0.10"}},
		Connections: []Connection{
			connected("10.0.0.7:80", ""), connected("10.2.0.1:8080", "west"), connected("10.2.0.2:8080", "west"),
		},
	}
	return facts
}

func connected(address, cluster string) Connection {
	return Connection{podprobe.Connection{Address: address, Outcome: podprobe.Succeeded}, cluster}
}

// withWest adds the context of the west.
func withWest(change func(*Cluster)) func(*Facts) {
	return func(facts *Facts) {
		west := healthy("west")
		change(&west)
		facts.Others = append(facts.Others, west)
	}
}

// both makes several changes.
func both(changes ...func(*Facts)) func(*Facts) {
	return func(facts *Facts) {
		for _, change := range changes {
			change(facts)
		}
	}
}

// west changes the member west in the view of the east.
func west(state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) func(*Facts) {
	return func(facts *Facts) {
		facts.Importing.Members.Value[1] = *clustertest.NewMember("west", state, append(changes, versioned)...)
	}
}

// relayed is what the status of a cluster has that the hub relays.
func relayed(status *clustersetv1alpha1.MemberStatus) {
	status.Path = []string{status.ClusterID, "hub"}
}

// behindHub adds the member hub, as the east sees it.
func behindHub(state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) func(*Facts) {
	return func(facts *Facts) {
		facts.Importing.Members.Value = append(facts.Importing.Members.Value, *clustertest.NewMember("hub", state, append(changes, versioned)...))
	}
}

// unserved is the API of mcs-apiserver not being served.
func unserved(facts *Facts) {
	const why = "the server is currently unable to handle the request"
	facts.Importing.Members = Read[[]clustersetv1alpha1.Member]{Failure: why, Unserved: true}
	facts.Importing.Path.Exports = Read[[]clustersetv1alpha1.ExportedService]{Failure: why, Unserved: true}
	facts.Importing.Path.Endpoints = Read[[]clustersetv1alpha1.ExportedEndpointSlice]{Failure: why, Unserved: true}
	facts.Importing.Path.Import = Read[*multiclusterxv1beta1.ServiceImport]{Failure: why, Unserved: true}
}

// noPod is a probe that was not possible.
func noPod(facts *Facts) { facts.Probe = Probe{Omitted: "pods is forbidden"} }

// attempts sets how connections end: by the IP of the service, and to the endpoints.
func attempts(ip, endpoints podprobe.Outcome) func(*Facts) {
	return func(facts *Facts) {
		for i := range facts.Probe.Connections {
			facts.Probe.Connections[i].Outcome = endpoints
		}
		facts.Probe.Connections[0].Outcome = ip
	}
}

func condition(name, reason, message string) func(*clustersetv1alpha1.MemberStatus) {
	return clustertest.Condition(name, metav1.ConditionFalse, reason, message)
}

func serviceExport(conditions ...metav1.Condition) Read[*multiclusterxv1beta1.ServiceExport] {
	return Of(clustertest.NewServiceExport("web", conditions...))
}

func isTrue(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue}
}

func isFalse(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// nothingExported removes all traces of the service in the importing cluster.
func nothingExported(facts *Facts) {
	path := &facts.Importing.Path
	path.Exports.Value, path.Endpoints.Value, path.Slices.Value = nil, nil, nil
	path.Import, path.Derived = Read[*multiclusterxv1beta1.ServiceImport]{}, Read[*corev1.Service]{}
	noPod(facts)
}

// doesNotImport is a namespace into which nothing of other clusters is imported.
func doesNotImport(facts *Facts) {
	facts.Importing.Path.Namespace.Value.Annotations = map[string]string{clusterset.ImportAnnotation: clusterset.ImportDisabled}
}

// exportsTo is a ServiceExport in the west that lists clusters.
func exportsTo(clusters string) func(*Facts) {
	return withWest(func(c *Cluster) {
		c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready"))
		c.Path.ServiceExport.Value.Annotations = map[string]string{multicluster.ExportToAnnotation: clusters}
	})
}

// withCondition makes the ServiceExport in the west not ready.
func withCondition(reason string) func(*Facts) {
	return func(facts *Facts) {
		facts.Others[0].Path.ServiceExport.Value.Status.Conditions[1] = isFalse("Ready", reason, "no listed cluster can import the Service")
	}
}

// throughHub makes a hub relay the west to the east, and the east to the west, which knows the ClusterProperties of
// the hub.
func throughHub(facts *Facts) {
	west(clustersetv1alpha1.MemberConnected, relayed)(facts)
	behindHub(clustersetv1alpha1.MemberConnected)(facts)
	members := &facts.Others[0].Members
	relayed(&members.Value[1].Status)
	members.Value = append(members.Value, *clustertest.NewMember("hub", clustersetv1alpha1.MemberConnected, versioned))
	for _, hub := range []*clustersetv1alpha1.Member{&members.Value[2], &facts.Importing.Members.Value[2]} {
		hub.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "size", Value: "small"}}
	}
}

// property adds a ClusterProperty to a member, in the view of the east.
func property(cluster, name, value string) func(*Facts) {
	return func(facts *Facts) {
		for i := range facts.Importing.Members.Value {
			if member := &facts.Importing.Members.Value[i]; member.Name == cluster {
				member.Status.Properties = append(member.Status.Properties, clustersetv1alpha1.ClusterProperty{Name: name, Value: value})
			}
		}
	}
}

// importsFrom is a namespace that imports from some clusters.
func importsFrom(clusters string) func(*Facts) {
	return func(facts *Facts) {
		facts.Importing.Path.Namespace.Value.Annotations = map[string]string{clusterset.ImportFromAnnotation: clusters}
	}
}

// alsoExportedBy adds an export by another cluster, with ready endpoints.
func alsoExportedBy(cluster, address string) func(*Facts) {
	return func(facts *Facts) {
		path := &facts.Importing.Path
		path.Exports.Value = append(path.Exports.Value, *clustertest.NewExported(cluster, time.Minute))
		path.Endpoints.Value = append(path.Endpoints.Value, *clustertest.NewSlice(cluster, discoveryv1.AddressTypeIPv4, address))
		path.Slices.Value = append(path.Slices.Value, imported(cluster, address))
	}
}

// withNorth adds the context of the north, which does not export the service.
func withNorth(change func(*Cluster)) func(*Facts) {
	return func(facts *Facts) {
		north := healthy("west")
		north.Context, north.Host.Context = "north-admin", "north-admin"
		north.Members.Value = []clustersetv1alpha1.Member{*clustertest.NewMember("north", clustersetv1alpha1.MemberLocal, versioned)}
		change(&north)
		facts.Others = append(facts.Others, north)
		facts.Importing.Members.Value = append(facts.Importing.Members.Value, *clustertest.NewMember("north", clustersetv1alpha1.MemberConnected, versioned))
	}
}

// breakage is a way in which something is broken, and what should be found.
type breakage struct {
	name   string
	change func(*Facts)
	// hop is the first one that is broken, reason the one given for it.
	hop    Hop
	reason string
	// context is where something is to be done.
	context string
	// want is in the message and in what to do.
	want []string
	// consequences are the hops that are broken because of it.
	consequences []Hop
}

var breakages = []breakage{
	{"API is detached", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Detached: true, Unavailable: "APIService v1alpha1.clusterset.mcs-apiserver.io does not exist"}
	}), Registration, "Detached", "east-admin", []string{"kubectl mcs attach east-admin"}, []Hop{API}},
	{"CRD in the way", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Conflicts: []string{"CustomResourceDefinition serviceexports.multicluster.x-k8s.io serves v1alpha1"}, Unavailable: "APIService does not exist"}
		f.Importing.Deployment.Value.Ready = 0
	}), Registration, "RegistrationRefused", "east-admin", []string{"serviceexports.multicluster.x-k8s.io", "kubectl mcs migrate east-admin"}, []Hop{Server, API}},
	{"not installed", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService does not exist"}
		f.Importing.Deployment, f.Importing.Lease = Read[*Deployment]{}, Read[*Lease]{}
	}), Server, "", "east-admin", []string{"not installed in namespace mcs-system", "docs/install.md"}, []Hop{API}},
	{"server is down", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService is not available: no endpoints"}
		f.Importing.Deployment.Value.Ready, f.Importing.Deployment.Value.UnreadyBecauseOf = 0, "ImagePullBackOff"
		f.Importing.Lease.Value.Renewed = clustertest.Noon.Add(-time.Hour)
	}), Server, "", "east-admin", []string{"none of 2 replicas", "ImagePullBackOff", "describe deployment -n mcs-system mcs-apiserver"}, []Hop{API, Controller}},
	{"server is scaled to zero", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService is not available: no endpoints"}
		f.Importing.Deployment.Value.Ready, f.Importing.Deployment.Value.Replicas = 0, 0
	}), Server, "", "east-admin", []string{"no replicas", "scale deployment"}, []Hop{API}},
	{"storage is lost", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService is not available: no endpoints"}
		f.Importing.Deployment.Value.Ready, f.Importing.Deployment.Value.Reason, f.Importing.Deployment.Value.Message = 0, "StorageUnavailable", "state was lost"
	}), Server, "StorageUnavailable", "east-admin", []string{"state was lost", "#lost-storage"}, []Hop{API}},
	{"kube-apiserver does not reach the server", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{Observed: true, Unavailable: "APIService is not available: timeout"}
	}), API, "", "east-admin", []string{"timeout"}, nil},
	{"API is not served, as a user without permissions sees it", both(unserved, func(f *Facts) {
		f.Importing.Host.API = plan.API{}
		f.Importing.Deployment, f.Importing.Lease = Failed[*Deployment]("forbidden"), Failed[*Lease]("forbidden")
	}), API, "", "east-admin", []string{"not served"}, nil},
	{"API is not served, as a user of the namespace sees it", both(unserved, func(f *Facts) {
		f.Importing.Host.API, f.Importing.Members = plan.API{}, Failed[[]clustersetv1alpha1.Member]("forbidden")
		f.Importing.Deployment, f.Importing.Lease = Failed[*Deployment]("forbidden"), Failed[*Lease]("forbidden")
	}), API, "", "east-admin", []string{"not served"}, nil},
	{"no leader", func(f *Facts) { f.Importing.Lease.Value.Renewed = clustertest.Noon.Add(-time.Minute) }, Controller, "", "east-admin", []string{"has led since 2026-03-01T11:59:00Z", "-c mcs-controller"}, nil},
	{"no ID", func(f *Facts) { f.Importing.Members.Value = nil }, Identity, "", "east-admin", []string{"has no ID", "kubectl mcs join"}, nil},
	{"no ClusterSet", both(nothingExported, func(f *Facts) { f.Importing.Members.Value[0].Status.ClusterSet = "" }), Identity, "NoClusterSet", "east-admin", []string{"kubectl mcs join"}, []Hop{Export, Import, Derived, Slices}},
	{"expired credential", both(west(clustersetv1alpha1.MemberLost, clustertest.Seen(time.Hour), condition(clusterset.MemberReachable, "Unauthorized", "the credential expired at noon")), attempts(podprobe.TimedOut, podprobe.TimedOut)),
		Credentials, "Unauthorized", "east-admin", []string{"expired at noon", "kubectl mcs join", "#renewing-and-revoking-credentials"}, []Hop{Members, Pods, Connect}},
	{"credential has just expired", func(f *Facts) { f.Importing.Credentials.Value[0].Expires = clustertest.Noon.Add(-2 * time.Second) }, Credentials, "Unauthorized", "east-admin", []string{"expired at 2026-03-01T11:59:58Z"}, nil},
	{"cut link", both(west(clustersetv1alpha1.MemberStale, clustertest.Seen(time.Minute), condition(clusterset.MemberReachable, "Unreachable", "no connection")), attempts(podprobe.TimedOut, podprobe.TimedOut)),
		Members, "Unreachable", "east-admin", []string{"Stale, and was last seen at 2026-03-01T11:59:00Z", "no connection", "describe member west", "#condition-reachable"}, []Hop{Pods, Connect}},
	{"lost member", both(west(clustersetv1alpha1.MemberLost, func(s *clustersetv1alpha1.MemberStatus) { s.Expired = true }, condition(clusterset.MemberReachable, "Unreachable", "no connection")),
		attempts(podprobe.Refused, podprobe.TimedOut), func(f *Facts) { f.Importing.Path.Slices.Value = nil }),
		Members, "Unreachable", "east-admin", []string{"Lost"}, []Hop{Slices, Pods, Connect}},
	{"wrong ID", both(nothingExported, west(clustersetv1alpha1.MemberRefused, condition(clusterset.MemberAccepted, "WrongClusterID", `cluster ID is "north"`))),
		Members, "WrongClusterID", "east-admin", []string{"Refused", "north", "#condition-accepted"}, []Hop{Export, Import, Derived, Slices}},
	{"server of the exporting cluster is down", both(west(clustersetv1alpha1.MemberUnavailable, condition(clusterset.MemberReachable, "Unavailable", "API fails")), withWest(func(c *Cluster) {
		c.Members = Read[[]clustersetv1alpha1.Member]{Failure: "unable to handle the request", Unserved: true}
		c.Context, c.Host.Context = "west", "west" // nothing else tells its ID
		c.Deployment.Value.Ready = 0
	}), noPod), Server, "", "west", []string{"--context west describe deployment"}, []Hop{API, Members}},
	{"hub is silent", both(behindHub(clustersetv1alpha1.MemberLost, condition(clusterset.MemberReachable, "Unreachable", "no connection")),
		west(clustersetv1alpha1.MemberLost, relayed, condition(clusterset.MemberReachable, "Unreachable", "reported by hub")), attempts(podprobe.TimedOut, podprobe.TimedOut)),
		Members, "Unreachable", "east-admin", []string{"hub: ", "no connection", "describe member hub"}, []Hop{Members, Pods, Connect}},
	{"hub rejects the credential", both(behindHub(clustersetv1alpha1.MemberLost, condition(clusterset.MemberReachable, "Unauthorized", "the credential expired")),
		west(clustersetv1alpha1.MemberLost, relayed, condition(clusterset.MemberReachable, "Unreachable", "reported by hub")), attempts(podprobe.TimedOut, podprobe.TimedOut)),
		Credentials, "Unauthorized", "east-admin", []string{"hub: ", "kubectl mcs join"}, []Hop{Members, Pods, Connect}},
	{"credential of the hub is rejected", both(behindHub(clustersetv1alpha1.MemberConnected), attempts(podprobe.TimedOut, podprobe.TimedOut),
		west(clustersetv1alpha1.MemberLost, relayed, condition(clusterset.MemberReachable, "Unauthorized", "reported by hub: see Member west in that cluster"))),
		Members, "Unauthorized", "east-admin", []string{"west: ", "relayed by hub hub", "see the member in cluster hub", "describe member hub", "#hubs"}, []Hop{Pods, Connect}},
	{"clocks differ", both(noPod, withWest(func(c *Cluster) {
		c.Host.Clock = &plan.Clock{Least: 10 * time.Minute, Most: 10*time.Minute + time.Second}
		c.Lease.Value.Renewed = clustertest.Noon.Add(10 * time.Minute)
	})), Clocks, "", "east-admin, west-admin", []string{"ahead by 9m59s", "docs/operations.md#clocks"}, nil},
	{"old Kubernetes", both(noPod, func(f *Facts) { f.Importing.Host.Kubernetes = "v1.30.0" }), Versions, "", "east-admin", []string{"v1.30.0"}, nil},
	{"not exported", nothingExported, Export, "", "east-admin", []string{"is not exported by any member", "kubectl mcs export web -n shop"}, []Hop{Import, Derived, Slices}},
	{"exported in another namespace", both(nothingExported, func(f *Facts) { f.Importing.Path.Elsewhere = []string{"office"} }), Export, "", "east-admin", []string{"other namespaces: office"}, []Hop{Import, Derived, Slices}},
	{"not exported, but the Service is there", both(nothingExported, withWest(func(c *Cluster) { c.Path.Service = Of(clustertest.NewService("web")) })), Export, "", "east-admin", []string{"kubectl mcs export web -n shop --context west-admin"}, []Hop{Import, Derived, Slices}},
	{"export without Service", both(nothingExported, withWest(func(c *Cluster) {
		c.Path.ServiceExport = serviceExport(isFalse("Valid", "NoService", "there is no Service web"))
	})), Export, "NoService", "west-admin", []string{"there is no Service", "--context west-admin describe serviceexport web -n shop"}, []Hop{Import, Derived, Slices}},
	{"export was not processed", both(nothingExported, func(f *Facts) { f.Importing.Path.ServiceExport = serviceExport() }), Export, "Pending", "east-admin", []string{"not processed"}, []Hop{Import, Derived, Slices}},
	{"export is refused", both(nothingExported, withWest(func(c *Cluster) { c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready")) }),
		west(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberSynced, "InvalidObjects", "ForbiddenNamespace: 1"))),
		Export, "InvalidObjects", "west-admin", []string{"does not know it", "ForbiddenNamespace", "describe member west"}, []Hop{Import, Derived, Slices}},
	{"exported to others only", both(nothingExported, exportsTo("north,region.example.com=eu")), Export, "NotForThisCluster", "west-admin",
		[]string{"not for this cluster, but for north,region.example.com=eu", "kubectl mcs export web -n shop --context west-admin --to north,region.example.com=eu,east", "#exporting-to-chosen-clusters"}, []Hop{Import, Derived, Slices}},
	{"exported to others only, and nobody else can import it", both(nothingExported, exportsTo("nroth"), withCondition("NoMatchingCluster")), Export, "NotForThisCluster", "west-admin", []string{"not for this cluster, but for nroth", "--to nroth,east"}, []Hop{Import, Derived, Slices}},
	{"exported to this cluster, which cannot import it", both(nothingExported, exportsTo("east"), withCondition("NoMatchingCluster")), Export, "NoMatchingCluster", "west-admin", []string{"no listed cluster can import"}, []Hop{Import, Derived, Slices}},
	{"exported by an invalid list", both(nothingExported, exportsTo("North"), withCondition("InvalidClusterList")), Export, "InvalidClusterList", "west-admin",
		[]string{"for no other cluster, because annotation clusterset.mcs-apiserver.io/export-to is not valid", `"North" is no cluster ID`, "--to east"}, []Hop{Import, Derived, Slices}},
	{"exported to others only, through a hub", both(nothingExported, exportsTo("hub,north"), throughHub), Export, "NotForThisCluster", "west-admin",
		[]string{"not for this cluster, but for hub,north", "--to hub,north,east"}, []Hop{Import, Derived, Slices}},
	{"exported to others only, and not to the hub either", both(nothingExported, exportsTo("north"), throughHub), Export, "NotForThisCluster", "west-admin",
		[]string{"not for this cluster, but for north; hub hub, through which this cluster reads it, is not listed", "--to north,east,hub"}, []Hop{Import, Derived, Slices}},
	{"exported to this cluster, but not to the hub", both(nothingExported, exportsTo("east"), throughHub), Export, "HubNotListed", "west-admin",
		[]string{"is for this cluster, but hub hub, through which this cluster reads it, is not listed, and does not see it", "--to east,hub"}, []Hop{Import, Derived, Slices}},
	{"exported to this cluster and the hub, and not arrived", both(nothingExported, exportsTo("east,size=small"), throughHub), Export, "", "west-admin", []string{"does not know it"}, []Hop{Import, Derived, Slices}},
	{"exported to clusters with a property, and the one of this cluster is not known there", both(nothingExported, exportsTo("size=small"), throughHub, property("east", "size", "small")), Export, "PropertiesUnknown", "west-admin",
		[]string{"is for size=small, which this cluster has, but the exporting cluster does not know ClusterProperties of clusters behind a hub", "--to size=small,east"}, []Hop{Import, Derived, Slices}},
	{"exported to this cluster, and not arrived", both(nothingExported, exportsTo("east")), Export, "", "west-admin", []string{"does not know it"}, []Hop{Import, Derived, Slices}},
	{"exported to clusters with a property whose value is not for a shell", both(nothingExported, exportsTo("size=it's $(small); big")), Export, "NotForThisCluster", "west-admin",
		[]string{`--to 'size=it'\''s $(small); big,east'`}, []Hop{Import, Derived, Slices}},
	{"not imported from clusters with a property whose value is not for a shell", both(nothingExported, importsFrom("size=$(small)"), withWest(func(c *Cluster) { c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready")) })), Export, "NotImportedFrom", "west-admin",
		[]string{"--overwrite 'clusterset.mcs-apiserver.io/import-from=size=$(small),west'"}, []Hop{Import, Derived, Slices}},
	{"not imported from there", both(nothingExported, importsFrom("north"), withWest(func(c *Cluster) { c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready")) })), Export, "NotImportedFrom", "west-admin",
		[]string{"namespace shop of this cluster does not import from there, only from north", "annotate namespace shop --overwrite clusterset.mcs-apiserver.io/import-from=north,west"}, []Hop{Import, Derived, Slices}},
	{"imported from an invalid list", both(nothingExported, importsFrom("West,"), withWest(func(c *Cluster) { c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready")) })), Namespace, "InvalidClusterList", "east-admin",
		[]string{"namespace shop imports from no other cluster, because annotation clusterset.mcs-apiserver.io/import-from is not valid", `"West" is no cluster ID`, "superfluous comma", "annotate namespace shop clusterset.mcs-apiserver.io/import-from-"}, []Hop{Import, Derived, Slices}},
	{"not imported, and exported there", both(nothingExported, doesNotImport, withWest(func(c *Cluster) { c.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready")) })), Namespace, "", "east-admin",
		[]string{"keeps services of other clusters from being imported"}, []Hop{Import, Derived, Slices}},
	{"not exported by those that are imported from", both(nothingExported, importsFrom("north")), Export, "", "east-admin", []string{"its namespace imports from (annotation clusterset.mcs-apiserver.io/import-from: north)"}, []Hop{Import, Derived, Slices}},
	{"no endpoints", both(func(f *Facts) { f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil }, attempts(podprobe.Refused, podprobe.Refused), func(f *Facts) { f.Probe.Connections = f.Probe.Connections[:1] }),
		Endpoints, "", "east-admin", []string{"has no endpoints", "in cluster west", "kubectl describe service web -n shop"}, []Hop{Slices, Connect}},
	{"no endpoints, and the context of the exporting cluster", both(func(f *Facts) { f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil }, noPod, withWest(func(*Cluster) {})),
		Endpoints, "", "west-admin", []string{"kubectl --context west-admin describe service web -n shop"}, []Hop{Slices}},
	{"endpoints are refused", both(func(f *Facts) { f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil }, noPod, withWest(func(*Cluster) {}),
		west(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberSynced, "InvalidObjects", "2 objects are rejected (ForbiddenAddress: 2), the first: 10.0.0.1 is in the Service CIDR"))),
		Endpoints, "InvalidObjects", "east-admin", []string{"knows no endpoints", "ForbiddenAddress: 2", "--context east-admin describe member west", "#pod-networks"}, []Hop{Slices}},
	{"member exports too much", both(func(f *Facts) { f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil }, noPod,
		west(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberSynced, "TooManyExports", "more than 50000 objects"))),
		Endpoints, "TooManyExports", "east-admin", []string{"more than 50000 objects", "#limits-of-a-member"}, []Hop{Slices}},
	{"hub sends too much", both(func(f *Facts) { f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil }, noPod,
		behindHub(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberSynced, "InvalidObjects", "1 object is rejected (MemoryLimit: 1)")), west(clustersetv1alpha1.MemberConnected, relayed)),
		Endpoints, "InvalidObjects", "east-admin", []string{"MemoryLimit", "describe member hub", "#limits-of-a-member"}, []Hop{Slices}},
	{"endpoints of a silent member are dead, although another cluster exports the service", both(alsoExportedBy("east", "10.1.0.1"),
		west(clustersetv1alpha1.MemberStale, condition(clusterset.MemberReachable, "Unreachable", "no connection")), attempts(podprobe.Succeeded, podprobe.TimedOut)),
		Members, "Unreachable", "east-admin", []string{"west: ", "no connection"}, []Hop{Pods}},
	{"no ready endpoints", both(func(f *Facts) {
		f.Importing.Path.Endpoints.Value = []clustersetv1alpha1.ExportedEndpointSlice{*clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "!10.2.0.1")}
		f.Importing.Path.Slices.Value = []discoveryv1.EndpointSlice{imported("west", "!10.2.0.1")}
	}, noPod), Endpoints, "", "east-admin", []string{"none of 1 endpoints"}, []Hop{Slices}},
	{"port that no Pod has", both(func(f *Facts) {
		f.Importing.Path.Exports.Value[0].Spec.Ports = append(f.Importing.Path.Exports.Value[0].Spec.Ports, clustersetv1alpha1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090})
	}, noPod), Endpoints, "", "east-admin", []string{"port metrics:9090/TCP has no endpoints", "targetPort"}, nil},
	{"conflicting type", func(f *Facts) {
		f.Importing.Path.Exports.Value = append(f.Importing.Path.Exports.Value, *clustertest.NewExported("east", time.Minute, clustertest.Headless))
		f.Importing.Path.Endpoints.Value = append(f.Importing.Path.Endpoints.Value, *clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1"))
		f.Importing.Path.Slices.Value = append(f.Importing.Path.Slices.Value, imported("east", "10.1.0.1"))
	}, Conflicts, "TypeConflict", "east-admin", []string{"kubectl mcs explain web -n shop --context east-admin"}, nil},
	{"no namespace", both(func(f *Facts) {
		f.Importing.Path.Namespace.Value, f.Importing.Path.Import.Value, f.Importing.Path.Derived.Value, f.Importing.Path.Slices.Value = nil, nil, nil, nil
	}, noPod), Namespace, "", "east-admin", []string{"namespace shop does not exist", "kubectl --context east-admin create namespace shop"}, []Hop{Import, Derived, Slices}},
	{"namespace is being deleted", both(func(f *Facts) {
		f.Importing.Path.Namespace.Value.Status.Phase = corev1.NamespaceTerminating
	}, noPod), Namespace, "", "east-admin", []string{"is being deleted"}, nil},
	{"namespace does not import", both(nothingExported, doesNotImport), Namespace, "", "east-admin", []string{"annotate namespace shop clusterset.mcs-apiserver.io/import-"}, []Hop{Import, Derived, Slices}},
	{"not imported", both(func(f *Facts) {
		f.Importing.Path.Import.Value, f.Importing.Path.Derived.Value, f.Importing.Path.Slices.Value = nil, nil, nil
	}, noPod), Import, "", "east-admin", []string{"not imported"}, []Hop{Derived, Slices}},
	{"import is not ready", both(func(f *Facts) {
		f.Importing.Path.Import.Value.Status.Conditions = []metav1.Condition{isFalse("Ready", "IPFamilyNotSupported", "only IPv6")}
	}, noPod), Import, "IPFamilyNotSupported", "east-admin", []string{"only IPv6", "docs/conditions.md#serviceimports"}, nil},
	{"no derived Service", both(func(f *Facts) { f.Importing.Path.Derived.Value, f.Importing.Path.Slices.Value = nil, nil }, noPod), Derived, "", "east-admin", []string{"does not exist"}, []Hop{Slices}},
	{"name of the derived Service is taken", both(func(f *Facts) { f.Importing.Path.Derived.Value.Labels = nil }, noPod), Derived, "", "east-admin", []string{"name conflict", "delete service derived-"}, nil},
	{"derived Service has another IP", both(noPod, func(f *Facts) { f.Importing.Path.Derived.Value.Spec.ClusterIPs = []string{"10.0.0.8"} }), Derived, "", "east-admin", []string{"IPs of the import: 10.0.0.7"}, nil},
	{"endpoints are not imported", both(func(f *Facts) { f.Importing.Path.Slices.Value = nil }, noPod), Slices, "", "east-admin", []string{"2 endpoints are ready, but none"}, nil},
	{"no imported EndpointSlices while exports may not be read", both(noPod, func(f *Facts) {
		f.Importing.Path.Exports, f.Importing.Path.Endpoints = Failed[[]clustersetv1alpha1.ExportedService]("forbidden"), Failed[[]clustersetv1alpha1.ExportedEndpointSlice]("forbidden")
		f.Importing.Path.Slices.Value = nil
	}), Slices, "", "east-admin", []string{"no imported EndpointSlice"}, nil},
	{"no DNS block", both(func(f *Facts) {
		f.Importing.Host.DNS = []plan.DNSFinding{{Message: "the Corefile has no server block for clusterset.local", Remedy: "run `kubectl mcs dns enable --context east-admin`"}}
		f.Probe.Lookup.Outcome, f.Probe.Lookup.Addresses = podprobe.NotFound, nil
	}), DNS, "", "east-admin", []string{"no server block", "kubectl mcs dns enable"}, []Hop{Lookups}},
	{"no kube-proxy", attempts(podprobe.TimedOut, podprobe.Succeeded), Proxy, "", "east-admin", []string{"node node-1", "10.0.0.7:80: no answer in time", "k8s-app=kube-proxy"}, []Hop{Connect}},
	{"kube-proxy knows no endpoints", attempts(podprobe.Refused, podprobe.Succeeded), Proxy, "", "east-admin", []string{"connection refused"}, []Hop{Connect}},
	{"name is unknown", func(f *Facts) { f.Probe.Lookup.Outcome, f.Probe.Lookup.Addresses = podprobe.NotFound, nil }, Lookups, "", "east-admin", []string{"10.0.0.10", "has no name web.shop.svc.clusterset.local"}, nil},
	{"DNS does not answer", both(func(f *Facts) {
		f.Probe.Lookup.Outcome, f.Probe.Lookup.Addresses = podprobe.TimedOut, nil
		f.Importing.Path.Egress, f.Probe.Labeled = Of([]string{"deny-all"}), true
	}), Lookups, "", "east-admin", []string{"in time", "restrict egress of the Pod: deny-all"}, nil},
	{"DNS fails", func(f *Facts) { f.Probe.Lookup.Outcome, f.Probe.Lookup.Error = podprobe.Failed, "server misbehaving" }, Lookups, "", "east-admin", []string{"server misbehaving"}, nil},
	{"DNS has another answer", func(f *Facts) { f.Probe.Lookup.Addresses = []string{"10.0.0.9"} }, Lookups, "", "east-admin", []string{"is 10.0.0.9", "the import has 10.0.0.7"}, nil},
	{"packets are dropped", attempts(podprobe.TimedOut, podprobe.TimedOut), Pods, "", "east-admin", []string{"packets are dropped", "NetworkPolicies", "#pod-networks"}, []Hop{Connect}},
	{"no route", attempts(podprobe.Unreachable, podprobe.Unreachable), Pods, "", "east-admin", []string{"no route"}, []Hop{Connect}},
	{"wrong port", both(attempts(podprobe.Refused, podprobe.Refused), withWest(func(*Cluster) {})), Pods, "", "west-admin", []string{"10.2.0.1:8080: connection refused", "targetPort", "kubectl --context west-admin describe service web -n shop"}, []Hop{Connect}},
	{"IP does not answer, and nor do some endpoints", attempts(podprobe.TimedOut, podprobe.Failed), Pods, "", "east-admin", []string{"failed"}, []Hop{Connect}},
	{"IP does not answer, and no endpoint was asked", both(attempts(podprobe.TimedOut, podprobe.Succeeded), func(f *Facts) { f.Probe.Connections = f.Probe.Connections[:1] }), Connect, "", "east-admin", []string{"10.0.0.7:80"}, nil},
}

// R540, R541, R632: of every way in which a service can be broken, the first hop that is broken is named, with
// what to do, and what follows from it is a consequence.
func TestFirstBrokenHop(t *testing.T) {
	for _, test := range breakages {
		t.Run(test.name, func(t *testing.T) {
			facts := works()
			test.change(&facts)
			report := Diagnose(facts)
			found := report.FirstBroken
			if found == nil {
				t.Fatalf("nothing is broken: %+v", report.Checks)
			}
			text := found.String() + " " + found.WhatToDo()
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
			if found.Hop != test.hop || found.Reason != test.reason || found.Context != test.context || report.Verdict != VerdictBroken {
				t.Errorf("got hop %s, reason %q, context %q, verdict %s", found.Hop, found.Reason, found.Context, report.Verdict)
			}
			var consequences []Hop
			for _, check := range report.Checks {
				if check.Result == Broken && check.ConsequenceOf != "" && !slices.Contains(consequences, check.Hop) {
					consequences = append(consequences, check.Hop)
				}
				if check.Result == Broken && check.Hop != test.hop && check.ConsequenceOf != test.hop {
					t.Errorf("also broken: %+v", check)
				}
			}
			if !slices.Equal(consequences, test.consequences) {
				t.Errorf("consequences %v, want %v", consequences, test.consequences)
			}
			usable(t, report)
		})
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile("[^a-z0-9 -]")
	plugin  = regexp.MustCompile(`kubectl mcs ([a-z]+)`)
)

// usable fails the test unless every problem says what to do, with a section or a command that exists.
func usable(t *testing.T, report Report) {
	t.Helper()
	for _, check := range report.Checks {
		if (check.Result == Broken || check.Result == Warning) && check.Docs == "" {
			t.Errorf("no documentation: %+v", check)
		}
		if check.Command != "" && !strings.HasPrefix(check.Command, "kubectl ") {
			t.Errorf("command %q", check.Command)
		}
		for _, match := range plugin.FindAllStringSubmatch(check.WhatToDo(), -1) {
			if _, err := os.Stat(filepath.Join("../app", match[1])); err != nil {
				t.Errorf("%q: %v", match[0], err)
			}
		}
		if check.Docs != "" && !documented(t, check.Docs) {
			t.Errorf("%s does not exist", check.Docs)
		}
	}
}

// documented reports whether a section of the documentation exists.
func documented(t *testing.T, section string) bool {
	t.Helper()
	file, anchor, _ := strings.Cut(section, "#")
	text, err := os.ReadFile(filepath.Join("../../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(heading.FindAllStringSubmatch(string(text), -1), func(match []string) bool {
		return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-") == anchor
	})
}

// R540: nothing is found where all is well, of a service and of the ClusterSet.
func TestNothingIsBroken(t *testing.T) {
	headless := works()
	headless.Importing.Path.Exports.Value[0].Spec.Type = clustersetv1alpha1.Headless
	headless.Importing.Path.Import.Value.Spec.Type, headless.Importing.Path.Import.Value.Spec.IPs = multiclusterxv1beta1.Headless, nil
	headless.Probe.Lookup.Addresses, headless.Probe.Connections = []string{"10.2.0.1", "10.2.0.2"}, headless.Probe.Connections[1:]
	withOther, clusterSet := works(), works()
	withWest(func(*Cluster) {})(&withOther)
	clusterSet.Namespace, clusterSet.Service, clusterSet.Importing.Path, clusterSet.Probe = "", "", Path{}, Probe{}
	for name, facts := range map[string]Facts{"service": works(), "headless": headless, "two contexts": withOther, "ClusterSet": clusterSet} {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(facts)
			for _, check := range report.Checks {
				if check.Result == Broken || check.Result == Warning {
					t.Errorf("%+v", check)
				}
			}
			if report.Verdict != VerdictOK || report.Verdict.ExitCode() != 0 || report.FirstBroken != nil || report.ClusterID != "east" || report.ClusterSet != "production" {
				t.Errorf("%+v", report)
			}
			if wanted := facts.Service != ""; report.Responds != wanted {
				t.Errorf("responds is %t", report.Responds)
			}
		})
	}
}

// R540: a Lease is judged by when it was read, and times by the clock of the cluster. Nothing is broken because
// something else took long, or because the clock of this machine is wrong.
func TestTimesOfTheCluster(t *testing.T) {
	slow, wrongClock := works(), works()
	slow.Now = clustertest.Noon.Add(2 * time.Minute)
	wrongClock.Now, wrongClock.Importing.Lease.Value.ReadAt = clustertest.Noon.Add(48*time.Hour), clustertest.Noon.Add(48*time.Hour)
	wrongClock.Importing.Host.Clock = &plan.Clock{Least: -48*time.Hour - time.Second, Most: -48*time.Hour + time.Second}
	for name, facts := range map[string]Facts{"slow": slow, "wrong clock": wrongClock} {
		if report := Diagnose(facts); report.Verdict != VerdictOK {
			t.Errorf("%s: %+v", name, report.FirstBroken)
		}
	}
}

// R542: what does not keep the service from responding is warned of.
func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Facts)
		hop    Hop
		want   string
	}{
		{"hidden CRD", func(f *Facts) { f.Importing.Host.API.Hidden = []string{"serviceexports.multicluster.x-k8s.io"} }, Registration, "is hidden"},
		{"one replica", func(f *Facts) { f.Importing.Deployment.Value.Ready = 1 }, Server, "1 of 2 replicas"},
		{"a reader that is not a member", func(f *Facts) {
			condition(clusterset.MemberMutual, "UnlistedReader", "north reads")(&f.Importing.Members.Value[0].Status)
		}, Identity, "UnlistedReader: north reads"},
		{"credential was not renewed", func(f *Facts) { f.Importing.Credentials.Value[0].Expires = clustertest.Noon.Add(time.Minute) }, Credentials, "expires at 2026-03-01T12:01:00Z"},
		{"alone", func(f *Facts) {
			f.Importing.Members.Value, f.Importing.Path.Exports.Value[0].Spec.Cluster = f.Importing.Members.Value[:1], "east"
			f.Importing.Path.Endpoints.Value[0].Spec.Cluster, f.Importing.Path.Slices.Value[0].Labels[multicluster.SourceClusterLabel] = "east", "east"
			f.Importing.Credentials.Value = nil
		}, Members, "no other member"},
		{"member that does not export the service", func(f *Facts) {
			f.Importing.Members.Value = append(f.Importing.Members.Value, *clustertest.NewMember("north", clustersetv1alpha1.MemberLost, condition(clusterset.MemberReachable, "Unauthorized", "expired")))
		}, Credentials, "north: Unauthorized: expired"},
		{"objects are refused", west(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberSynced, "InvalidObjects", "1 object")), Members, "west: InvalidObjects"},
		{"member is new", west(clustersetv1alpha1.MemberConnecting, clustertest.Condition(clusterset.MemberReachable, metav1.ConditionUnknown, "Unknown", "no response yet")), Members, "no response yet"},
		{"the other direction", withWest(func(c *Cluster) {
			c.Members.Value[1] = *clustertest.NewMember("east", clustersetv1alpha1.MemberLost, versioned, condition(clusterset.MemberReachable, "Unreachable", "no connection"))
		}), Members, "cluster west does not import from this one, which is Lost there: no connection"},
		{"another ClusterSet", withWest(func(c *Cluster) { c.Members.Value[0].Status.ClusterSet = "test" }), Members, `in ClusterSet "test"`},
		{"backdated exports", west(clustersetv1alpha1.MemberConnected, condition(clusterset.MemberExportAges, "Backdated", "1 export")), Clocks, "Backdated"},
		{"versions differ", func(f *Facts) { f.Client = "v0.2.0" }, Versions, "v0.1.0 in east, west, kubectl mcs is version v0.2.0"},
		{"another export is not valid", withWest(func(c *Cluster) {
			c.Path.ServiceExport = serviceExport(isFalse("Ready", "ClusterSetIPPending", "not decided"))
		}), Export, "ClusterSetIPPending"},
		{"endpoints of one cluster", func(f *Facts) {
			f.Importing.Path.Exports.Value = append(f.Importing.Path.Exports.Value, *clustertest.NewExported("east", time.Minute))
		}, Endpoints, "east: the Service has no endpoints"},
		{"ports differ", func(f *Facts) {
			f.Importing.Path.Exports.Value = append(f.Importing.Path.Exports.Value, *clustertest.NewExported("east", time.Minute, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports[0].Port = 81 }))
			f.Importing.Path.Endpoints.Value = append(f.Importing.Path.Endpoints.Value, *clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1"))
			f.Importing.Path.Slices.Value = append(f.Importing.Path.Slices.Value, imported("east", "10.1.0.1"))
		}, Conflicts, "PortConflict"},
		{"exports are unknown", func(f *Facts) {
			f.Importing.Path.Import.Value.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionUnknown, Reason: "ExportsUnknown"}}
		}, Import, "ExportsUnknown"},
		{"DNS looks wrong, but works", func(f *Facts) { f.Importing.Host.DNS = []plan.DNSFinding{{Message: "no server block"}} }, DNS, "no server block"},
		{"nothing is imported, but this cluster exports the service", func(f *Facts) {
			f.Importing.Path.Exports.Value, f.Importing.Path.Endpoints.Value, f.Importing.Path.Slices.Value = nil, nil, nil
			both(doesNotImport, noPod, alsoExportedBy("east", "10.1.0.1"))(f)
		}, Namespace, "keeps services of other clusters from being imported"},
		{"silent member, and another cluster exports the service", both(noPod, alsoExportedBy("east", "10.1.0.1"),
			west(clustersetv1alpha1.MemberStale, condition(clusterset.MemberReachable, "Unreachable", "no connection"))), Members, "west: Unreachable"},
		{"silent member whose endpoints respond", west(clustersetv1alpha1.MemberUnavailable, condition(clusterset.MemberReachable, "Unavailable", "API fails")), Members, "west: Unavailable"},
		{"clock of a cluster that does not export the service", both(noPod, withNorth(func(c *Cluster) {
			c.Host.Clock, c.Lease.Value.Renewed = &plan.Clock{Least: 10 * time.Minute, Most: 10*time.Minute + time.Second}, clustertest.Noon.Add(10*time.Minute)
		})), Clocks, "ahead by 9m59s"},
		{"version of a cluster that does not export the service", both(noPod, withNorth(func(c *Cluster) { c.Host.Kubernetes = "v1.30.0" })), Versions, "v1.30.0"},
		{"mode of kube-proxy", func(f *Facts) { f.Importing.Host.Proxy.Mode = "ipvs" }, Proxy, "ipvs"},
		{"one endpoint", func(f *Facts) { f.Probe.Connections[1].Outcome = podprobe.TimedOut }, Pods, "10.2.0.1:8080: no answer in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := works()
			test.change(&facts)
			report := Diagnose(facts)
			if report.Verdict != VerdictOK {
				t.Errorf("broken: %+v", report.FirstBroken)
			}
			if !slices.ContainsFunc(report.Checks, func(c Check) bool {
				return c.Hop == test.hop && c.Result == Warning && strings.Contains(c.String(), test.want)
			}) {
				t.Errorf("no warning %q at %s: %+v", test.want, test.hop, report.Checks)
			}
			usable(t, report)
		})
	}
}

// R543: what cannot be read is not checked, with the reason. If it decides, the verdict is that nothing
// is known.
func TestUnread(t *testing.T) {
	const why = `members is forbidden: User "dev" cannot list resource`
	all := works()
	all.Importing = Cluster{
		Context: "east-admin", Host: plan.Facts{
			Unobserved: []plan.Finding{{Check: plan.CheckAPI, Result: plan.NotChecked, Message: why}, {Check: plan.CheckProxy, Result: plan.NotChecked, Message: why}},
			DNS:        []plan.DNSFinding{{Unknown: true, Message: why}},
		},
		Deployment: Failed[*Deployment](why), Lease: Failed[*Lease](why), Members: Failed[[]clustersetv1alpha1.Member](why), Credentials: Failed[[]Credential](why),
		Path: Path{
			Exports: Failed[[]clustersetv1alpha1.ExportedService](why), Endpoints: Failed[[]clustersetv1alpha1.ExportedEndpointSlice](why), Namespace: Failed[*corev1.Namespace](why),
			Import: Failed[*multiclusterxv1beta1.ServiceImport](why), Derived: Failed[*corev1.Service](why), Slices: Failed[[]discoveryv1.EndpointSlice](why),
		},
	}
	all.Probe = Probe{Omitted: why}
	report := Diagnose(all)
	if report.Verdict != VerdictUnknown || report.Verdict.ExitCode() != 2 {
		t.Errorf("verdict %s", report.Verdict)
	}
	for _, hop := range Hops {
		if slices.Contains([]Hop{Clocks, Versions, Conflicts}, hop) {
			continue
		}
		if !slices.ContainsFunc(report.Checks, func(c Check) bool { return c.Hop == hop && c.Result == NotChecked && strings.Contains(c.Message, why) }) {
			t.Errorf("%s is not reported as not checked", hop)
		}
	}
	usable(t, report)

	developer := works() // may read the namespace, and nothing else
	developer.Importing.Host = plan.Facts{Context: "east-admin"}
	developer.Importing.Deployment, developer.Importing.Lease, developer.Importing.Credentials = all.Importing.Deployment, all.Importing.Lease, all.Importing.Credentials
	developer.Importing.Path.Namespace, developer.Importing.Members = all.Importing.Path.Namespace, all.Importing.Members
	if report := Diagnose(developer); report.Verdict != VerdictOK || !report.Responds {
		t.Errorf("verdict %s: %+v", report.Verdict, report.Checks)
	}
}

// R543: the verdict is that nothing is known if what decides was not seen in the importing cluster.
func TestWhatDecides(t *testing.T) {
	slicesForbidden := func(f *Facts) { f.Importing.Path.Slices = Failed[[]discoveryv1.EndpointSlice]("forbidden") }
	derivedForbidden := func(f *Facts) { f.Importing.Path.Derived = Failed[*corev1.Service]("forbidden") }
	declined := func(f *Facts) { f.Probe = Probe{Omitted: "--probe=false", Declined: true} }
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   Verdict
	}{
		{"a Pod saw it", both(slicesForbidden, derivedForbidden), VerdictOK},
		{"no Pod", noPod, VerdictOK},
		{"no Pod, and no EndpointSlices", both(noPod, slicesForbidden), VerdictUnknown},
		{"no Pod, and no derived Service", both(noPod, derivedForbidden), VerdictUnknown},
		{"no Pod was wanted", both(declined, slicesForbidden), VerdictOK},
	} {
		facts := works()
		test.change(&facts)
		if report := Diagnose(facts); report.Verdict != test.want {
			t.Errorf("%s: verdict %s, first broken %+v", test.name, report.Verdict, report.FirstBroken)
		}
	}
	d := &diagnosis{checks: []Check{{Hop: API, Result: NotChecked}, {Hop: API, Result: OK, Cluster: "west", elsewhere: true}}}
	if verdict, _ := d.verdict(); verdict != VerdictUnknown {
		t.Errorf("verdict %s, although only another cluster was seen", verdict)
	}
}

// R543: a user who may not read members does not know the ID of a cluster, nor whether it is one of those that
// export the service.
func TestExportOfAClusterWithoutID(t *testing.T) {
	facts := works()
	facts.Importing.Path.Exports.Value[0].Spec.Cluster, facts.Importing.Path.Endpoints.Value[0].Spec.Cluster = "east", "east"
	facts.Importing.Path.Slices.Value[0].Labels[multicluster.SourceClusterLabel] = "east"
	facts.Importing.Path.ServiceExport = serviceExport(isTrue("Valid"), isTrue("Ready"))
	facts.Importing.Members, facts.Importing.Credentials = Failed[[]clustersetv1alpha1.Member]("forbidden"), Failed[[]Credential]("forbidden")
	for _, check := range Diagnose(facts).Checks {
		if check.Hop == Export && check.Result != OK {
			t.Errorf("%+v", check)
		}
	}
}

// R544: ports whose protocol has no connections are not judged.
func TestUDPIsNotJudged(t *testing.T) {
	facts := works()
	facts.Importing.Path.Import.Value.Spec.Ports = append(facts.Importing.Path.Import.Value.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53})
	report := Diagnose(facts)
	if !slices.ContainsFunc(report.Checks, func(c Check) bool {
		return c.Hop == Connect && c.Result == NotChecked && strings.Contains(c.Message, "dns:53/UDP")
	}) {
		t.Errorf("%+v", report.Checks)
	}
}

// R541: a problem of one cluster is no consequence of one of another.
func TestProblemsOfTwoClustersAreTwoCauses(t *testing.T) {
	facts := works()
	facts.Service = ""
	facts.Importing.Members.Value = append(facts.Importing.Members.Value, *clustertest.NewMember("north", clustersetv1alpha1.MemberLost, condition(clusterset.MemberReachable, "Unreachable", "no connection")))
	west(clustersetv1alpha1.MemberLost, condition(clusterset.MemberReachable, "Unauthorized", "expired"))(&facts)
	got := map[string]Hop{}
	for _, check := range Diagnose(facts).Checks {
		if check.Hop == Members && check.Result == Broken {
			got[check.Cluster] = check.ConsequenceOf
		}
	}
	if len(got) != 2 || got["west"] != Credentials || got["north"] != "" {
		t.Errorf("causes %v", got)
	}
}

// consequenceOf returns the causes of what is broken or not checked at a hop, by cluster.
func consequenceOf(report Report, hop Hop) map[string]Hop {
	found := map[string]Hop{}
	for _, check := range report.Checks {
		if check.Hop == hop && (check.Result == Broken || check.Result == NotChecked) {
			found[check.Cluster] = check.ConsequenceOf
		}
	}
	return found
}

// R541: what is broken in another cluster explains nothing of the importing one, of which it exports nothing or
// not everything.
func TestOtherClustersExplainNothingOfTheImportingOne(t *testing.T) {
	facts := works()
	both(unserved, noPod, withWest(func(c *Cluster) {
		c.Host.API = plan.API{Observed: true, Detached: true}
	}), func(f *Facts) { f.Importing.Deployment.Value.Ready = 0 })(&facts)
	report := Diagnose(facts)
	if got := consequenceOf(report, Server); len(got) != 1 || got[""] != "" {
		t.Errorf("no replica in the east, and the west is detached: causes %v", got)
	}
	if got := consequenceOf(report, API); got[""] != Server {
		t.Errorf("API of the east: causes %v", got)
	}

	facts = works()
	both(noPod, west(clustersetv1alpha1.MemberStale, condition(clusterset.MemberReachable, "Unauthorized", "expired")), func(f *Facts) {
		f.Importing.Path.Exports.Value = append(f.Importing.Path.Exports.Value, *clustertest.NewExported("east", time.Minute)) // without endpoints
		f.Importing.Path.Derived.Value, f.Importing.Path.Import.Value = nil, nil
		f.Importing.Path.Namespace = Failed[*corev1.Namespace]("forbidden")
	})(&facts)
	report = Diagnose(facts)
	for _, hop := range []Hop{Import, Namespace, Lookups} {
		if got := consequenceOf(report, hop); len(got) != 1 || got[""] != "" {
			t.Errorf("only one of two exporting clusters is silent: causes at %s are %v", hop, got)
		}
	}
}

// R540: of a cluster that a hub relays, what to do is done in the hub.
func TestRelayedMemberIsDescribedInTheHub(t *testing.T) {
	facts := works()
	both(behindHub(clustersetv1alpha1.MemberConnected), noPod, west(clustersetv1alpha1.MemberLost, relayed), withWest(func(c *Cluster) {
		c.Context, c.Members.Value[0] = "hub-admin", *clustertest.NewMember("hub", clustersetv1alpha1.MemberLocal, versioned)
	}))(&facts)
	if found := Diagnose(facts).FirstBroken; found == nil || found.Hop != Members || found.Command != "kubectl --context hub-admin describe member west" {
		t.Errorf("got %+v", found)
	}
}

// R541: a name conflict, IPs that are missing and permissions follow from nothing else.
func TestWhatFollowsFromNothingElse(t *testing.T) {
	cut := west(clustersetv1alpha1.MemberStale, condition(clusterset.MemberReachable, "Unreachable", "no connection"))
	for name, change := range map[string]func(*Facts){
		"name conflict": func(f *Facts) { f.Importing.Path.Derived.Value.Labels = nil },
		"missing IPs":   func(f *Facts) { f.Importing.Path.Derived.Value.Spec.ClusterIPs = nil },
		"permissions":   func(f *Facts) { f.Importing.Path.Derived = Failed[*corev1.Service]("forbidden") },
	} {
		facts := works()
		both(cut, attempts(podprobe.TimedOut, podprobe.TimedOut), change)(&facts)
		report := Diagnose(facts)
		if got := consequenceOf(report, Derived); len(got) != 1 || got[""] != "" || report.FirstBroken.Hop != Members {
			t.Errorf("%s: causes %v, first broken %+v", name, got, report.FirstBroken)
		}
	}
}

// R540: kube-proxy is blamed only if nothing else explains that the IP of the service does not answer.
func TestKubeProxyIsNotBlamed(t *testing.T) {
	set := func(outcome podprobe.Outcome, addresses ...string) func(*Facts) {
		return func(f *Facts) {
			for i := range f.Probe.Connections {
				if slices.Contains(addresses, f.Probe.Connections[i].Address) {
					f.Probe.Connections[i].Outcome = outcome
				}
			}
		}
	}
	again := func(f *Facts) { f.Probe.Connections = append(f.Probe.Connections, connected("10.0.0.7:80", "")) }
	dualStack := func(f *Facts) {
		f.Importing.Path.Import.Value.Spec.IPs = append(f.Importing.Path.Import.Value.Spec.IPs, "fd00::7")
		f.Importing.Path.Derived.Value.Spec.ClusterIPs = append(f.Importing.Path.Derived.Value.Spec.ClusterIPs, "fd00::7")
		f.Probe.Lookup.Addresses = append(f.Probe.Lookup.Addresses, "fd00::7")
		f.Probe.Connections = append(f.Probe.Connections, connected("[fd00::7]:80", ""), connected("[fd00:2::1]:8080", "west"))
	}
	local := func(f *Facts) {
		f.Importing.Path.Derived.Value.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for _, test := range []struct {
		name   string
		change func(*Facts)
		first  Hop
		proxy  Result
	}{
		{"one of several attempts fails", both(set(podprobe.TimedOut, "10.0.0.7:80"), again), "", OK},
		{"an endpoint does not answer", both(set(podprobe.TimedOut, "10.0.0.7:80", "10.2.0.1:8080")), Connect, OK},
		{"IPv6 does not work", both(dualStack, set(podprobe.TimedOut, "[fd00::7]:80", "[fd00:2::1]:8080")), Pods, OK},
		{"the IPv6 address is not routed", both(dualStack, set(podprobe.TimedOut, "[fd00::7]:80")), Proxy, Broken},
		{"only endpoints on the same node", both(local, set(podprobe.Refused, "10.0.0.7:80")), "", NotChecked},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := works()
			test.change(&facts)
			report := Diagnose(facts)
			first := Hop("")
			if report.FirstBroken != nil {
				first = report.FirstBroken.Hop
			}
			if first != test.first {
				t.Errorf("first broken is %+v", report.FirstBroken)
			}
			if !slices.ContainsFunc(report.Checks, func(c Check) bool { return c.Hop == Proxy && c.Result == test.proxy }) {
				t.Errorf("not %s: %+v", test.proxy, report.Checks)
			}
			usable(t, report)
		})
	}
}

// R542: NetworkPolicies that restrict the Pod say nothing about applications, unless the Pod is like one.
func TestPodIsRestrictedByNetworkPolicies(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"everything": both(attempts(podprobe.TimedOut, podprobe.TimedOut), func(f *Facts) { f.Probe.Lookup.Outcome, f.Probe.Lookup.Addresses = podprobe.TimedOut, nil }),
		"endpoints":  attempts(podprobe.TimedOut, podprobe.TimedOut),
		"IP":         attempts(podprobe.TimedOut, podprobe.Succeeded),
	} {
		t.Run(name, func(t *testing.T) {
			facts := works()
			change(&facts)
			facts.Importing.Path.Egress = Of([]string{"deny-all"})
			report := Diagnose(facts)
			if report.Verdict != VerdictOK || report.Responds {
				t.Errorf("first broken is %+v, responds is %t", report.FirstBroken, report.Responds)
			}
			if !slices.ContainsFunc(report.Checks, func(c Check) bool {
				return c.Hop == Connect && c.Result == NotChecked && strings.Contains(c.Message, "restricted by NetworkPolicies of namespace shop (deny-all)") && strings.Contains(c.Remedy, "--probe-labels")
			}) {
				t.Errorf("not said: %+v", report.Checks)
			}
			usable(t, report)
			facts.Probe.Labeled = true
			if report := Diagnose(facts); report.Verdict != VerdictBroken {
				t.Errorf("like an application, verdict %s", report.Verdict)
			}
		})
	}
}

// Causes come before what they explain: the first thing that is broken is never a consequence.
func TestCausesAreEarlier(t *testing.T) {
	for hop, earlier := range causes {
		for _, cause := range earlier {
			if slices.Index(Hops, cause) < 0 || slices.Index(Hops, cause) >= slices.Index(Hops, hop) {
				t.Errorf("%s is no earlier hop than %s", cause, hop)
			}
		}
	}
}

// R540: of every reason for which a member is not connected, the diagnosis says what to do.
func TestReasonsOfMembersHaveRemedies(t *testing.T) {
	text, err := os.ReadFile("../../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{ // at another hop, or by whom it was decided
		"NoClusterSet": true, "Expelled": true,
	}
	reason := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| False \\|")
	for _, name := range []string{"Accepted", "Reachable"} {
		_, section, _ := strings.Cut(string(text), "### Condition `"+name+"`\n")
		section, _, _ = strings.Cut(section, "\n#")
		found := reason.FindAllStringSubmatch(section, -1)
		if len(found) == 0 {
			t.Errorf("no reasons of %s found", name)
		}
		for _, match := range found {
			if memberRemedies[match[1]] == "" && !said[match[1]] {
				t.Errorf("reason %s of condition %s has no remedy", match[1], name)
			}
		}
	}
}

// What a cluster says about itself becomes a part of commands only if it is a cluster ID.
func TestInvalidIDOfAnotherCluster(t *testing.T) {
	other := healthy("west")
	other.Members.Value[0].Status.ClusterID = "west; reboot"
	d := &diagnosis{}
	if got := d.idOf(&other); got != "west-admin" {
		t.Errorf("got %q", got)
	}
}

// R612
func TestDiagnosisOfAPreference(t *testing.T) {
	region := func(status *clustersetv1alpha1.MemberStatus) {
		status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region", Value: "eu"}}
	}
	here := func(f *Facts) { region(&f.Importing.Members.Value[0].Status) }
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   []string
	}{
		{"all is well", both(here, west(clustersetv1alpha1.MemberConnected, region)), nil},
		{"without a zone", both(here, west(clustersetv1alpha1.MemberConnected, region), func(f *Facts) {
			f.Importing.Path.Derived.Value.Annotations = map[string]string{multicluster.ClusterPreferenceProblemAnnotation: "no node has a zone"}
		}), []string{"no node has a zone"}},
		{"nobody has the property", func(*Facts) {}, []string{`tier "property:region" is skipped, because this cluster has no ClusterProperty "region"`}},
		{"only another has the property", west(clustersetv1alpha1.MemberConnected, region), []string{`tier "property:region" is skipped, because this cluster has no ClusterProperty "region"`}},
		{"no other has the property", here, []string{`tier "property:region" has this cluster only, because no other member is known to have the ClusterProperty "region"`}},
		{"others have other values", both(here, west(clustersetv1alpha1.MemberConnected, func(status *clustersetv1alpha1.MemberStatus) {
			status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region", Value: "us"}}
		})), []string{`tier "property:region" has this cluster only, because the ClusterProperty "region" is "eu" here, and no other member is known to have that value: west has "us"`}},
		{"no preference", func(f *Facts) { f.Importing.Path.Import.Value.Annotations = nil }, nil},
		{"not in effect", func(f *Facts) {
			delete(f.Importing.Path.Import.Value.Annotations, multicluster.ActiveTierAnnotation)
			f.Importing.Path.Derived.Value.Annotations = map[string]string{multicluster.ClusterPreferenceProblemAnnotation: "the import is headless"}
		}, []string{"the import is headless"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := works()
			facts.Importing.Path.Import.Value.Annotations = map[string]string{
				multicluster.ClusterPreferenceAnnotation: "cluster,property:region", multicluster.ActiveTierAnnotation: "all", multicluster.ActiveTierReasonAnnotation: "too few",
			}
			test.change(&facts)
			var got []string
			said := false
			for _, check := range Diagnose(facts).Checks {
				if check.Hop == Derived && check.Result != OK {
					got = append(got, check.Message)
				}
				said = said || check.Message == `tier "all" is active: too few`
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			if said != (test.name != "no preference" && test.name != "not in effect") {
				t.Errorf("says which tier is active: %t", said)
			}
		})
	}
}
