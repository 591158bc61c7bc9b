// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package unexport

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func runUnexport(t *testing.T, c *cluster.Cluster, ignoreNotFound bool) (stdout, stderr string, err error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	err = (&options{streams: streams, ignoreNotFound: ignoreNotFound}).run(t.Context(), c, "shop", "web")
	return out.String(), errOut.String(), err
}

func TestUnexportDescribesTheImport(t *testing.T) {
	otherService := clustertest.NewExported("north", time.Hour)
	otherService.Name, otherService.Labels = "db.north", clusterset.SourceLabels("north", "db")
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"other exports", []runtime.Object{clustertest.Local(), clustertest.NewExported("west", time.Hour), clustertest.NewExported("south", time.Hour), clustertest.NewExported("east", time.Hour)},
			"Service \"web\" is still exported by south, west and remains available.\n"},
		{"only this cluster", []runtime.Object{clustertest.Local(), clustertest.NewExported("east", time.Hour), otherService}, "Service \"web\" is not exported by any other cluster and is withdrawn from all clusters.\n"},
		{"no ClusterSet", nil, "Cluster of context \"east\" is not in a ClusterSet, so Service \"web\" was not visible in any other cluster.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clustertest.NewCluster(append(test.objects, clustertest.NewServiceExport("web"))...)
			out, errOut, err := runUnexport(t, c, false)
			if err != nil || errOut != "" {
				t.Fatalf("got error %v and warnings %q", err, errOut)
			}
			expect.Text(t, "serviceexport.multicluster.x-k8s.io/web unexported\n"+test.want, out)
			if clustertest.IsExported(t.Context(), c) {
				t.Error("ServiceExport still exists")
			}
		})
	}
}

func TestUnexportOfAServiceThatIsNotExported(t *testing.T) {
	c := clustertest.NewCluster(clustertest.Local(), clustertest.NewExported("west", time.Hour))
	_, _, err := runUnexport(t, c, false)
	expect.Error(t, err, `ServiceExport "web" does not exist in namespace "shop" of context "east"`, "kubectl get serviceexports -A")
	out, _, err := runUnexport(t, c, true)
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, `
serviceexport.multicluster.x-k8s.io/web not found
Service "web" is still exported by west and remains available.
`, out)
}

func TestUnexportWithoutPermissionToListExports(t *testing.T) {
	c := clustertest.NewCluster(clustertest.NewServiceExport("web"))
	clustertest.FakeOf(c).PrependReactor("list", "exportedservices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, clustertest.Forbidden })
	out, errOut, err := runUnexport(t, c, false)
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "serviceexport.multicluster.x-k8s.io/web unexported\n", out)
	if errOut == "" {
		t.Error("got no warning")
	}
}

func TestCompletionOfServiceExports(t *testing.T) {
	got, err := serviceexport.Names(t.Context(), clustertest.NewCluster(clustertest.NewServiceExport("web"), clustertest.NewServiceExport("db")), "shop")
	if err != nil || len(got) != 2 || got[0] != "db" {
		t.Errorf("got completions %v and error %v", got, err)
	}
	if other, err := serviceexport.Names(t.Context(), clustertest.NewCluster(clustertest.NewServiceExport("web")), metav1.NamespaceDefault); err != nil || len(other) != 0 {
		t.Errorf("got completions %v of another namespace and error %v", other, err)
	}
}
