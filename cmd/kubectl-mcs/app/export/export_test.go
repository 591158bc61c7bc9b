// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// runExport exports shop/web.
func runExport(t *testing.T, c *cluster.Cluster, changes ...func(*options)) (stdout, stderr string, err error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	o := &options{streams: streams, timeout: 30 * time.Second}
	for _, change := range changes {
		change(o)
	}
	err = o.run(t.Context(), c, "shop", "web")
	return out.String(), errOut.String(), err
}

func waiting(o *options) { o.wait = true }

func TestExportIsIdempotent(t *testing.T) {
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
	for _, want := range []string{"exported", "already exported"} {
		out, errOut, err := runExport(t, c)
		if err != nil || errOut != "" {
			t.Fatalf("got error %v and warnings %q", err, errOut)
		}
		expect.Text(t, "serviceexport.multicluster.x-k8s.io/web "+want+"\n", out)
	}
	if !clustertest.IsExported(t.Context(), c) {
		t.Error("ServiceExport does not exist")
	}
}

// R630: --to sets and changes the clusters that an export is for, and --to-all exports to all again.
func TestExportToChosenClusters(t *testing.T) {
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
	for _, step := range []struct {
		to            []string
		toAll         bool
		outcome, want string
	}{
		{[]string{"west", "region.example.com=eu"}, false, "exported to region.example.com=eu,west only", "west,region.example.com=eu"},
		{[]string{"region.example.com=eu", "west"}, false, "already exported to region.example.com=eu,west only", "west,region.example.com=eu"},
		{nil, false, "already exported to region.example.com=eu,west only", "west,region.example.com=eu"},
		{[]string{"north"}, false, "exported to north only", "north"},
		{nil, true, "exported to all clusters", ""},
		{nil, true, "already exported", ""},
	} {
		out, errOut, err := runExport(t, c, func(o *options) { o.to, o.toAll = step.to, step.toAll })
		if err != nil || errOut != "" {
			t.Fatalf("got error %v and warnings %q", err, errOut)
		}
		expect.Text(t, "serviceexport.multicluster.x-k8s.io/web "+step.outcome+"\n", out)
		found, err := c.MCS.MulticlusterXV1beta1().ServiceExports("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || found.Annotations[multicluster.ExportToAnnotation] != step.want {
			t.Errorf("got %v, %v, want %s", found, err, step.want)
		}
	}
	for to, want := range map[string]string{
		"":           `invalid value "" for --to: lists no clusters`,
		"West,,east": `invalid value "West,,east" for --to: "West" is no cluster ID: `,
		"west,,":     "superfluous comma; has an empty term",
	} {
		o := &options{timeout: time.Second, to: strings.Split(to, ",")}
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--to %q: got %v", to, err)
		}
	}
	if err := (&options{timeout: time.Second, to: []string{"west"}, toAll: true}).validate(); err == nil || !strings.Contains(err.Error(), "--to-all") {
		t.Errorf("got %v", err)
	}
}

// Waiting for a list ends when it is what other clusters see, not that of before.
func TestExportAwaitsTheList(t *testing.T) {
	for _, test := range []struct {
		name, listed string
		audience     *clustersetv1alpha1.Audience
		want         bool
	}{
		{"all", "", nil, true},
		{"all, listed before", "", &clustersetv1alpha1.Audience{Clusters: []string{"west"}}, false},
		{"listed, all before", "west", nil, false},
		{"same", "west,east", &clustersetv1alpha1.Audience{Clusters: []string{"west"}}, true}, // east is the exporting cluster
		{"others before", "west", &clustersetv1alpha1.Audience{Clusters: []string{"north"}}, false},
		{"more before", "west", &clustersetv1alpha1.Audience{Clusters: []string{"north", "west"}}, false},
		{"property", "west,size=small", &clustersetv1alpha1.Audience{Clusters: []string{"north", "west"}}, true},
		{"property, another before", "west,size=small", &clustersetv1alpha1.Audience{Clusters: []string{"north"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			annotations := map[string]string{}
			if test.listed != "" {
				annotations[multicluster.ExportToAnnotation] = test.listed
			}
			listed, given, _ := clusterlist.Parse(annotations, multicluster.ExportToAnnotation)
			exported := clustertest.NewExported("east", time.Hour, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Audience = test.audience })
			if got := reflects(exported, listed, given); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestExportPrintsTheObject(t *testing.T) {
	out, _, err := runExport(t, clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local()), func(o *options) { o.output.Format = "yaml" })
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: web
  namespace: shop
spec: {}
status: {}
`, out)
}

func TestServicesThatCannotBeExported(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"no Service", nil, `failed to export Service "web": not found in namespace "shop" of context "east": create it first, or choose another namespace with -n`},
		{
			"ExternalName", []runtime.Object{clustertest.NewService("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
			"has type ExternalName and cannot be exported; export a Service that has endpoints",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clustertest.NewCluster(test.objects...)
			_, _, err := runExport(t, c)
			expect.Error(t, err, test.want)
			if clustertest.IsExported(t.Context(), c) {
				t.Error("ServiceExport was created")
			}
		})
	}
}

func TestExportThatIsBeingDeleted(t *testing.T) {
	deleting := clustertest.NewServiceExport("web")
	deleting.DeletionTimestamp, deleting.Finalizers = new(clustertest.Before(time.Minute)), []string{"example.com/slow"}
	_, _, err := runExport(t, clustertest.NewCluster(clustertest.NewService("web"), deleting, clustertest.Local()))
	expect.Error(t, err, "is being deleted", "example.com/slow", "export the Service again when it is deleted")
}

func TestExportWarnsOutsideOfAClusterSet(t *testing.T) {
	unclaimed := clustertest.Local()
	unclaimed.Status.ClusterSet = ""
	const warning = "Warning: cluster of context \"east\" is not in a ClusterSet, so the Service is not exported yet: join the cluster to a ClusterSet with `kubectl mcs join`\n"
	for _, test := range []struct {
		name    string
		cluster *cluster.Cluster
		want    string
	}{
		{"no cluster ID", clustertest.NewCluster(clustertest.NewService("web")), warning},
		{"no ClusterSet", clustertest.NewCluster(clustertest.NewService("web"), unclaimed), warning},
		{"in a ClusterSet", clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local()), ""},
		{"not permitted to read members", clustertest.WithoutMembers(clustertest.NewCluster(clustertest.NewService("web"))), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, errOut, err := runExport(t, test.cluster)
			if err != nil || errOut != test.want {
				t.Errorf("got error %v and warnings %q", err, errOut)
			}
		})
	}
}

// watchEvents sends events as soon as the ServiceExport is watched.
func watchEvents(c *cluster.Cluster, events ...watch.Event) {
	clustertest.FakeOf(c).PrependWatchReactor("serviceexports", func(clienttesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewFakeWithChanSize(len(events), false)
		for _, event := range events {
			watcher.Action(event.Type, event.Object)
		}
		return true, watcher, nil
	})
}

func TestExportWaitsUntilItIsReady(t *testing.T) {
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
	watchEvents(c,
		watch.Event{Type: watch.Modified, Object: clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "soon"))},
		watch.Event{Type: watch.Modified, Object: clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, "Service is exported to the ClusterSet"))},
	)
	out, _, err := runExport(t, c, waiting)
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, `
serviceexport.multicluster.x-k8s.io/web exported
serviceexport.multicluster.x-k8s.io/web ready
`, out)
}

func TestWaitForAReadyExportEnds(t *testing.T) {
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, "")), clustertest.Local())
	if _, _, err := runExport(t, c, waiting); err != nil {
		t.Error(err)
	}
}

func TestTimeoutReportsWhyExportIsNotReady(t *testing.T) {
	invalid := metav1.Condition{Type: multicluster.ServiceExportValid, Status: metav1.ConditionFalse, Message: "Service does not exist"}
	for _, test := range []struct {
		name    string
		current *multiclusterxv1beta1.ServiceExport
		want    string
	}{
		{"not ready", clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "cluster is not in a ClusterSet")), "cluster is not in a ClusterSet"},
		{"not valid", clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionFalse, "not valid"), invalid), "Service does not exist"},
		{"no conditions", clustertest.NewServiceExport("web"), "mcs-controller has not processed it yet: `kubectl describe deployments -A -l app.kubernetes.io/name=mcs-apiserver` shows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, err := runExport(t, clustertest.NewCluster(clustertest.NewService("web"), test.current, clustertest.Local()), waiting)
				expect.Error(t, err, `ServiceExport "web" in namespace "shop" is not ready after 30s: `+test.want)
			})
		})
	}
}

func TestWaitFailures(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
		watchEvents(c, watch.Event{Type: watch.Deleted, Object: clustertest.NewServiceExport("web")})
		_, _, err := runExport(t, c, waiting)
		expect.Error(t, err, "was deleted while waiting for it to become ready")
	})
	t.Run("forbidden", func(t *testing.T) {
		c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
		clustertest.FakeOf(c).PrependReactor("list", "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(clustertest.ServiceExports, "", nil)
		})
		_, _, err := runExport(t, c, waiting)
		expect.Error(t, err, `failed to watch ServiceExport "web"`, "permission denied")
	})
	t.Run("interrupted", func(t *testing.T) {
		c := clustertest.NewCluster(clustertest.NewServiceExport("web"), clustertest.Local())
		ctx, cancel := context.WithCancel(t.Context())
		clustertest.FakeOf(c).PrependWatchReactor("serviceexports", func(clienttesting.Action) (bool, watch.Interface, error) {
			cancel()
			return true, watch.NewFake(), nil
		})
		_, err := waitUntilReady(ctx, c, clustertest.NewServiceExport("web"), time.Hour)
		expect.Error(t, err, `interrupted while waiting: Service "web" in namespace "shop" remains exported`)
	})
}

func TestCompletionOfExportableServices(t *testing.T) {
	derived := clustertest.NewService(multicluster.DerivedServiceName("shop", "db"), func(s *corev1.Service) { s.Labels = map[string]string{multicluster.ServiceNameLabel: "db"} })
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.NewService("api"), clustertest.NewService("old"), clustertest.NewServiceExport("old"), derived,
		clustertest.NewService("far", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }))
	got, err := exportableNames(t.Context(), c, "shop")
	if diff := cmp.Diff([]string{"api", "web"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
