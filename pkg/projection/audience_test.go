// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

func exportTo(name, clusters string) *multiclusterxv1beta1.ServiceExport {
	made := exportFor(name)
	made.Annotations = map[string]string{multicluster.ExportToAnnotation: clusters}
	return made
}

// audience returns the clusters that an export and its only slice are for.
func (c *cluster) audience(name string) string {
	exported, ok := c.stores.exportedServices.Get("ns", name+".a")
	if !ok {
		return "not exported"
	}
	slice, ok := c.stores.exportedEndpointSlices.Get("ns", name+"-1.a")
	if !ok {
		return "no endpoints"
	}
	audience := clusterset.AudienceOf(exported)
	switch {
	case !audience.Same(clusterset.AudienceOf(slice)):
		return "differs"
	case audience == nil:
		return "all"
	}
	return strings.Join(audience.Clusters(), ",")
}

// R620, R621, R624, R628: what is published is for the listed clusters, which follow the properties of
// members, and is counted for them.
func TestExportsAreForListedClusters(t *testing.T) {
	server := membertest.NewServer(t, "b")
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }))
	for name, to := range map[string]string{"one": "west", "two": "region.example.com=eu,north", "bad": "West"} {
		c.add(service(name), exportTo(name, to), slice(name+"-1", name))
	}
	c.add(service("everyone"), exportFor("everyone"), slice("everyone-1", "everyone"))
	stop := run(c)
	defer stop()
	for name, want := range map[string]string{"one": "west", "two": "north", "bad": "", "everyone": "all"} {
		membertest.Eventually(t, fmt.Sprintf("%s is for %q", name, want), func() bool { return c.audience(name) == want })
	}
	server.Change(func(s *clustersetv1alpha1.MemberStatus) {
		s.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "eu"}}
	})
	membertest.Eventually(t, "two is for b", func() bool { return c.audience("two") == "b,north" })
	membertest.Eventually(t, "counts", func() bool {
		own, ok := c.stores.members.Get("", "a")
		if !ok {
			return false
		}
		status := own.(*clusterset.Member).Status
		got := ""
		for _, reader := range []string{"b", "west", "north", "south"} {
			exports, endpoints, _ := c.members.Visible("a", reader)
			got += fmt.Sprintf("%s %d %d ", reader, exports, endpoints)
		}
		return got == "b 2 4 west 2 4 north 2 4 south 1 2 " && status.Exports == 4
	})
	server.Change(func(s *clustersetv1alpha1.MemberStatus) { s.Properties = nil })
	membertest.Eventually(t, "two is not for b any more", func() bool { return c.audience("two") == "north" })
}

// R628: a member has a property that is listed before it is accepted.
func TestExportByPropertyReachesAMemberThatIsAcceptedLater(t *testing.T) {
	inner := membertest.NewServer(t, "b")
	inner.Change(func(s *clustersetv1alpha1.MemberStatus) {
		s.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "eu"}}
	})
	release := make(chan struct{})
	server := membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "clusterclaims" {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		inner.ServeHTTP(w, r)
	})
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }))
	c.add(service("web"), exportTo("web", "region.example.com=eu"), slice("web-1", "web"))
	stop := run(c)
	defer stop()
	membertest.Eventually(t, "b is not accepted yet, and shows its properties", func() bool {
		held, ok := c.stores.members.Get("", "b")
		return ok && held.(*clusterset.Member).Status.State == clusterset.MemberConnecting && len(held.(*clusterset.Member).Status.Properties) == 1
	})
	if got := c.audience("web"); got != "" {
		t.Errorf("web is for %q before b is accepted", got)
	}
	close(release)
	membertest.Eventually(t, "web is for b", func() bool { return c.audience("web") == "b" })
}

// R629: a namespace imports from the clusters that it lists, and from none if the list is not valid.
func TestNamespaceImportsFromListedClusters(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	server.Export("api")
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }), service("api"), exportFor("api"))
	stop := run(c)
	defer stop()
	exporters := func(name string) int {
		shown := c.imported(name)
		if shown == nil {
			return 0
		}
		return len(shown.Status.Clusters)
	}
	membertest.Eventually(t, "both are imported", func() bool { return exporters("web") == 1 && exporters("api") == 2 })
	for _, step := range []struct {
		from string
		web  int
	}{{"c", 0}, {"c,b", 1}, {"B", 0}, {"region.example.com=eu", 0}} {
		c.annotateNamespace(t, clusterset.ImportFromAnnotation, step.from)
		membertest.Eventually(t, "imports from "+step.from, func() bool { return exporters("web") == step.web && exporters("api") == 1+step.web })
	}
	server.Change(func(s *clustersetv1alpha1.MemberStatus) {
		s.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "eu"}}
	})
	membertest.Eventually(t, "b has the property", func() bool { return exporters("web") == 1 && exporters("api") == 2 })
}

// R627
func TestWriterIsWarnedAboutClustersThatCannotImport(t *testing.T) {
	server := membertest.NewServer(t, "b")
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }), service("web"))
	stop := run(c)
	defer stop()
	membertest.Eventually(t, "b is a member", func() bool { return c.members.Entry("b") != nil })
	for to, want := range map[string]string{
		"b":                       "",
		"a":                       "",
		"a,b":                     "annotation clusterset.mcs-apiserver.io/export-to: a is this cluster, which always imports its own exports: listing it has no effect",
		"b,west":                  "west is not known as a member",
		"b,region.example.com=eu": "no member is known to have ClusterProperty region.example.com=eu; create the ClusterClaim region.example.com with value eu",
	} {
		got := strings.Join(c.Preview(exportTo("web", to)), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got warnings %q, want %q", to, got, want)
		}
	}
}
