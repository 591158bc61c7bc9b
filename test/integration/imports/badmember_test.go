// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// A member that says nonsense is believed only where it makes sense. What it
// may not say it cannot change for anybody, and its entry says what is wrong.
func TestGarbageIsNotTaken(t *testing.T) {
	ns := fleet.CreateNamespace(t, "garbage", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	l := &liar{id: "liar", services: slices.Values([]string{
		exportedService(ns, "good.liar", "liar", "good", `,"ports":[{"port":80}]`),
		exportedService(ns, "web.east", "east", "web", ``),                                            // speaks for another
		exportedService(ns, "port.liar", "liar", "port", `,"ports":[{"port":-1}]`),                    // no such port
		exportedService(ns, "other.liar", "liar", "name", ``),                                         // another name
		exportedService(ns, "type.liar", "liar", "type", `,"sessionAffinity":"Always"`),               // no such value
		exportedService(ns, "labels.liar", "liar", "labels", `,"exportedLabels":{"not a label":"x"}`), // not a label
		exportedService("", "nowhere.liar", "liar", "nowhere", ``),                                    // no namespace
	})}
	secret(t, west(), "member-liar", l.start(t))
	west().AwaitImport(t, ns, "good", "liar")
	west().AwaitMember(t, "liar", hasCondition("Synced", "False", "InvalidObjects", "6 objects are not taken", "the first"))
	for _, name := range []string{"port", "name", "type", "labels", "nowhere"} {
		west().AwaitNoImport(t, ns, name)
	}
	found := west().AwaitImport(t, ns, "web", "east") // and not the liar's, though it is older
	if len(found.Spec.Ports) == 0 {
		t.Errorf("the import was taken over: %+v", found.Spec)
	}
}

// R125: a member of a newer release may say things that this one does not
// know. They are left out; what is known is taken.
func TestNewerReleasesAreUnderstood(t *testing.T) {
	ns := fleet.CreateNamespace(t, "newer", clusters.Clusters...)
	l := &liar{id: "liar", services: slices.Values([]string{
		exportedService(ns, "web.liar", "liar", "web", `,"ports":[{"port":80,"future":true}],"trafficDistribution":"PreferTheFuture","aNewField":{"a":1}`),
	})}
	secret(t, west(), "member-liar", l.start(t))
	found := west().AwaitImport(t, ns, "web", "liar")
	if len(found.Spec.Ports) != 1 || found.Spec.TrafficDistribution == nil || *found.Spec.TrafficDistribution != "PreferTheFuture" {
		t.Errorf("the import is %+v", found.Spec)
	}
	west().AwaitMember(t, "liar", hasCondition("Synced", "True", "Synced"))
}

// What cannot even be read stops the feed of that member alone.
func TestUnreadableFeedStopsNobodyElse(t *testing.T) {
	ns := fleet.CreateNamespace(t, "unreadable", clusters.Clusters...)
	l := &liar{id: "liar", services: slices.Values([]string{`{"metadata":{"name":7},"spec":"nonsense"}`})}
	secret(t, west(), "member-liar", l.start(t))
	west().AwaitMember(t, "liar", hasCondition("Synced", "False", "Unreadable", "cannot be read"))
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
}

// A member that exports too much cannot use up the others' memory.
func TestTooManyExportsAreNotTaken(t *testing.T) {
	ns := fleet.CreateNamespace(t, "flooded", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	before := memory(t, west())
	l := &liar{id: "liar", services: func(yield func(string) bool) {
		for i := range 100_000 {
			service := fmt.Sprintf("service-%d", i)
			if !yield(exportedService(ns, service+".liar", "liar", service, `,"ports":[{"port":80}]`)) {
				return
			}
		}
	}}
	secret(t, west(), "member-liar", l.start(t))
	west().AwaitMember(t, "liar", hasCondition("Synced", "False", "TooManyExports", "more than 10000"))
	west().AwaitImport(t, ns, "web", "east")
	export(t, north(), ns, "other")
	west().AwaitImport(t, ns, "other", "north")
	after := memory(t, west())
	t.Logf("mcs-apiserver of west: %d MiB before, %d MiB after", before>>20, after>>20)
	if after-before > 300<<20 {
		t.Errorf("it cost %d MiB", (after-before)>>20)
	}
}

// memory is what the server of a cluster has resident, in bytes.
func memory(t *testing.T, in *fleet.Cluster) int {
	t.Helper()
	status := expect.Must(os.ReadFile(fmt.Sprintf("/proc/%d/statm", in.APIServers[0].PID())))(t)
	return expect.Must(strconv.Atoi(strings.Fields(string(status))[1]))(t) * os.Getpagesize()
}

// One that accepts connections and never answers holds nobody up.
func TestSilentMemberStopsNobodyElse(t *testing.T) {
	ns := fleet.CreateNamespace(t, "silent", clusters.Clusters...)
	secret(t, west(), "member-liar", (&liar{id: "liar", silent: true}).start(t))
	west().AwaitMember(t, "liar", hasState(clustersetv1alpha1.MemberConnecting))
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	west().AwaitMember(t, "liar", hasCondition("Reachable", "False", "Unreachable"))
}
