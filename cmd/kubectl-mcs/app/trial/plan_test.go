// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

var testRun = run{id: "x", namespace: "ns", key: "hush"}

// twoClusters are east with both families, and west with IPv4 only. Each has imported everything.
func twoClusters() []facts {
	endpoints := map[string][]string{"east": {"10.1.0.1", "fd00:1::1"}, "west": {"10.2.0.1"}}
	return []facts{
		{
			context: "e", id: "east", families: []corev1.IPFamily{v4, v6},
			service: imported{ips: []string{"10.9.0.1", "fd00:9::1"}, endpoints: endpoints}, headless: imported{families: []corev1.IPFamily{v4, v6}, endpoints: endpoints},
		},
		{
			context: "w", id: "west", families: []corev1.IPFamily{v4},
			service: imported{ips: []string{"10.8.0.1"}, endpoints: endpoints}, headless: imported{families: []corev1.IPFamily{v4, v6}, endpoints: endpoints},
		},
	}
}

// brief returns checks as text.
func brief(checks []Check) []string {
	var lines []string
	for i := range checks {
		check := &checks[i]
		what := check.Addresses
		if check.Means == DNS {
			what = []string{check.Name, string(check.Record), strings.Join(check.Want, ",")}
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s>%s %s %s %s %s %s", check.From, check.To, check.Path, check.Means, check.Family, check.Result, strings.Join(what, " "))))
	}
	return lines
}

// R560: all DNS names, protocols and families are checked from every cluster to every other, and what
// does not apply is said.
func TestEverythingIsExpected(t *testing.T) {
	want := []string{
		"east> ClusterSetIP DNS IPv4  mcs-test-x.ns.svc.clusterset.local A 10.9.0.1",
		"east> ClusterSetIP TCP IPv4  10.9.0.1:8080",
		"east> ClusterSetIP UDP IPv4  10.9.0.1:8080",
		"east> ClusterSetIP DNS IPv6  mcs-test-x.ns.svc.clusterset.local AAAA fd00:9::1",
		"east> ClusterSetIP TCP IPv6  [fd00:9::1]:8080",
		"east> ClusterSetIP UDP IPv6  [fd00:9::1]:8080",
		"east> ClusterSetIP DNS   _tcp._tcp.mcs-test-x.ns.svc.clusterset.local SRV mcs-test-x.ns.svc.clusterset.local:8080",
		"east> ClusterSetIP DNS   _udp._udp.mcs-test-x.ns.svc.clusterset.local SRV mcs-test-x.ns.svc.clusterset.local:8080",
		"east>east Headless DNS IPv4  server.east.mcs-test-x-headless.ns.svc.clusterset.local A 10.1.0.1",
		"east>east Headless TCP IPv4  10.1.0.1:8080",
		"east>east Headless UDP IPv4  10.1.0.1:8080",
		"east>west Headless DNS IPv4  server.west.mcs-test-x-headless.ns.svc.clusterset.local A 10.2.0.1",
		"east>west Headless TCP IPv4  10.2.0.1:8080",
		"east>west Headless UDP IPv4  10.2.0.1:8080",
		"east> Headless DNS IPv4  mcs-test-x-headless.ns.svc.clusterset.local A 10.1.0.1,10.2.0.1",
		"east>east Headless DNS IPv6  server.east.mcs-test-x-headless.ns.svc.clusterset.local AAAA fd00:1::1",
		"east>east Headless TCP IPv6  [fd00:1::1]:8080",
		"east>east Headless UDP IPv6  [fd00:1::1]:8080",
		"east>west Headless DNS IPv6 NotApplicable server.west.mcs-test-x-headless.ns.svc.clusterset.local AAAA",
		"east>west Headless TCP IPv6 NotApplicable",
		"east>west Headless UDP IPv6 NotApplicable",
		"east> Headless DNS IPv6  mcs-test-x-headless.ns.svc.clusterset.local AAAA fd00:1::1",
		"east> Headless DNS   _tcp._tcp.mcs-test-x-headless.ns.svc.clusterset.local SRV server.east.mcs-test-x-headless.ns.svc.clusterset.local:8080,server.west.mcs-test-x-headless.ns.svc.clusterset.local:8080",
		"east> Headless DNS   _udp._udp.mcs-test-x-headless.ns.svc.clusterset.local SRV server.east.mcs-test-x-headless.ns.svc.clusterset.local:8080,server.west.mcs-test-x-headless.ns.svc.clusterset.local:8080",
	}
	got := brief(expectChecks(testRun, twoClusters()))
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
		t.Errorf("unexpected checks (-want +got):\n%s", diff)
	}
	for _, line := range got[len(want):] {
		if !strings.HasPrefix(line, "west>") || strings.Contains(line, "IPv6") != strings.Contains(line, "NotApplicable") {
			t.Errorf("unexpected check %q", line)
		}
	}
}

// R560: what was not imported fails without being tried.
func TestWhatIsNotImportedFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*facts)
		want   []string
	}{
		{"no endpoints of west", func(east *facts) {
			east.headless.endpoints, east.headless.incomplete = map[string][]string{"east": {"10.1.0.1", "fd00:1::1"}}, "west is Lost"
		}, []string{"east>west Headless DNS IPv4", "east>west Headless TCP IPv4", "east>west Headless UDP IPv4"}},
		{"no IP", func(east *facts) { east.service.ips, east.service.incomplete = nil, "no IP" }, []string{
			"east> ClusterSetIP DNS IPv4", "east> ClusterSetIP TCP IPv4", "east> ClusterSetIP UDP IPv4", "east> ClusterSetIP DNS IPv6", "east> ClusterSetIP TCP IPv6", "east> ClusterSetIP UDP IPv6",
			"east> ClusterSetIP DNS", "east> ClusterSetIP DNS",
		}},
		{"an IP, but no endpoints of west", func(east *facts) { east.service.incomplete = "west is missing" }, []string{
			"east> ClusterSetIP TCP IPv4", "east> ClusterSetIP UDP IPv4", "east> ClusterSetIP TCP IPv6", "east> ClusterSetIP UDP IPv6",
		}},
		{"an IP of one family", func(east *facts) { east.service.ips = []string{"10.9.0.1"} }, nil},
		{"no endpoints", func(east *facts) { east.headless.endpoints, east.headless.incomplete = nil, "nothing" }, []string{
			"east>east Headless DNS IPv4", "east>east Headless TCP IPv4", "east>east Headless UDP IPv4", "east>west Headless DNS IPv4", "east>west Headless TCP IPv4", "east>west Headless UDP IPv4",
			"east> Headless DNS IPv4", "east>east Headless DNS IPv6", "east>east Headless TCP IPv6", "east>east Headless UDP IPv6", "east> Headless DNS IPv6", "east> Headless DNS", "east> Headless DNS",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clusters := twoClusters()
			test.change(&clusters[0])
			var got []string
			for _, check := range expectChecks(testRun, clusters) {
				if check.Result == Failed {
					got = append(got, strings.TrimSpace(fmt.Sprintf("%s>%s %s %s %s", check.From, check.To, check.Path, check.Means, check.Family)))
					if check.Reason == "" {
						t.Errorf("%s has no reason", got[len(got)-1])
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected failures (-want +got):\n%s", diff)
			}
		})
	}
}

// R560: by chance, all requests over one protocol may have led to the same cluster.
func TestBalanceIsJudgedOverBothProtocols(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	seen := all(testRun, checks)
	for _, contact := range seen["east"].results.Contacts {
		if contact.Address == "10.9.0.1:8080" && contact.Network == podtrial.TCP {
			delete(contact.Clusters, "west")
		}
	}
	if judged := judge(checks, seen); !passed(judged) {
		t.Errorf("failures %+v", failuresOf(judged))
	}
}

// R560: clusters that cannot reach each other at all do not pass, although nothing applies.
func TestNoFamilyInCommon(t *testing.T) {
	clusters := twoClusters()
	clusters[0].families, clusters[1].families = []corev1.IPFamily{v6}, []corev1.IPFamily{v4}
	checks := expectChecks(testRun, clusters)
	judged := judge(checks, all(testRun, checks))
	for _, failed := range failuresOf(judged) {
		if failed.from == failed.to || failed.to == "" || !strings.HasPrefix(failed.reason, "no IP family is common to cluster ") {
			t.Errorf("got %+v", failed)
		}
	}
	if passed(judged) {
		t.Error("it passes")
	}
}

// R560: a client tries everything that is pending in its cluster, once.
func TestPlan(t *testing.T) {
	clusters := twoClusters()
	plan := planFor(testRun, "west", time.Minute, expectChecks(testRun, clusters))
	if err := plan.Validate(); err != nil || plan.Key != "hush" {
		t.Errorf("key %q, error %v", plan.Key, err)
	}
	var targets []string
	for _, target := range plan.Targets {
		targets = append(targets, fmt.Sprintf("%s %s %d", target.Network, target.Address, target.Requests))
	}
	want := []string{"TCP 10.8.0.1:8080 10", "UDP 10.8.0.1:8080 10", "TCP 10.1.0.1:8080 5", "UDP 10.1.0.1:8080 5", "TCP 10.2.0.1:8080 5", "UDP 10.2.0.1:8080 5"}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Errorf("unexpected targets (-want +got):\n%s", diff)
	}
	if len(plan.Queries) != 8 {
		t.Errorf("got queries %+v", plan.Queries)
	}
	if limit := durationOf(plan); limit < time.Minute || limit > 5*time.Minute {
		t.Errorf("the client may take %s", limit)
	}
	for range 5 { // more than are tried at the same time
		plan.Queries = append(plan.Queries, podtrial.Query{})
	}
	if limit := durationOf(plan); limit < 2*time.Minute {
		t.Errorf("the client may take %s, although names have to wait for others", limit)
	}
}

// succeed returns what a client sees for which everything works.
func succeed(r run, id string, checks []Check) podtrial.Results {
	results := podtrial.Results{Done: true}
	plan := planFor(r, id, time.Minute, checks)
	for _, query := range plan.Queries {
		results.Lookups = append(results.Lookups, podtrial.Lookup{Name: query.Name, Type: query.Type, Got: query.Want, Outcome: podprobe.Succeeded, Sent: 10, Took: 1200 * time.Microsecond})
	}
	for _, target := range plan.Targets {
		clusters := map[string]int{target.Clusters[0]: target.Requests + 1}
		if len(target.Clusters) > 1 {
			clusters = map[string]int{"east": 4, "west": target.Requests - 3}
		}
		results.Contacts = append(results.Contacts, podtrial.Contact{
			Network: target.Network, Address: target.Address, Outcome: podprobe.Succeeded, Sent: target.Requests + 1, Clusters: clusters, RoundTrip: 12300 * time.Microsecond,
		})
	}
	return results
}

// all returns the outcomes of clients for which everything works.
func all(r run, checks []Check) map[string]outcome {
	return map[string]outcome{"east": {results: succeed(r, "east", checks)}, "west": {results: succeed(r, "west", checks)}}
}

// R560: everything that applies works.
func TestEverythingWorks(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	judged := judge(checks, all(testRun, checks))
	if !passed(judged) || len(failuresOf(judged)) > 0 {
		t.Errorf("failures %+v", failuresOf(judged))
	}
	for i := range judged {
		if applies := checks[i].Result == Pending; applies != (judged[i].Result == OK) || applies != (judged[i].LatencyMilliseconds != nil) {
			t.Errorf("%+v became %+v", checks[i], judged[i])
		}
	}
	if passed(nil) || passed([]Check{{Result: NotApplicable}}) || passed([]Check{{Result: OK}, {Result: Pending}}) || passed([]Check{{Result: OK}, {Result: NotTried}}) {
		t.Error("something passes that was not tried")
	}
}

// R560: what does not work fails, and says why.
func TestWhatDoesNotWorkFails(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	contact := func(network podtrial.Network, address string, change func(*podtrial.Contact)) func(*podtrial.Results) {
		return func(results *podtrial.Results) {
			for i := range results.Contacts {
				if results.Contacts[i].Network == network && results.Contacts[i].Address == address {
					change(&results.Contacts[i])
				}
			}
		}
	}
	lookup := func(name string, change func(*podtrial.Lookup)) func(*podtrial.Results) {
		return func(results *podtrial.Results) {
			for i := range results.Lookups {
				if strings.HasPrefix(results.Lookups[i].Name, name) && results.Lookups[i].Type != podtrial.AAAA {
					change(&results.Lookups[i])
				}
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*podtrial.Results)
		what   string
		reason string
	}{
		{"timeout", contact(podtrial.UDP, "10.2.0.1:8080", func(c *podtrial.Contact) { c.Outcome, c.Failed, c.Sent, c.Clusters = podprobe.TimedOut, 1, 1, nil }),
			"east>west Headless UDP/IPv4", "10.2.0.1:8080: timed out"},
		{"some fail", contact(podtrial.TCP, "10.9.0.1:8080", func(c *podtrial.Contact) { c.Outcome, c.Failed = podprobe.Refused, 3 }),
			"east> ClusterSetIP TCP/IPv4", "10.9.0.1:8080: refused: nothing listens there, or a firewall rejects (3 of 11 requests)"},
		{"another cluster", contact(podtrial.TCP, "10.2.0.1:8080", func(c *podtrial.Contact) { c.Clusters = map[string]int{"east": 6} }),
			"east>west Headless TCP/IPv4", "10.2.0.1:8080 answered as a server of cluster east instead of west: both clusters use this address"},
		{"something else", contact(podtrial.TCP, "10.2.0.1:8080", func(c *podtrial.Contact) {
			c.Outcome, c.Error, c.Failed, c.Sent = podprobe.Failed, "something else answered", 1, 1
		}),
			"east>west Headless TCP/IPv4", "10.2.0.1:8080: something else answered"},
		{"a stranger", contact(podtrial.TCP, "10.9.0.1:8080", func(c *podtrial.Contact) { c.Clusters["north"] = 1 }),
			"east> ClusterSetIP TCP/IPv4", "10.9.0.1:8080 answered as a server of cluster north instead of east, west: both clusters use this address"},
		{"only some clusters", func(results *podtrial.Results) {
			for i := range results.Contacts {
				if results.Contacts[i].Address == "10.9.0.1:8080" {
					delete(results.Contacts[i].Clusters, "west")
				}
			}
		}, "east> ClusterSetIP TCP/IPv4, ClusterSetIP UDP/IPv4", "10.9.0.1:8080 never answered as a server of cluster west"},
		{"one of two DNS servers", lookup("server.west.", func(l *podtrial.Lookup) { l.Outcome, l.Got, l.Failed = podprobe.NotFound, nil, 4 }),
			"east>west Headless DNS/IPv4", "server.west.mcs-test-x-headless.ns.svc.clusterset.local A: the name does not exist (4 of 10 lookups)"},
		{"no name", lookup("server.west.", func(l *podtrial.Lookup) { l.Outcome, l.Got, l.Failed = podprobe.NotFound, nil, l.Sent }),
			"east>west Headless DNS/IPv4", "server.west.mcs-test-x-headless.ns.svc.clusterset.local A: the name does not exist"},
		{"another address", lookup("mcs-test-x.", func(l *podtrial.Lookup) { l.Got, l.Failed = []string{"10.9.0.2"}, 3 }),
			"east> ClusterSetIP DNS/IPv4", "mcs-test-x.ns.svc.clusterset.local A is 10.9.0.2 instead of 10.9.0.1 (3 of 10 lookups)"},
		{"no SRV record", lookup("_udp._udp.mcs-test-x-headless", func(l *podtrial.Lookup) { l.Got, l.Failed = nil, l.Sent }),
			"east> Headless SRV", "_udp._udp.mcs-test-x-headless.ns.svc.clusterset.local SRV is nothing instead of server.east.mcs-test-x-headless.ns.svc.clusterset.local:8080, server.west.mcs-test-x-headless.ns.svc.clusterset.local:8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := all(testRun, checks)
			east := seen["east"]
			test.change(&east.results)
			seen["east"] = east
			judged := judge(checks, seen)
			failures := failuresOf(judged)
			if len(failures) != 1 || passed(judged) {
				t.Fatalf("got failures %+v", failures)
			}
			if got := failures[0].from + ">" + failures[0].to + " " + strings.Join(failures[0].what, ", "); got != test.what || failures[0].reason != test.reason {
				t.Errorf("got %q because of %q", got, failures[0].reason)
			}
		})
	}
}

// R560: what a client did not try is not taken for success.
func TestWithoutClient(t *testing.T) {
	checks := expectChecks(testRun, twoClusters())
	for name, change := range map[string]func(map[string]outcome){
		"no outcome": func(seen map[string]outcome) { delete(seen, "west") },
		"failure":    func(seen map[string]outcome) { seen["west"] = outcome{failure: "no image"} },
		"no results": func(seen map[string]outcome) { seen["west"] = outcome{} },
		"half of all": func(seen map[string]outcome) {
			seen["west"] = outcome{results: podtrial.Results{Lookups: seen["west"].results.Lookups}}
		},
	} {
		seen := all(testRun, checks)
		change(seen)
		judged := judge(checks, seen)
		failures := failuresOf(judged)
		if passed(judged) || len(failures) == 0 || slices.ContainsFunc(failures, func(f failure) bool { return f.from != "west" || f.tried || f.reason == "" }) {
			t.Errorf("%s: got failures %+v", name, failures)
		}
	}
}

// R560: what is missing of an import is said, with the state of the member.
func TestMissingImports(t *testing.T) {
	headless := &multiclusterxv1beta1.ServiceImport{Spec: multiclusterxv1beta1.ServiceImportSpec{Type: multiclusterxv1beta1.Headless, IPs: []string{"10.9.0.1"}}}
	withIP := &multiclusterxv1beta1.ServiceImport{Spec: multiclusterxv1beta1.ServiceImportSpec{Type: multiclusterxv1beta1.ClusterSetIP, IPs: []string{"10.9.0.1"}}}
	slice := func(cluster string, ready bool, addresses ...string) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{multicluster.SourceClusterLabel: cluster}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}}},
		}
	}
	east, west := slice("east", true, "10.1.0.1"), slice("west", true, "10.2.0.1")
	v6East := slice("east", true, "fd00:1::1")
	for _, test := range []struct {
		name     string
		found    *multiclusterxv1beta1.ServiceImport
		slices   []discoveryv1.EndpointSlice
		headless bool
		want     string
	}{
		{"complete", withIP, []discoveryv1.EndpointSlice{east, v6East, west}, false, ""},
		{"complete and headless", headless, []discoveryv1.EndpointSlice{east, v6East, west}, true, ""},
		{"no import", nil, nil, false, "cluster east did not import all endpoints in time: east (its own); west (Lost there)"},
		{"no IP", headless, []discoveryv1.EndpointSlice{east, v6East, west}, false, "the import in cluster east did not get an IP in time"},
		{"a family is missing", headless, []discoveryv1.EndpointSlice{east, west}, true, "cluster east did not import all endpoints in time: east (its own)"},
		{"not ready", headless, []discoveryv1.EndpointSlice{east, v6East, slice("west", false, "10.2.0.1")}, true, "cluster east did not import all endpoints in time: west (Lost there)"},
	} {
		clusters := twoClusters()
		states := map[string]clustersetv1alpha1.MemberState{"west": clustersetv1alpha1.MemberLost}
		if got := missing(&clusters[0], clusters, newImported(test.found, test.slices), test.headless, states); got != test.want {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
	if got := describeMember("east", "north", nil); got != "north (not a member there)" {
		t.Errorf("got %q", got)
	}
}
