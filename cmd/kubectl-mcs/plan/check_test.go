// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ready returns the facts of a cluster that is ready to join.
func ready(context, number string) Facts {
	access := Access{Server: "https://192.0.2." + number + ":6443", CA: "ca-" + context}
	c := newCluster(context)
	c.Access, c.Ranges, c.AllowedCIDRs = access, []string{"243.0.0.0/8"}, "10."+number+".0.0/16"
	c.PodCIDRs = []string{"10." + number + ".0.0/24"}
	return Facts{
		Context: context, Membership: &c, Access: access, Kubernetes: "v1.36.1", MCS: "v0.1.0", API: API{Observed: true},
		Clock: &Clock{Least: -time.Second, Most: time.Second},
		Networks: Networks{
			PodCIDRs: []string{"10." + number + ".0.0/24", "10." + number + ".1.0/24"}, PodIPs: []string{"10." + number + ".0.5"}, ServiceCIDRs: []string{"10.96.0.0/12"},
		},
		Server: Server{Addresses: []string{"192.0.2." + number}},
		Proxy:  &Proxy{Mode: "nftables", Source: "kube-system/kube-proxy"},
		DNS:    []DNSFinding{{OK: true, Message: "DNS works"}},
	}
}

var joining = Joining{ClusterSet: "production", ClientVersion: "v0.1.0"}

// notOK returns the findings that are not OK, as text.
func notOK(findings []Finding) []string {
	var texts []string
	for _, finding := range findings {
		if finding.Result != OK {
			texts = append(texts, string(finding.Result)+" "+finding.Check+" "+finding.String())
		}
	}
	return texts
}

// unknownReachability is what cannot be known of clusters that are not members.
var unknownReachability = []string{
	"NotChecked reachability east: whether mcs-apiserver reaches west (https://192.0.2.2:6443) is not known, because only its Pods can tell, and they connect to members only: join waits for the connections, and `kubectl mcs status east` shows them",
	"NotChecked reachability west: whether mcs-apiserver reaches east (https://192.0.2.1:6443) is not known, because only its Pods can tell, and they connect to members only: join waits for the connections, and `kubectl mcs status west` shows them",
}

// R430, R435: there is nothing to say about clusters that are ready, except that it is not known
// whether they reach each other.
func TestClustersThatAreReady(t *testing.T) {
	findings := Check(joining, []Facts{ready("east", "1"), ready("west", "2")})
	if diff := cmp.Diff(unknownReachability, notOK(findings)); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	var parts []string
	for _, finding := range findings {
		parts = append(parts, finding.Check)
	}
	if diff := cmp.Diff(checks, slices.Compact(parts)); diff != "" {
		t.Errorf("not everything is checked, in this order (-want +got):\n%s", diff)
	}
}

// R430: of one cluster, everything is checked that does not depend on others.
func TestOneCluster(t *testing.T) {
	const alone = "NotChecked membership east: the cluster was not compared with others: "
	for _, test := range []struct {
		name   string
		change func(east *Facts)
		want   []string
		passed string
	}{
		{"ready", func(*Facts) {}, []string{alone}, `nothing in the cluster keeps it from joining ClusterSet "production"`},
		{"member", func(east *Facts) {
			east.Membership.ClusterSet, east.Membership.Known["west"] = "production", "uid-west"
		}, []string{alone}, `the cluster is in ClusterSet "production"`},
		{"another ClusterSet", func(east *Facts) { east.Membership.ClusterSet = "other" }, []string{`Problem membership east: cluster is in ClusterSet "other"`}, ""},
		{"no ID", func(east *Facts) { east.Membership.ID = "" }, []string{
			`Problem membership east: cluster has no ID: create the ClusterClaim id.k8s.io`}, ""},
		{"generated ID", func(east *Facts) { east.Membership.ID, east.Membership.GeneratedID = "uid-east", true }, []string{
			`Warning membership east: the cluster joins with the generated ID "uid-east", which is part of names and cannot be changed until it leaves the ClusterSet: choose one with: kubectl patch clusterclaim id.k8s.io --context east --type=merge --patch '{"spec":{"value":"ID"}}'`, alone},
			`nothing in the cluster keeps it from joining ClusterSet "production"`},
		{"local server", func(east *Facts) {
			east.Membership.Access.Server, east.Access.Server = "https://localhost", "https://localhost"
		}, []string{
			`Problem membership east: server "https://localhost" is only reachable from this machine`}, ""},
		{"API", func(east *Facts) { east.API.Unavailable = "APIService v1.a is not available: no endpoints" }, []string{alone, "Problem api east: APIService v1.a is not available"},
			`nothing in the cluster keeps it from joining ClusterSet "production"`},
		{"networks", func(east *Facts) { east.Networks.PodIPs = []string{"243.1.0.1"} }, []string{alone, "Problem networks east: 243.1.0.1/32, which Pods or Services", "Warning networks east: a Pod has the address"},
			`nothing in the cluster keeps it from joining ClusterSet "production"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			east := ready("east", "1")
			test.change(&east)
			findings := Check(joining, []Facts{east})
			got := notOK(findings)
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
			passed := ""
			for _, finding := range findings {
				if finding.Check == CheckMembership && finding.Result == OK {
					passed = finding.Message
				}
			}
			if passed != test.passed {
				t.Errorf("got %q, want %q", passed, test.passed)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	for _, test := range []struct {
		name string
		// change changes the facts of east and west.
		change func(east, west *Facts)
		want   []string
	}{
		// R430: what join refuses or warns of.
		{"error of join", func(_, west *Facts) { west.Membership.ClusterSet = "other" }, []string{
			`Problem membership west: cluster is in ClusterSet "other": run `}},
		{"errors of join", func(_, west *Facts) { west.Membership.ID = ""; west.Membership.ClusterSet = "other" }, []string{
			"Problem membership west: cluster has no ID", `Problem membership west: cluster is in ClusterSet "other"`}},
		{"another server", func(east, _ *Facts) {
			east.Membership.Members["west"] = Member{Access: Access{Server: "https://192.0.2.9:6443", CA: "ca-west"}}
		}, []string{`Problem membership east: member "west" is reached at https://192.0.2.9:6443`}},
		{"warning of join", func(east, _ *Facts) { east.Membership.Known["north"] = "uid" }, []string{
			`Warning membership cluster "north" is a member of east but is not among the arguments`}},
		{"generated ID", func(_, west *Facts) { west.Membership.ID, west.Membership.GeneratedID = "uid-west", true }, []string{
			`Warning membership west: the cluster joins with the generated ID "uid-west", which is part of names and cannot be changed until it leaves the ClusterSet: choose one with --id west=ID`}},
		{"generated ID of a member", func(_, west *Facts) {
			west.Membership.GeneratedID, west.Membership.ClusterSet = true, "production"
		}, nil},
		{"note of join", func(_, west *Facts) { west.Membership.AllowedCIDRs = "" }, []string{"Warning membership member Secrets have no allowed-cidrs of west"}},
		{"not installed", func(_, west *Facts) {
			west.Membership, west.Failure = nil, `context "west": mcs-apiserver is not installed or is detached`
		}, []string{"Problem membership west: mcs-apiserver is not installed or is detached"}},
		{"silent", func(_, west *Facts) {
			*west = Facts{Context: "west", Silent: true, Failure: `context "west": the kube-apiserver is unreachable`}
		}, []string{"Problem membership west: the kube-apiserver is unreachable"}},
		// R431: the API.
		{"CRD in the way", func(_, west *Facts) {
			west.API.Conflicts, west.API.Unavailable = []string{"CustomResourceDefinition x serves y; delete it"}, "APIService does not exist"
			west.Membership, west.Failure = nil, `context "west": mcs-apiserver is not installed or is detached`
		}, []string{"Problem api west: CustomResourceDefinition x serves y; delete it"}},
		{"hidden CRD", func(_, west *Facts) { west.API.Hidden = []string{"x"} }, []string{"Warning api west: CustomResourceDefinition x is hidden by the API of mcs-apiserver, and so are its objects: delete it when"}},
		{"detached", func(_, west *Facts) {
			west.API.Detached, west.API.Unavailable, west.Membership, west.Failure = true, "APIService does not exist", nil, "mcs-apiserver is not installed or is detached"
		}, []string{"Problem api west: the API of mcs-apiserver is detached: attach it with `kubectl mcs attach west`"}},
		{"not available", func(_, west *Facts) { west.API.Unavailable = "APIService v1.a is not available: no endpoints" }, []string{"Problem api west: APIService v1.a is not available: no endpoints: `kubectl --context west"}},
		// R432: versions.
		{"old Kubernetes", func(_, west *Facts) { west.Kubernetes = "v1.32.9-gke.1" }, []string{"Problem versions west: the kube-apiserver is version v1.32.9-gke.1, and Kubernetes 1.33 or newer is required: upgrade the cluster"}},
		{"oldest Kubernetes", func(_, west *Facts) { west.Kubernetes = "v1.33.0" }, nil},
		{"strange Kubernetes", func(_, west *Facts) { west.Kubernetes = "latest" }, []string{`NotChecked versions west: version "latest" of the kube-apiserver is not a version`}},
		{"different versions", func(_, west *Facts) { west.MCS = "v0.2.0" }, []string{"Warning versions mcs-apiserver is version v0.1.0 in east and v0.2.0 in west, kubectl mcs is version v0.1.0: different versions work together"}},
		{"another version of kubectl mcs", func(east, west *Facts) { east.MCS, west.MCS = "v0.2.0", "v0.2.0" }, []string{"Warning versions mcs-apiserver is version v0.2.0 in east, west, kubectl mcs is version v0.1.0"}},
		{"unknown version", func(_, west *Facts) { west.MCS = "" }, []string{"NotChecked versions west: mcs-apiserver does not tell its version"}},
		// R432: clocks. What cannot be told from how long requests take is not reported.
		{"clock ahead", func(_, west *Facts) { west.Clock = &Clock{Least: 13 * time.Second, Most: 15 * time.Second} }, []string{
			"Warning clocks east, west: the clock of west is ahead by 12s at least: the older of two exports that conflict is not certain: synchronize"}},
		{"clock behind", func(_, west *Facts) { west.Clock = &Clock{Least: -10 * time.Minute, Most: -9 * time.Minute} }, []string{
			"Problem clocks east, west: the clock of east is ahead by 8m59s at least: other clusters do not believe what was decided more than 5m0s in the future"}},
		{"slow response", func(_, west *Facts) { west.Clock = &Clock{Least: -20 * time.Second, Most: 30 * time.Second} }, nil},
		{"no clock", func(_, west *Facts) { west.Clock = nil }, []string{"NotChecked clocks west: the kube-apiserver does not tell the time"}},
		// R436: kube-proxy.
		{"default mode", func(_, west *Facts) { west.Proxy.Mode = "" }, nil},
		{"ipvs", func(_, west *Facts) { west.Proxy.Mode = "ipvs" }, []string{`Warning proxy west: kube-proxy uses the mode "ipvs" (ConfigMap kube-system/kube-proxy), with which mcs-apiserver is not tested: use nftables or iptables`}},
		{"unknown proxy", func(_, west *Facts) { west.Proxy = &Proxy{} }, []string{"NotChecked proxy west: there is no ConfigMap with the configuration of kube-proxy"}},
		// R437: clusters can join without DNS.
		{"no DNS", func(_, west *Facts) {
			west.DNS = []DNSFinding{{Message: "no server block", Remedy: "run `kubectl mcs dns enable`"}}
		}, []string{"Warning dns west: no server block: run `kubectl mcs dns enable`"}},
		// R438: what could not be observed is said.
		{"not observed", func(_, west *Facts) {
			west.Unobserved = []Finding{{Check: CheckProxy, Result: NotChecked, Contexts: []string{"west"}, Message: "the configuration of kube-proxy could not be read: forbidden"}}
		}, []string{"NotChecked proxy west: the configuration of kube-proxy could not be read: forbidden"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			east, west := ready("east", "1"), ready("west", "2")
			test.change(&east, &west)
			findings := Check(joining, []Facts{east, west})
			expectFindings(t, findings, test.want)
			passed := slices.ContainsFunc(findings, func(f Finding) bool { return f.Check == CheckMembership && f.Result == OK })
			if possible := west.Membership != nil && !strings.HasPrefix(strings.Join(test.want, ""), "Problem membership"); passed != possible {
				t.Errorf("clusters can join: %t, want %t", passed, possible)
			}
		})
	}
}

// expectFindings expects findings that are not OK to begin with these texts, other than those
// about unknown reachability.
func expectFindings(t *testing.T, findings []Finding, want []string) {
	t.Helper()
	got := slices.DeleteFunc(notOK(findings), func(text string) bool { return strings.Contains(text, "is not known, because only its Pods can tell") })
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i, text := range got {
		if !strings.HasPrefix(text, want[i]) {
			t.Errorf("got %q, want %q", text, want[i])
		}
	}
}

// R433, R434: networks overlap if an address of a Pod means something else in another cluster.
func TestNetworks(t *testing.T) {
	for _, test := range []struct {
		name       string
		east, west Networks
		want       []string
	}{
		{"Pod CIDRs that Pods use", Networks{PodCIDRs: []string{"10.1.0.0/16"}, PodIPs: []string{"10.1.0.1"}}, Networks{PodCIDRs: []string{"10.1.2.0/24"}, PodIPs: []string{"10.1.2.1"}},
			[]string{"Problem networks east, west: Pod CIDRs of east (10.1.0.0/16) and west (10.1.2.0/24) overlap, and Pods use them: traffic reaches the wrong cluster, because addresses are not translated: use Pod networks that do not overlap"}},
		{"Pod CIDRs without Pods", Networks{PodCIDRs: []string{"10.1.0.0/16"}}, Networks{PodCIDRs: []string{"10.1.2.0/24"}, PodIPs: []string{"10.1.2.1"}},
			[]string{"Warning networks east, west: Pod CIDRs of east (10.1.0.0/16) and west (10.1.2.0/24) overlap: if Pods use these addresses, traffic"}},
		{"Pod CIDRs that Pods do not use", Networks{PodCIDRs: []string{"10.1.0.0/16"}, PodIPs: []string{"172.16.0.1"}}, Networks{PodCIDRs: []string{"10.1.2.0/24"}, PodIPs: []string{"10.1.2.1"}}, nil},
		{"Pod in the Pod CIDR of another cluster", Networks{PodIPs: []string{"172.16.0.1", "10.1.2.9"}}, Networks{PodCIDRs: []string{"10.1.2.0/24"}, PodIPs: []string{"10.1.2.1"}},
			[]string{"Problem networks east, west: a Pod of east (10.1.2.9) is in a Pod CIDR of west (10.1.2.0/24), and Pods use it"}},
		{"Pod in the Pod CIDR of another cluster without Pods", Networks{PodCIDRs: []string{"10.1.2.0/24"}}, Networks{PodIPs: []string{"10.1.2.9"}},
			[]string{"Warning networks east, west: a Pod of west (10.1.2.9) is in a Pod CIDR of east (10.1.2.0/24): if Pods use it"}},
		{"the same address", Networks{PodIPs: []string{"172.16.0.1", "172.16.0.7"}}, Networks{PodIPs: []string{"172.16.9.1", "172.16.0.7"}},
			[]string{"Problem networks east, west: Pods of east and west have the same address 172.16.0.7: traffic"}},
		{"addresses beside each other", Networks{PodIPs: []string{"172.16.0.1"}}, Networks{PodIPs: []string{"172.16.0.7"}},
			[]string{"Warning networks east, west: Pods of both east and west have addresses in 172.16.0.0/24: if these are two networks, traffic"}},
		{"IPv6 addresses beside each other", Networks{PodIPs: []string{"fd00:1::1"}}, Networks{PodIPs: []string{"fd00:1::7:1"}},
			[]string{"Warning networks east, west: Pods of both east and west have addresses in fd00:1::/64"}},
		{"addresses elsewhere", Networks{PodIPs: []string{"172.16.0.1", "fd00:1::1"}}, Networks{PodIPs: []string{"172.16.1.1", "fd00:2::1"}}, nil},
		{"unknown", Networks{}, Networks{PodIPs: []string{"172.16.1.1"}}, []string{"NotChecked networks east: where its Pods are is not known"}},
		{"Pods in Service CIDRs", Networks{PodCIDRs: []string{"10.1.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16", "10.2.3.0/24"}}, Networks{PodCIDRs: []string{"10.2.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}},
			[]string{"Problem networks west, east: Pods of west (10.2.0.0/16) are in the Service CIDR 10.2.3.0/24 of east, which takes them for Services of its own"}},
		{"Pods in Service CIDRs of their own cluster", Networks{PodCIDRs: []string{"10.1.0.0/16"}, ServiceCIDRs: []string{"10.1.3.0/24"}}, Networks{PodCIDRs: []string{"10.2.0.0/16"}}, nil},
		{"ClusterSet IP range", Networks{PodCIDRs: []string{"243.1.0.0/24"}}, Networks{PodCIDRs: []string{"10.2.0.0/16"}, ServiceCIDRs: []string{"243.7.0.0/16"}},
			[]string{"Problem networks east: 243.1.0.0/24, which Pods or Services of the cluster use, is in the ClusterSet IP range 243.0.0.0/8", "Problem networks west: 243.7.0.0/16, which"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			east, west := ready("east", "1"), ready("west", "2")
			east.Networks, west.Networks, east.Membership.AllowedCIDRs, west.Membership.AllowedCIDRs = test.east, test.west, "0.0.0.0/0,::/0", "0.0.0.0/0,::/0"
			east.Membership.PodCIDRs, west.Membership.PodCIDRs = test.east.PodCIDRs, test.west.PodCIDRs
			expectFindings(t, Check(joining, []Facts{east, west}), test.want)
		})
	}
	east, west := ready("east", "1"), ready("west", "2")
	west.Networks = Networks{PodCIDRs: []string{"10.3.0.0/24"}}
	expectFindings(t, Check(joining, []Facts{east, west}), []string{"Warning networks west: Pod CIDR 10.3.0.0/24 of its nodes is not in --allowed-cidrs 10.2.0.0/16"})
	west.Networks = Networks{PodIPs: []string{"10.2.0.1", "10.3.0.1"}}
	expectFindings(t, Check(joining, []Facts{east, west}), []string{"Warning networks west: a Pod has the address 10.3.0.1, which is not in --allowed-cidrs 10.2.0.0/16"})
}

// R435: what can be known about whether clusters reach each other.
func TestReachability(t *testing.T) {
	member := func(east *Facts, reachable Reachable) {
		east.Membership.Members["west"] = Member{Access: Access{Server: "https://192.0.2.2:6443", CA: "ca-west"}}
		east.Reachable = map[string]Reachable{"west": reachable}
	}
	for _, test := range []struct {
		name   string
		change func(east, west *Facts)
		want   []string
		// known is true if it is known whether east reaches west.
		known bool
	}{
		{"member", func(east, _ *Facts) { member(east, Reachable{Known: true, Answers: true}) }, nil, true},
		{"member that rejects the credential", func(east, _ *Facts) { member(east, Reachable{Known: true, Reason: "Unauthorized"}) }, nil, true},
		{"member that is not tried yet", func(east, _ *Facts) { member(east, Reachable{}) }, nil, false},
		{"member at another address", func(east, _ *Facts) {
			member(east, Reachable{Known: true, Answers: true})
			east.Membership.Members["west"] = Member{Access: Access{Server: "https://192.0.2.9:6443", CA: "ca-west"}}
		}, []string{`Problem membership east: member "west" is reached at https://192.0.2.9:6443`}, false},
		{"unreachable member", func(east, _ *Facts) {
			member(east, Reachable{Known: true, Reason: "Unreachable", Message: "connection refused"})
		},
			[]string{"Problem reachability east: mcs-apiserver does not reach west (https://192.0.2.2:6443): connection refused: allow its Pods to connect, or set another address with --server west=URL"}, true},
		{"invalid certificate", func(_, west *Facts) { west.Server.Invalid = "certificate is valid for localhost" },
			[]string{`Problem reachability west: server "https://192.0.2.2:6443" has a certificate that other clusters do not accept: certificate is valid for localhost: set the address for other clusters with --server west=URL, or correct`}, false},
		{"unknown name", func(_, west *Facts) { west.Server = Server{Unresolved: "no such host"} },
			[]string{`Warning reachability west: server "https://192.0.2.2:6443" has a name that this machine cannot resolve: no such host`}, false},
		{"no answer", func(_, west *Facts) { west.Server.Unreachable = "timeout" },
			[]string{`Warning reachability west: server "https://192.0.2.2:6443" does not answer this machine: timeout: make sure that it answers the nodes of the other clusters, or set`}, false},
		{"name of a local address", func(_, west *Facts) { west.Server.Addresses = []string{"127.0.0.1"} },
			[]string{`Problem reachability west: server "https://192.0.2.2:6443" has the address 127.0.0.1, which is only valid on the machine or network on which it is used: set`}, false},
		{"link-local address", func(_, west *Facts) { west.Server.Addresses = []string{"169.254.1.1"} }, []string{`Problem reachability west: server "https://192.0.2.2:6443" has the address 169.254.1.1`}, false},
		{"Service of the cluster", func(_, west *Facts) {
			west.Server.Addresses, west.Networks.ServiceCIDRs = []string{"10.112.0.1"}, []string{"10.112.0.0/16"}
		},
			[]string{`Problem reachability west: server "https://192.0.2.2:6443" has the address 10.112.0.1, which is in a Service CIDR of its own cluster, and reachable only there`}, false},
		{"Service of another cluster", func(east, west *Facts) {
			west.Server.Addresses, west.Networks.ServiceCIDRs = []string{"10.96.0.1"}, nil
		},
			[]string{`Problem reachability west: server "https://192.0.2.2:6443" has the address 10.96.0.1, which is in a Service CIDR of east, and is not reachable from there`}, false},
		{"Pod of another cluster", func(_, west *Facts) { west.Server.Addresses = []string{"10.1.0.9"} },
			[]string{`Problem reachability west: server "https://192.0.2.2:6443" has the address 10.1.0.9, which is in the Pod network of east, and is not reachable from there`}, false},
		{"local server that join refuses", func(_, west *Facts) {
			west.Access.Server = "https://localhost"
			west.Membership.Access = west.Access
		},
			[]string{`Problem membership west: server "https://localhost" is only reachable from this machine`}, false},
		{"local server without membership", func(_, west *Facts) {
			west.Access.Server, west.Membership, west.Failure = "https://localhost", nil, "failed"
		},
			[]string{"Problem membership failed", `Problem reachability west: server "https://localhost" is only reachable from this machine`}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			east, west := ready("east", "1"), ready("west", "2")
			test.change(&east, &west)
			findings := Check(joining, []Facts{east, west})
			expectFindings(t, findings, test.want)
			unknown := slices.ContainsFunc(findings, func(f Finding) bool { return strings.HasPrefix(f.String(), "east: whether mcs-apiserver reaches") })
			if unknown == test.known {
				t.Errorf("reachability is known: %t, want %t", !unknown, test.known)
			}
		})
	}
}

// R435: clusters behind a hub do not have to reach each other.
func TestReachabilityThroughAHub(t *testing.T) {
	all := []Facts{ready("east", "1"), ready("west", "2"), ready("north", "3")}
	all[0].Hub, all[0].Membership.Hub = true, true
	var texts []string
	for _, text := range notOK(Check(joining, all)) {
		text, _, _ = strings.Cut(text, " is not known")
		texts = append(texts, text)
	}
	want := []string{
		"NotChecked reachability east: whether mcs-apiserver reaches west (https://192.0.2.2:6443), north (https://192.0.2.3:6443)",
		"NotChecked reachability west: whether mcs-apiserver reaches east (https://192.0.2.1:6443)",
		"NotChecked reachability north: whether mcs-apiserver reaches east (https://192.0.2.1:6443)",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}
