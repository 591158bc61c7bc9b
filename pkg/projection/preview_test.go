// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// The only export of a service can conflict with the decision about its shared
// ClusterSet IP. The warning then names no other cluster.
func TestWriterIsWarnedAboutTheDecisionOnTheOnlyExport(t *testing.T) {
	c := newCluster(t)
	c.members.SetIdentity(identity.Cluster{ID: "east", ClusterSet: "everywhere", UID: "uid", IDClaimedAt: epoch})
	c.add(service("web"))
	written := exportFor("web")
	export.RecordDecision(written, &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "east", Since: metav1.NewTime(epoch)}, epoch)
	written.Annotations[multicluster.UseClusterSetIPAnnotation] = "false"
	want := `ClusterSetIPConflict: Conflicting use of a shared ClusterSet IP. Using "true", decided by "east" with the founding export`
	if warnings := c.Preview(written); len(warnings) != 1 || !strings.HasPrefix(warnings[0], want) {
		t.Errorf("got warnings %q, want one that starts with %q", warnings, want)
	}
}

// R66: the writer of an export is warned about Pods that get no DNS name of their
// own, because the name would be too long.
func TestWriterIsWarnedAboutLongDNSNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, test := range []struct {
		name, id, namespace, hostname, clusterIP string
		warned                                   bool
	}{
		{"everything is long", long, long, long, corev1.ClusterIPNone, true},
		{"Pods of a Service with an IP have no names", long, long, long, "10.0.0.1", false},
		{"a short host name", long, long, "web-0", corev1.ClusterIPNone, false},
		{"a short id", "a", long, long, corev1.ClusterIPNone, false},
		{"no host name", long, long, "", corev1.ClusterIPNone, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.members.SetIdentity(identity.Cluster{ID: test.id, ClusterSet: "everywhere", UID: "uid"})
			exported, endpoints, written := service(long), slice("slice", long), exportFor(long)
			exported.Namespace, endpoints.Namespace, written.Namespace = test.namespace, test.namespace, test.namespace
			exported.Spec.ClusterIP = test.clusterIP
			if test.hostname != "" {
				endpoints.Endpoints[1].Hostname = ptr.To(test.hostname)
			}
			c.add(exported, endpoints)
			warnings := c.Preview(written)
			if warned := len(warnings) == 1 && strings.Contains(warnings[0], "longer than 253 characters: "+test.hostname); warned != test.warned || !test.warned && len(warnings) > 0 {
				t.Errorf("the warnings are %q", warnings)
			}
		})
	}
}

// R627: the writer of a list is warned about the members that lose the import, but not about others.
func TestWriterIsWarnedAboutClustersThatLoseTheImport(t *testing.T) {
	server := membertest.NewServer(t, "b")
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), inSystem), membertest.Secret("c", server.Kubeconfig("token-1"), inSystem)) // c is refused: the server is b
	for name, written := range map[string]*multiclusterxv1beta1.ServiceExport{"all": exportFor("all"), "listed": exportTo("listed", "b,c,west"), "others": exportTo("others", "west")} {
		c.add(service(name), written)
	}
	c.add(service("new"))
	stop := run(c)
	defer stop()
	membertest.Eventually(t, "b is connected, and c is refused", func() bool {
		b, c := c.members.Entry("b"), c.members.Entry("c")
		return b != nil && b.Status.State == clusterset.MemberConnected && c != nil && c.Status.State == clusterset.MemberRefused
	})
	for _, test := range []struct {
		name, to string
		warned   bool
	}{
		{"all", "west", true},
		{"all", "a", true},
		{"all", "b", false},
		{"listed", "west", true},
		{"listed", "b", false},
		{"listed", "region.example.com=eu", true},
		{"others", "north", false},
		{"new", "west", false},
	} {
		want := `annotation clusterset.mcs-apiserver.io/export-to: b loses the import of Service "` + test.name + `" from this cluster; list it if that is not intended`
		warnings := c.Preview(exportTo(test.name, test.to))
		if slices.Contains(warnings, want) != test.warned || strings.Contains(strings.Join(warnings, "\n"), " lose") != test.warned {
			t.Errorf("%s to %s: got warnings %q, want %t for %q", test.name, test.to, warnings, test.warned, want)
		}
		if strings.Contains(strings.Join(warnings, "\n"), "a is not known as a member") {
			t.Errorf("%s to %s: got warnings %q about this cluster", test.name, test.to, warnings)
		}
	}
	if warnings := c.Preview(exportFor("listed")); len(warnings) > 0 {
		t.Errorf("got warnings %q without a list", warnings)
	}
	if warnings := c.Preview(exportTo("all", "b,c")); len(warnings) != 1 || !strings.Contains(warnings[0], "c is refused as a member, and imports nothing until it is accepted; see kubectl describe member c") {
		t.Errorf("got warnings %q, want one about c", warnings)
	}
}

func inSystem(secret *corev1.Secret) { secret.Namespace = "mcs-system" }

// R627, R631: the writer of a list is warned about the shared ClusterSet IP that the export gives up.
func TestWriterIsWarnedAboutTheLossOfTheSharedIP(t *testing.T) {
	for _, test := range []struct {
		name, before string
		change       func(*multiclusterxv1beta1.ServiceExport)
		want         string
	}{
		{"has one", "", func(e *multiclusterxv1beta1.ServiceExport) {
			export.RecordDecision(e, &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "east", Since: metav1.NewTime(epoch)}, epoch)
		}, "the export gives up the shared ClusterSet IP 243.1.0.1, as exports with a list take no part in shared ClusterSet IPs; remove the annotation to keep the IP"},
		{"requests one", "", func(e *multiclusterxv1beta1.ServiceExport) {
			e.Annotations[multicluster.UseClusterSetIPAnnotation] = "true"
		}, "the export gives up the shared ClusterSet IP, as "},
		{"requests none", "", func(*multiclusterxv1beta1.ServiceExport) {}, ""},
		{"has a list", "north", func(e *multiclusterxv1beta1.ServiceExport) {
			e.Annotations[multicluster.UseClusterSetIPAnnotation] = "true"
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.members.SetIdentity(identity.Cluster{ID: "east", ClusterSet: "everywhere", UID: "uid", IDClaimedAt: epoch})
			before := exportTo("web", test.before)
			if test.before == "" {
				before.Annotations = map[string]string{}
			}
			test.change(before)
			c.add(service("web"), before)
			got := strings.Join(c.Preview(exportTo("web", "west")), "\n")
			if strings.Contains(got, "gives up") != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("got warnings %q, want %q", got, test.want)
			}
		})
	}
}

// R629: exports that the namespace does not import do not conflict.
func TestWriterIsWarnedAboutConflictsWithImportedExportsOnly(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web", func(e *clustersetv1alpha1.ExportedService) { e.Spec.Type = clustersetv1alpha1.Headless })
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), inSystem), service("web"))
	stop := run(c)
	defer stop()
	warned := func(want bool) func() bool {
		return func() bool {
			return strings.Contains(strings.Join(c.Preview(exportFor("web")), "\n"), "TypeConflict with the exports of b: ") == want
		}
	}
	membertest.Eventually(t, "the writer is warned", warned(true))
	for _, step := range []struct {
		annotation, value string
		warned            bool
	}{
		{clusterset.ImportFromAnnotation, "c", false},
		{clusterset.ImportFromAnnotation, "c,b", true},
		{clusterset.ImportAnnotation, clusterset.ImportDisabled, false},
		{"other", "annotation", true},
	} {
		c.annotateNamespace(t, step.annotation, step.value)
		membertest.Eventually(t, step.annotation+"="+step.value, warned(step.warned))
	}
}
