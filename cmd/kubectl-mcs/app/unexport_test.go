// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func runUnexport(t *testing.T, c *cluster, ignoreNotFound bool) (stdout, stderr string, err error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	err = (&unexporting{streams: streams, ignoreNotFound: ignoreNotFound}).run(t.Context(), c, "shop", "web")
	return out.String(), errOut.String(), err
}

func TestUnexportSaysWhatRemains(t *testing.T) {
	otherService := newExported("north", time.Hour)
	otherService.Name, otherService.Labels = "db.north", clusterset.SourceLabels("north", "db")
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"others", []runtime.Object{local(), newExported("west", time.Hour), newExported("south", time.Hour), newExported("east", time.Hour)},
			"still exported by south, west: the service stays, with their endpoints\n"},
		{"only this cluster", []runtime.Object{local(), newExported("east", time.Hour), otherService}, "no other cluster exports it: the import goes away in every cluster\n"},
		{"no ClusterSet", nil, "the cluster is in no ClusterSet: no other cluster had seen it\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(append(test.objects, newServiceExport("web"))...)
			out, errOut, err := runUnexport(t, c, false)
			if err != nil || errOut != "" {
				t.Fatalf("error %v, warnings %q", err, errOut)
			}
			expectText(t, "serviceexport.multicluster.x-k8s.io/web unexported\n"+test.want, out)
			if isExported(t, c) {
				t.Error("the ServiceExport is still there")
			}
		})
	}
}

func TestUnexportingWhatIsNotExportedIsAnErrorUnlessIgnored(t *testing.T) {
	c := newCluster(local(), newExported("west", time.Hour))
	_, _, err := runUnexport(t, c, false)
	expectError(t, err, `there is no ServiceExport "web" in namespace "shop" of context "east"`, "kubectl get serviceexports -A")
	out, _, err := runUnexport(t, c, true)
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, `
serviceexport.multicluster.x-k8s.io/web not found
still exported by west: the service stays, with their endpoints
`, out)
}

func TestUnexportIsDoneAlthoughTheRestIsNotKnown(t *testing.T) {
	c := newCluster(newServiceExport("web"))
	fakeOf(c).PrependReactor("list", "exportedservices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	out, errOut, err := runUnexport(t, c, false)
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, "serviceexport.multicluster.x-k8s.io/web unexported\n", out)
	if errOut == "" {
		t.Error("no warning")
	}
}

// A missing API must not pass for a missing object: there may well be one.
func TestUnexportWithoutTheAPIIsAnErrorAlsoWhenMissingExportsAreIgnored(t *testing.T) {
	_, errOut, code := servers{{"bare", serving(nil)}}.run(t, "unexport", "web", "--ignore-not-found")
	if code == 0 {
		t.Errorf("exit code 0: %s", errOut)
	}
	missing := apierrors.NewGenericServerResponse(404, "delete", serviceExports, "web", "404 page not found", 0, true)
	if isMissing(missing) || !isMissing(apierrors.NewNotFound(serviceExports, "web")) {
		t.Error("an API that is missing is taken for an object")
	}
}

func TestExportsAreOfferedToUnexport(t *testing.T) {
	got, err := exportedNames(t.Context(), newCluster(newServiceExport("web"), newServiceExport("db")), "shop")
	if err != nil || len(got) != 2 || got[0] != "db" {
		t.Errorf("offered %v, error %v", got, err)
	}
	if other, err := exportedNames(t.Context(), newCluster(newServiceExport("web")), metav1.NamespaceDefault); err != nil || len(other) != 0 {
		t.Errorf("offered %v of another namespace, error %v", other, err)
	}
}
