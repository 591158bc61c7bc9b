// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis/diagnosistest"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// newFacts returns what the east knows about shop/web, which it exports with the west.
func newFacts(changes ...func(*serviceFacts)) serviceFacts {
	facts := serviceFacts{
		cluster: "east", importsKnown: true, exportsKnown: true, slicesKnown: true,
		Facts: explain.Facts{
			Context: "east-admin", Namespace: "shop", Service: "web", Now: clustertest.Noon, MembersKnown: true,
			Members: []clustersetv1alpha1.Member{*clustertest.Local(), *clustertest.NewMember("west", clustersetv1alpha1.MemberConnected)},
			Exports: []clustersetv1alpha1.ExportedService{*clustertest.NewExported("west", time.Minute), *clustertest.NewExported("east", time.Hour)},
			Slices: []clustersetv1alpha1.ExportedEndpointSlice{
				*clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1", "!10.1.0.2"), *clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1"),
			},
			ServiceImport: clustertest.NewImport(),
		},
	}
	for _, change := range changes {
		change(&facts)
	}
	return facts
}

func notExported(facts *serviceFacts) { facts.Exports, facts.Slices = nil, nil }

func inState(state clustersetv1alpha1.MemberState) func(*serviceFacts) {
	return func(facts *serviceFacts) { facts.Members[1].Status.State = state }
}

// onlyWest leaves the west as only exporter, in a state.
func onlyWest(state clustersetv1alpha1.MemberState, policy clustersetv1alpha1.LostPolicy, expired bool) func(*serviceFacts) {
	return func(facts *serviceFacts) {
		facts.Exports, facts.Slices = facts.Exports[:1], facts.Slices[1:]
		status := &facts.Members[1].Status
		status.State, status.LostPolicy, status.Expired = state, policy, expired
	}
}

func exportedAs(changes ...func(*clustersetv1alpha1.ExportedServiceSpec)) func(*serviceFacts) {
	return func(facts *serviceFacts) {
		facts.Exports[0] = *clustertest.NewExported("west", time.Minute, changes...)
	}
}

// R581: a service says what is most important about it.
func TestServiceSaysWhatIsMostImportant(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*serviceFacts)
		want    condition
		summary string
	}{
		{"all is well", func(*serviceFacts) {}, conditionOK, "2 ready endpoints in 2 clusters"},
		{"no export is known", notExported, conditionProblem, "not exported by any cluster that this one knows"},
		{"the ServiceExport is not valid", func(facts *serviceFacts) {
			notExported(facts)
			facts.serviceExport = clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "Service does not exist"))
		}, conditionProblem, "not exported: Service does not exist"},
		{"not imported", func(facts *serviceFacts) { facts.ServiceImport = nil }, conditionProblem, "not imported in this cluster"},
		{"imports cannot be read", func(facts *serviceFacts) { facts.ServiceImport, facts.importsKnown = nil, false }, conditionOK, "2 ready endpoints in 2 clusters"},
		{"endpoints cannot be read", func(facts *serviceFacts) { facts.Slices, facts.slicesKnown = nil, false }, conditionUnknown, "endpoints have not been read"},
		{"exports cannot be read", func(facts *serviceFacts) { notExported(facts); facts.exportsKnown = false }, conditionUnknown, "exports have not been read"},
		{"exports cannot be read, and there is a ServiceExport", func(facts *serviceFacts) {
			notExported(facts)
			facts.exportsKnown = false
			facts.serviceExport = clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, ""))
		}, conditionUnknown, "exports have not been read"},
		{"endpoints cannot be read, and it is not imported", func(facts *serviceFacts) { facts.Slices, facts.slicesKnown, facts.ServiceImport = nil, false, nil }, conditionProblem, "not imported in this cluster"},
		{"the import is not ready", func(facts *serviceFacts) {
			facts.ServiceImport.Status.Conditions = []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionFalse, Reason: "NameConflict", Message: "delete Service x"}}
		}, conditionProblem, "import is not ready: NameConflict: delete Service x"},
		{"the import has no status", func(facts *serviceFacts) { facts.ServiceImport.Status.Conditions = nil }, conditionProblem, "import is not ready: not processed by mcs-controller yet"},
		{"no endpoints", func(facts *serviceFacts) { facts.Slices = nil }, conditionProblem, "no ready endpoints"},
		{"another type", exportedAs(clustertest.Headless), conditionProblem, "conflict: TypeConflict"},
		{"other ports", exportedAs(func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil }), conditionWarning, "conflict: PortConflict"},
		{"a silent member", inState(clustersetv1alpha1.MemberStale), conditionWarning, "west is Stale"},
		{"a silent member, and other ports", func(facts *serviceFacts) {
			inState(clustersetv1alpha1.MemberStale)(facts)
			exportedAs(func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil })(facts)
		}, conditionWarning, "west is Stale; conflict: PortConflict"},
		{"a lost member of which only the import tells", func(facts *serviceFacts) {
			facts.Members, facts.MembersKnown = nil, false
			facts.ServiceImport.Status.Conditions = append(facts.ServiceImport.Status.Conditions, metav1.Condition{Type: multicluster.ServiceImportMembersReachable, Status: metav1.ConditionFalse, Reason: "MembersLost"})
		}, conditionWarning, "endpoints may not be used: MembersLost"},
		{"a lost member", inState(clustersetv1alpha1.MemberLost), conditionWarning, "west is Lost"},
		{"the only exporter is lost", onlyWest(clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw, false), conditionProblem, "no endpoints in use: west is Lost"},
		{"the only exporter is lost, and has a conflict", func(facts *serviceFacts) {
			inState(clustersetv1alpha1.MemberLost)(facts)
			exportedAs(func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil })(facts)
			facts.Slices = facts.Slices[1:]
		}, conditionProblem, "no endpoints in use: west is Lost"},
		{"the only exporter is lost, and its endpoints are kept", onlyWest(clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyKeep, true), conditionWarning, "west is Lost"},
		{"the only exporter is lost, and the last endpoints are kept", onlyWest(clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyKeepLast, true), conditionWarning, "west is Lost"},
		{"the only exporter is silent for longer than its TTL", onlyWest(clustersetv1alpha1.MemberStale, clustersetv1alpha1.LostPolicyWithdraw, true), conditionUnknown, "endpoints are used only if they answer: west is Stale"},
		{"the only exporter is silent, and its endpoints do not answer", func(facts *serviceFacts) {
			onlyWest(clustersetv1alpha1.MemberStale, clustersetv1alpha1.LostPolicyWithdraw, true)(facts)
			facts.ServiceImport.Status.Conditions = append(facts.ServiceImport.Status.Conditions, metav1.Condition{Type: multicluster.ServiceImportMembersReachable, Status: metav1.ConditionFalse, Reason: "MembersLost"})
		}, conditionProblem, "no endpoints in use: west is Stale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			row := newServiceRow([]serviceFacts{newFacts(test.change)}, 7)
			if row.Condition != test.want || row.Summary != test.summary {
				t.Errorf("got %s: %s, want %s: %s", row.Condition, row.Summary, test.want, test.summary)
			}
			if row.Revision != 7 || row.Namespace != "shop" || row.Name != "web" {
				t.Errorf("got %+v", row)
			}
		})
	}
}

// exportedTo are the facts of the west about its export, which is for some clusters, nil for all.
func exportedTo(audience *clustersetv1alpha1.Audience) serviceFacts {
	return newFacts(func(facts *serviceFacts) {
		facts.cluster, facts.Context = "west", "west-admin"
		facts.Members[0].Status.State, facts.Members[1].Status.State = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberLocal
		facts.Exports, facts.Slices = facts.Exports[:1], facts.Slices[1:]
		facts.Exports[0].Spec.Audience = audience
	})
}

// R632: a service that is exported to other clusters on purpose is not a problem of this one.
func TestServiceThatIsForOtherClusters(t *testing.T) {
	ignorant := func(facts *serviceFacts) {
		notExported(facts)
		facts.ServiceImport = nil
	}
	for _, test := range []struct {
		name     string
		change   func(*serviceFacts)
		audience *clustersetv1alpha1.Audience
		want     condition
		summary  string
		state    importState
	}{
		{"for others", ignorant, &clustersetv1alpha1.Audience{Clusters: []string{"hub", "north"}}, conditionOK, "not for this cluster: west exports it to hub, north only", notForCluster},
		{"for no other", ignorant, &clustersetv1alpha1.Audience{}, conditionOK, "not for this cluster: west exports it to no other cluster", notForCluster},
		{"for all", ignorant, nil, conditionProblem, "not exported by any cluster that this one knows", notImported},
		{"for this cluster, but not arrived", ignorant, &clustersetv1alpha1.Audience{Clusters: []string{"east"}}, conditionProblem, "not exported by any cluster that this one knows", notImported},
		{"for others, and this cluster has an export that is not valid", func(facts *serviceFacts) {
			ignorant(facts)
			facts.serviceExport = clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "Service does not exist"))
		}, &clustersetv1alpha1.Audience{}, conditionProblem, "not exported: Service does not exist", notImported},
		{"for others, and exports cannot be read", func(facts *serviceFacts) { ignorant(facts); facts.exportsKnown = false }, &clustersetv1alpha1.Audience{}, conditionUnknown, "exports have not been read", notImported},
		{"for others, and this cluster is not known", func(facts *serviceFacts) { ignorant(facts); facts.Members = nil }, &clustersetv1alpha1.Audience{}, conditionProblem, "not exported by any cluster that this one knows", notImported},
	} {
		t.Run(test.name, func(t *testing.T) {
			views := []serviceFacts{newFacts(test.change), exportedTo(test.audience)}
			row := newServiceRow(views, 1)
			if row.Condition != test.want || row.Summary != test.summary || row.Importers[0].State != test.state || row.Importers[1].State != imported {
				t.Errorf("got %s: %s, and importers %+v", row.Condition, row.Summary, row.Importers)
			}
			if details := newServiceDetails(views); details.Views[0].State != test.state {
				t.Errorf("details have %+v", details.Views[0])
			}
		})
	}
}

// R632: details say for which clusters exports are, also if there are none.
func TestDetailsSayForWhichClustersExportsAre(t *testing.T) {
	for want, audience := range map[string]*clustersetv1alpha1.Audience{`"exportedTo":[]`: {}, `"exportedTo":["north"]`: {Clusters: []string{"north"}}} {
		encoded, err := json.Marshal(newServiceDetails([]serviceFacts{exportedTo(audience)}))
		if err != nil || !strings.Contains(string(encoded), want) {
			t.Errorf("%s is missing in %s (%v)", want, encoded, err)
		}
	}
}

// R632: the page knows the reasons of exports that are kept from a cluster on purpose, and shows for whom exports are.
func TestPageShowsWhoExportsAreFor(t *testing.T) {
	script := file(t, "details.js")
	for _, want := range []string{"NotForThisCluster: \"The service is not for this cluster.\"", "NotImportedFrom:", "wanted(report)", `"For"]`, "audience(one)", "importLimit.message", "not for this cluster"} {
		if !strings.Contains(script, want) {
			t.Errorf("%s is missing", want)
		}
	}
	facts := diagnosistest.Works()
	facts.Importing.Path.Exports.Value, facts.Importing.Path.Endpoints.Value = nil, nil
	west := diagnosis.Cluster{Context: "west-admin", Members: diagnosis.Of([]clustersetv1alpha1.Member{*clustertest.NewMember("west", clustersetv1alpha1.MemberLocal)})}
	serviceExport := clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, ""))
	serviceExport.Annotations = map[string]string{multicluster.ExportToAnnotation: "north"}
	west.Path.ServiceExport = diagnosis.Of(serviceExport)
	facts.Others = append(facts.Others, west)
	found := diagnosis.Diagnose(facts).Checks
	if !slices.ContainsFunc(found, func(check diagnosis.Check) bool { return check.Reason == string(notForCluster) }) {
		t.Errorf("the doctor has another reason: %+v", found)
	}
}

// R581: exporters are in the order of precedence, with their endpoints and the state of their cluster.
func TestExportersAreSortedByPrecedence(t *testing.T) {
	row := newServiceRow([]serviceFacts{newFacts()}, 1)
	want := []exporter{{Cluster: "east", State: clustersetv1alpha1.MemberLocal, Ready: 1, Total: 2}, {Cluster: "west", State: clustersetv1alpha1.MemberConnected, Ready: 1, Total: 1}}
	if !slices.Equal(row.Exporters, want) {
		t.Errorf("got %+v, want %+v", row.Exporters, want)
	}
	if row.Type != "ClusterSetIP" || !slices.Equal(row.IPs, []string{"10.0.0.7"}) {
		t.Errorf("got type %s and IPs %v", row.Type, row.IPs)
	}
}

// R581: of a service that many clusters export, a row has the first ones and the number of others.
func TestRowsAreLimited(t *testing.T) {
	facts := newFacts(notExported)
	for i := range maxExporters + 7 {
		facts.Exports = append(facts.Exports, *clustertest.NewExported(fmt.Sprintf("c%02d", i), time.Hour))
	}
	row := newServiceRow([]serviceFacts{facts}, 1)
	if len(row.Exporters) != maxExporters || row.Omitted != 7 || row.Exporters[0].Cluster != "c00" {
		t.Errorf("got %d exporters from %s, %d omitted", len(row.Exporters), row.Exporters[0].Cluster, row.Omitted)
	}
	facts.ServiceImport.Status.Conditions = []metav1.Condition{{Type: multicluster.ServiceImportReady, Message: strings.Repeat("x", 10*maxMessage)}}
	if row := newServiceRow([]serviceFacts{facts}, 1); len(row.Summary) > 2*maxMessage {
		t.Errorf("the summary has %d characters", len(row.Summary))
	}
}

// R581: every watched cluster says whether it imports the service, and which exports it knows.
func TestImportersAreThoseOfAllViews(t *testing.T) {
	west := newFacts(func(facts *serviceFacts) {
		facts.Context, facts.cluster, facts.ServiceImport = "west-admin", "west", nil
		facts.Exports = facts.Exports[:1]
		facts.serviceExport = clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, ""))
	})
	north := newFacts(func(facts *serviceFacts) {
		facts.Context, facts.cluster, facts.ServiceImport, facts.importsKnown = "north-admin", "north", nil, false
	})
	preferring := newFacts(func(facts *serviceFacts) {
		facts.ServiceImport.Annotations = map[string]string{multicluster.ActiveTierAnnotation: "all", multicluster.ActiveTierReasonAnnotation: "too few"}
	})
	views := []serviceFacts{preferring, west, north}
	want := []importer{{"east-admin", "east", imported, ""}, {"west-admin", "west", notImported, ""}, {"north-admin", "north", importUnknown, ""}}
	if row := newServiceRow(views, 1); !slices.Equal(row.Importers, want) {
		t.Errorf("got %+v, want %+v", row.Importers, want)
	}
	details := newServiceDetails(views)
	if got := details.Views[0]; got.Type != "ClusterSetIP" || !slices.Equal(got.IPs, []string{"10.0.0.7"}) || !slices.Equal(got.Clusters, []string{"east", "west"}) || got.Export != nil {
		t.Errorf("got %+v of the east", got)
	}
	if details.Views[0].ActiveTier != "all" || details.Views[0].ActiveTierReason != "too few" || details.Views[1].ActiveTier != "" {
		t.Errorf("got tiers of %+v", details.Views)
	}
	if got := details.Views[1]; !slices.Equal(got.Clusters, []string{"west"}) || got.Export == nil || len(got.Export.Conditions) != 1 {
		t.Errorf("got %+v of the west", got)
	}
	if details.Explanation == nil || details.Explanation.Import == nil || len(details.Explanation.Exports) != 2 {
		t.Errorf("got explanation %+v", details.Explanation)
	}
}

// R581: details of a service that no cluster exports are what its ServiceExport says.
func TestDetailsWithoutExports(t *testing.T) {
	facts := newFacts(notExported)
	facts.serviceExport = clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "Service does not exist"))
	details := newServiceDetails([]serviceFacts{facts})
	if details.Explanation != nil || details.Winner != "" || details.Views[0].Export == nil {
		t.Errorf("got %+v", details)
	}
}

// R586: details say of every cluster what could not be read, instead of nothing.
func TestDetailsSayWhatIsUnknown(t *testing.T) {
	west := newFacts(notExported, func(facts *serviceFacts) {
		facts.Context, facts.cluster, facts.exportsKnown = "west-admin", "west", false
	})
	if got := newServiceDetails([]serviceFacts{newFacts(), west}); got.ExportsUnknown || got.EndpointsUnknown || got.Views[0].ExportsUnknown || !got.Views[1].ExportsUnknown {
		t.Errorf("the west does not know exports: got %+v", got)
	}
	unread := newFacts(notExported, func(facts *serviceFacts) { facts.exportsKnown, facts.slicesKnown = false, false })
	if got := newServiceDetails([]serviceFacts{unread}); !got.ExportsUnknown || !got.EndpointsUnknown || got.Explanation != nil {
		t.Errorf("nothing could be read: got %+v", got)
	}
}

// R581: an export without IP families and ports, which has no DNS names, hides nothing: lists are never null.
func TestDetailsHaveNoNull(t *testing.T) {
	facts := newFacts(func(facts *serviceFacts) {
		facts.Exports = []clustersetv1alpha1.ExportedService{*clustertest.NewExported("west", time.Minute, clustertest.Headless, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
			spec.Ports, spec.IPFamilies = nil, nil
		})}
		facts.Slices, facts.ServiceImport = nil, nil
	})
	encoded, err := json.Marshal(newServiceDetails([]serviceFacts{facts}))
	if err != nil || strings.Contains(string(encoded), "null") || !strings.Contains(string(encoded), `"dns":[]`) {
		t.Errorf("got %s, %v", encoded, err)
	}
}

// R581: it is said who wins conflicts, and why.
func TestWinnerAndWhy(t *testing.T) {
	at := func(cluster string, created, effective time.Duration) clustersetv1alpha1.ExportedService {
		exported := clustertest.NewExported(cluster, created)
		exported.Spec.EffectiveAt = clustertest.Before(effective)
		return *exported
	}
	for _, test := range []struct {
		name     string
		exported []clustersetv1alpha1.ExportedService
		want     string
		why      string
	}{
		{"alone", []clustersetv1alpha1.ExportedService{at("east", time.Hour, time.Hour)}, "", ""},
		{"older", []clustersetv1alpha1.ExportedService{at("east", time.Minute, time.Minute), at("west", time.Hour, time.Hour)}, "west",
			"its export took effect first, at 2026-03-01T11:00:00Z; that of east at 2026-03-01T11:59:00Z"},
		{"joined together, created first", []clustersetv1alpha1.ExportedService{at("east", time.Hour, time.Minute), at("west", 2*time.Hour, time.Minute)}, "west",
			"exports took effect at the same time; its ServiceExport was created first, at 2026-03-01T10:00:00Z; that of east at 2026-03-01T11:00:00Z"},
		{"by ID", []clustersetv1alpha1.ExportedService{at("west", time.Hour, time.Minute), at("east", time.Hour, time.Minute)}, "east",
			"exports took effect at the same time; its cluster ID sorts before west"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, why := winner(test.exported); got != test.want || why != test.why {
				t.Errorf("got %q: %s, want %q: %s", got, why, test.want, test.why)
			}
		})
	}
}

// R580: a cluster has the links over which others read it, and what it says about itself.
func TestClustersHaveLinks(t *testing.T) {
	local := clustertest.NewMember("west", clustersetv1alpha1.MemberLocal, clustertest.Counts(3, 9))
	stale := clustertest.NewMember("west", clustersetv1alpha1.MemberStale, clustertest.Seen(time.Minute), clustertest.Counts(2, 5),
		clustertest.Condition("Reachable", metav1.ConditionFalse, "Timeout", "does not respond"), clustertest.Condition("Synced", metav1.ConditionTrue, "Synced", ""))
	relayed := clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, func(status *clustersetv1alpha1.MemberStatus) { status.Path = []string{"west", "hub"} })
	node := newClusterNode("west", []opinion{{"south-admin", "south", relayed}, {"east-admin", "east", stale}, {"west-admin", "west", local}})
	if node.Context != "west-admin" || node.Exports != 3 || node.Endpoints != 9 || node.ClusterSet != "production" {
		t.Errorf("got %+v", node)
	}
	if len(node.Links) != 2 || node.Links[0].From != "east" || node.Links[0].Context != "east-admin" || node.Links[1].From != "south" {
		t.Fatalf("got links %+v", node.Links)
	}
	if link := node.Links[0]; link.State != clustersetv1alpha1.MemberStale || !link.LastSeen.Equal(stale.Status.LastSeen) || !slices.Equal(link.Problems, []string{"Timeout: does not respond"}) || link.Via != nil {
		t.Errorf("got link %+v", link)
	}
	if link := node.Links[1]; !slices.Equal(link.Via, []string{"hub"}) {
		t.Errorf("got link %+v", link)
	}
}

// R580: two contexts of one cluster are one cluster in the graph, with one link.
func TestContextsOfOneClusterAreOneNode(t *testing.T) {
	local, west := clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected)
	if node := newClusterNode("west", []opinion{{"admin", "east", west}, {"viewer", "east", west}}); len(node.Links) != 1 || node.Links[0].Context != "admin" {
		t.Errorf("got %+v", node)
	}
	if node := newClusterNode("east", []opinion{{"admin", "east", local}, {"viewer", "east", local}}); node.Context != "admin" {
		t.Errorf("got %+v", node)
	}
}

// R581: nothing is invented for a service that no view knows.
func TestServicesThatNoViewKnowsDoNotExist(t *testing.T) {
	unknown := newFacts(notExported, func(facts *serviceFacts) { facts.ServiceImport = nil })
	if exists([]serviceFacts{unknown}) {
		t.Error("the service exists")
	}
	for name, facts := range map[string]serviceFacts{
		"exported": newFacts(func(facts *serviceFacts) { facts.ServiceImport = nil }), "imported": newFacts(notExported),
		"ServiceExport": newFacts(notExported, func(facts *serviceFacts) {
			facts.ServiceImport, facts.serviceExport = nil, &multiclusterxv1beta1.ServiceExport{}
		}),
	} {
		if !exists([]serviceFacts{unknown, facts}) {
			t.Errorf("%s: the service does not exist", name)
		}
	}
}
