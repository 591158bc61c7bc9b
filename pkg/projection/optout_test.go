// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R207: a namespace that is annotated accordingly contains only imports that this
// cluster exports itself.
func TestNamespaceCanOptOutOfImports(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	server.Export("api")
	c := newCluster(t)
	c.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }), service("api"), exportFor("api"))
	stop := run(c)
	defer stop()
	exporters := func(name string, want int) func() bool {
		return func() bool {
			shown := c.imported(name)
			return shown == nil && want == 0 || shown != nil && len(shown.Status.Clusters) == want
		}
	}
	annotate := func(value string) {
		t.Helper()
		c.annotateNamespace(t, clusterset.ImportAnnotation, value)
	}
	membertest.Eventually(t, "web is imported", exporters("web", 1))
	membertest.Eventually(t, "api is exported by both clusters", exporters("api", 2))
	annotate(clusterset.ImportDisabled)
	membertest.Eventually(t, "web is no longer imported", exporters("web", 0))
	membertest.Eventually(t, "api is exported by this cluster only", exporters("api", 1))
	annotate("")
	membertest.Eventually(t, "web is imported again", exporters("web", 1))
	membertest.Eventually(t, "api is exported by both clusters again", exporters("api", 2))
}

// annotateNamespace lets the namespace have one annotation.
func (c *cluster) annotateNamespace(t *testing.T, name, value string) {
	t.Helper()
	namespaces := c.kubernetes.CoreV1().Namespaces()
	ns, err := namespaces.Get(t.Context(), "ns", metav1.GetOptions{})
	must(t, err)
	ns.Annotations = map[string]string{name: value}
	_, err = namespaces.Update(t.Context(), ns, metav1.UpdateOptions{})
	must(t, err)
}

// R485: imports follow a change of the annotation of their namespace.
func TestNamespaceAsksForSeparateEndpointSlices(t *testing.T) {
	c := newCluster(t)
	c.add(service("api"), exportFor("api"))
	stop := run(c)
	defer stop()
	shows := func(want string) func() bool {
		return func() bool {
			shown := c.imported("api")
			return shown != nil && shown.Annotations[multicluster.EndpointSlicesAnnotation] == want
		}
	}
	membertest.Eventually(t, "api is imported", shows(""))
	c.annotateNamespace(t, multicluster.EndpointSlicesAnnotation, multicluster.EndpointSlicesSeparate)
	membertest.Eventually(t, "api has the annotation", shows(multicluster.EndpointSlicesSeparate))
	c.annotateNamespace(t, "other", "annotation")
	membertest.Eventually(t, "api does not have the annotation any more", shows(""))
}
