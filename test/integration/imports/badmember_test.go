// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// Invalid objects of a member are rejected. They do not affect other clusters, and
// the Member reports them.
func TestInvalidObjectsAreRejected(t *testing.T) {
	ns := fleet.CreateNamespace(t, "garbage", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	fake := exporting(slices.Values([]string{
		exportedService(ns, "good.fake", "fake", "good", `,"ports":[{"port":80}]`),
		exportedService(ns, "web.east", "east", "web", ``),                                            // another source cluster
		exportedService(ns, "port.fake", "fake", "port", `,"ports":[{"port":-1}]`),                    // invalid port
		exportedService(ns, "other.fake", "fake", "name", ``),                                         // name differs from the service
		exportedService(ns, "type.fake", "fake", "type", `,"sessionAffinity":"Always"`),               // invalid value
		exportedService(ns, "labels.fake", "fake", "labels", `,"exportedLabels":{"not a label":"x"}`), // not a label
		exportedService("", "nowhere.fake", "fake", "nowhere", ``),                                    // no namespace
	}))
	fakeMember(t, west(), fake)
	west().AwaitImport(t, ns, "good", "fake")
	west().AwaitMember(t, "fake", hasCondition("Synced", "False", "InvalidObjects", "6 objects are rejected", "the first"))
	for _, name := range []string{"port", "name", "type", "labels", "nowhere"} {
		west().AwaitNoImport(t, ns, name)
	}
	found := west().AwaitImport(t, ns, "web", "east") // not from the fake member, though its export is older
	if len(found.Spec.Ports) == 0 {
		t.Errorf("import follows the fake member: %+v", found.Spec)
	}
}

// R125: fields and values of a newer release that this release does not know are
// ignored; known ones are used.
func TestUnknownFieldsOfNewerReleasesAreIgnored(t *testing.T) {
	ns := fleet.CreateNamespace(t, "newer", clusters.Clusters...)
	fake := exporting(slices.Values([]string{
		exportedService(ns, "web.fake", "fake", "web", `,"ports":[{"port":80,"future":true}],"trafficDistribution":"PreferTheFuture","aNewField":{"a":1}`),
	}))
	fakeMember(t, west(), fake)
	found := west().AwaitImport(t, ns, "web", "fake")
	if len(found.Spec.Ports) != 1 || found.Spec.TrafficDistribution == nil || *found.Spec.TrafficDistribution != "PreferTheFuture" {
		t.Errorf("import is %+v", found.Spec)
	}
	west().AwaitMember(t, "fake", hasCondition("Synced", "True", "Synced"))
}

// A feed that cannot be decoded stops the feed of that member only.
func TestUnreadableFeedDoesNotAffectOtherMembers(t *testing.T) {
	ns := fleet.CreateNamespace(t, "unreadable", clusters.Clusters...)
	fakeMember(t, west(), exporting(slices.Values([]string{`{"metadata":{"name":7},"spec":"nonsense"}`})))
	west().AwaitMember(t, "fake", hasCondition("Synced", "False", "Unreadable", "cannot be decoded"))
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
}

// A member with too many exports cannot exhaust the memory of other clusters.
func TestTooManyExportsAreRejected(t *testing.T) {
	ns := fleet.CreateNamespace(t, "flooded", clusters.Clusters...)
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	before := memory(t, west())
	fakeMember(t, west(), exporting(func(yield func(string) bool) {
		for i := range 100_000 {
			service := fmt.Sprintf("service-%d", i)
			if !yield(exportedService(ns, service+".fake", "fake", service, `,"ports":[{"port":80}]`)) {
				return
			}
		}
	}))
	west().AwaitMember(t, "fake", hasCondition("Synced", "False", "TooManyExports", "more than 10000"))
	west().AwaitImport(t, ns, "web", "east")
	export(t, north(), ns, "other")
	west().AwaitImport(t, ns, "other", "north")
	after := memory(t, west())
	t.Logf("mcs-apiserver of west: %d MiB before, %d MiB after", before>>20, after>>20)
	if after-before > 300<<20 {
		t.Errorf("memory grew by %d MiB", (after-before)>>20)
	}
}

// memory returns the resident memory of a cluster's mcs-apiserver in bytes.
func memory(t *testing.T, in *fleet.Cluster) int {
	t.Helper()
	status := expect.Must(os.ReadFile(fmt.Sprintf("/proc/%d/statm", in.APIServers[0].PID())))(t)
	return expect.Must(strconv.Atoi(strings.Fields(string(status))[1]))(t) * os.Getpagesize()
}

// A member that accepts connections and never responds does not delay others.
func TestUnresponsiveMemberDoesNotAffectOtherMembers(t *testing.T) {
	ns := fleet.CreateNamespace(t, "silent", clusters.Clusters...)
	silent := hostile.Resource{Handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	fakeMember(t, west(), hostile.Behavior{hostile.Claims: silent, hostile.Members: silent, hostile.Services: silent, hostile.Slices: silent})
	west().AwaitMember(t, "fake", hasState(clustersetv1alpha1.MemberConnecting))
	export(t, east(), ns, "web")
	west().AwaitImport(t, ns, "web", "east")
	west().AwaitMember(t, "fake", hasCondition("Reachable", "False", "Unreachable"))
}
