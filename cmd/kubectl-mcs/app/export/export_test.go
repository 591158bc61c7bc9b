// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"net/http"
	"net/http/httptest"
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
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// runExport exports shop/web.
func runExport(t *testing.T, c *cluster.Cluster, changes ...func(*options)) (stdout, stderr string, err error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	o := &options{streams: streams, timeout: 30 * time.Second, schema: serves(`{"audience":{}}`)}
	for _, change := range changes {
		change(o)
	}
	err = o.run(t.Context(), c, "shop", "web")
	return out.String(), errOut.String(), err
}

func waiting(o *options) { o.wait = true }

func exportingTo(clusters ...string) func(*options) { return func(o *options) { o.to = clusters } }

// serves is a server whose exported Services have these properties.
func serves(properties string) func(context.Context, *cluster.Cluster) ([]byte, error) {
	return func(context.Context, *cluster.Cluster) ([]byte, error) {
		return []byte(`{"openapi":"3.0.0","components":{"schemas":{"io.v1alpha1.ExportedServiceList":{},"io.v1alpha1.ExportedServiceSpec":{"type":"object","properties":` + properties + `}}}}`), nil
	}
}

// listing is the ServiceExport shop/web with a list of clusters.
func listing(clusters string, conditions ...metav1.Condition) *multiclusterxv1beta1.ServiceExport {
	serviceExport := clustertest.NewServiceExport("web", conditions...)
	serviceExport.Annotations = map[string]string{multicluster.ExportToAnnotation: clusters}
	return serviceExport
}

// seenBy is what clusters see of the export of shop/web by the east, none means all.
func seenBy(clusters ...string) *clustersetv1alpha1.ExportedService {
	return clustertest.NewExported("east", time.Hour, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		if len(clusters) > 0 {
			spec.Audience = &clustersetv1alpha1.Audience{Clusters: clusters}
		}
	})
}

// relayed returns what is seen of another cluster, which chose the same UID.
func relayed(exported *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	exported.Spec.Path = []string{"west"}
	return exported
}

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

// R630: an earlier version would export to all clusters. It is not asked to export to some.
func TestExportToChosenClustersNeedsAServerThatKnowsThem(t *testing.T) {
	for _, test := range []struct {
		name   string
		schema func(context.Context, *cluster.Cluster) ([]byte, error)
		want   []string
	}{
		{"earlier version", serves(`{"cluster":{}}`), []string{`nothing was changed: context "east": mcs-apiserver has a version that cannot export to chosen clusters`, "upgrade all replicas of mcs-apiserver", "without --to"}},
		{"not readable", func(context.Context, *cluster.Cluster) ([]byte, error) {
			return nil, apierrors.NewServiceUnavailable("down")
		}, []string{"nothing was changed", "could not be read", `context "east"`, "mcs-apiserver is installed but not available"}},
		{"not JSON", func(context.Context, *cluster.Cluster) ([]byte, error) { return []byte("<html>"), nil }, []string{"nothing was changed", "could not be read", "invalid OpenAPI document of clusterset.mcs-apiserver.io/v1alpha1"}},
		{"of something else", func(context.Context, *cluster.Cluster) ([]byte, error) { return []byte("{}"), nil }, []string{"nothing was changed", "does not describe exported Services", "try again"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, existing := range []*multiclusterxv1beta1.ServiceExport{nil, listing("north")} {
				objects := []runtime.Object{clustertest.NewService("web"), clustertest.Local()}
				if existing != nil {
					objects = append(objects, existing)
				}
				c := clustertest.NewCluster(objects...)
				earlier := func(o *options) { o.schema = test.schema }
				_, _, err := runExport(t, c, earlier, exportingTo("west"))
				expect.Error(t, err, test.want...)
				for _, action := range clustertest.FakeOf(c).Actions() {
					if action.GetVerb() == "create" || action.GetVerb() == "patch" || action.GetVerb() == "update" {
						t.Errorf("got %+v", action)
					}
				}
				for _, change := range []func(*options){func(*options) {}, func(o *options) { o.toAll = true }} {
					if _, _, err := runExport(t, c, earlier, change); err != nil {
						t.Errorf("export to all clusters failed: %v", err)
					}
				}
			}
		})
	}
}

// R630: the document is that of the version that serves now, without a hash of an earlier one.
func TestSchemaIsReadOfTheServer(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	client, err := versioned.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	document, err := readSchema(t.Context(), &cluster.Cluster{Context: "east", MCS: client})
	if err != nil || string(document) != "{}" || asked != "/openapi/v3/apis/clusterset.mcs-apiserver.io/v1alpha1" {
		t.Errorf("got %q of %s, and %v", document, asked, err)
	}
}

// R630: --wait ends when other clusters see the export with the list that it has, which another client may have written.
func TestExportWaitsUntilTheListIsSeen(t *testing.T) {
	ready := clustertest.Ready(metav1.ConditionTrue, "")
	for _, test := range []struct {
		name       string
		export     *multiclusterxv1beta1.ServiceExport
		seen, then *clustersetv1alpha1.ExportedService
		options    []func(*options)
		settling   time.Duration
	}{
		{"existing list", listing("west", ready), seenBy(), seenBy("west"), nil, 0},
		{"list removed by other means", clustertest.NewServiceExport("web", ready), seenBy("west"), seenBy(), nil, 0},
		{"list changed", listing("west", ready), seenBy("west"), seenBy("north"), []func(*options){exportingTo("north")}, settling},
		{"seen of another cluster only, with the same UID", clustertest.NewServiceExport("web", ready), relayed(seenBy()), seenBy(), nil, 0},
		{"not seen yet", clustertest.NewServiceExport("web", ready), nil, seenBy(), nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, arrives := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					objects := []runtime.Object{clustertest.NewService("web"), clustertest.Local(), test.export.DeepCopy()}
					if test.seen != nil {
						objects = append(objects, test.seen.DeepCopy())
					}
					c := clustertest.NewCluster(objects...)
					if arrives {
						time.AfterFunc(10*time.Second, func() {
							tracker := clustertest.FakeOf(c).Tracker()
							write := func() error {
								return tracker.Update(clustersetv1alpha1.SchemeGroupVersion.WithResource("exportedservices"), test.then, "shop")
							}
							if test.seen == nil {
								write = func() error { return tracker.Add(test.then) }
							}
							if err := write(); err != nil {
								t.Error(err)
							}
						})
					}
					began := time.Now()
					_, _, err := runExport(t, c, append(test.options, waiting)...)
					switch took := time.Since(began).Round(time.Second); {
					case arrives && (err != nil || took != 10*time.Second+test.settling):
						t.Errorf("got %v after %s", err, took)
					case !arrives && (test.seen == nil || len(test.seen.Spec.Path) > 0):
						expect.Error(t, err, "is ready, but other clusters do not see it after 30s")
					case !arrives:
						expect.Error(t, err, "is not seen as annotation clusterset.mcs-apiserver.io/export-to says after 30s", "all replicas of mcs-apiserver")
					}
				})
			}
		})
	}
}

// R630: right after a list is changed, the condition is that of the list before.
func TestExportWaitsForTheConditionOfTheNewList(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus]string{metav1.ConditionTrue: "", metav1.ConditionFalse: "is not ready after 30s: nroth is not a member"} {
		synctest.Test(t, func(t *testing.T) {
			c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local(), listing("west", clustertest.Ready(metav1.ConditionTrue, "Service is exported to west only")), seenBy("nroth"))
			time.AfterFunc(time.Second, func() {
				judged := listing("nroth", clustertest.Ready(status, "nroth is not a member"))
				if _, err := c.MCS.MulticlusterXV1beta1().ServiceExports("shop").Update(context.Background(), judged, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			})
			began := time.Now()
			_, _, err := runExport(t, c, waiting, exportingTo("nroth"))
			if want == "" {
				if took := time.Since(began).Round(time.Second); err != nil || took != time.Second {
					t.Errorf("got %v after %s", err, took)
				}
				return
			}
			expect.Error(t, err, want)
		})
	}
}

// R630: the list that counts is that of the ServiceExport, also if somebody else changes it during the wait.
func TestExportWaitsForAListThatChangesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := clustertest.Ready(metav1.ConditionTrue, "")
		c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local(), listing("west", ready), seenBy("north"))
		time.AfterFunc(5*time.Second, func() {
			if _, err := c.MCS.MulticlusterXV1beta1().ServiceExports("shop").Update(context.Background(), listing("north", ready), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		if _, _, err := runExport(t, c, waiting); err != nil {
			t.Error(err)
		}
	})
}

// R630: --wait says at once that no listed cluster can import the Service, and gives up at once if the list is not valid.
func TestWaitSaysWhyNoClusterCanImport(t *testing.T) {
	notReady := func(reason, message string) metav1.Condition {
		condition := clustertest.Ready(metav1.ConditionFalse, message)
		condition.Reason = reason
		return condition
	}
	missing := clustertest.Ready(metav1.ConditionTrue, "Service is exported to nroth, west only; nroth is not a member")
	missing.Reason = "ClustersMissing"
	for _, test := range []struct {
		name       string
		export     *multiclusterxv1beta1.ServiceExport
		seen       *clustersetv1alpha1.ExportedService
		took       time.Duration
		said, want string
	}{
		{"no cluster matches", listing("nroth", notReady("NoMatchingCluster", "nroth is not a member")), seenBy("nroth"), 30 * time.Second, "Not ready yet: nroth is not a member\n", "is not ready after 30s: nroth is not a member"},
		{"no cluster matched the list before", listing("west", notReady("NoMatchingCluster", "nroth is not a member")), seenBy("nroth"), 30 * time.Second, "", "is not ready after 30s: nroth is not a member"},
		{"invalid list", listing("West", notReady("InvalidClusterList", "West is no cluster ID")), seenBy("none"), 0, "", `ServiceExport "web" in namespace "shop" is not ready: West is no cluster ID`},
		{"corrected list", listing("west", notReady("InvalidClusterList", "West is no cluster ID")), seenBy("west"), 30 * time.Second, "", "is not ready after 30s"},
		{"some clusters are missing", listing("nroth,west", missing), seenBy("nroth", "west"), 0, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local(), test.export, test.seen)
				began := time.Now()
				_, errOut, err := runExport(t, c, waiting)
				if took := time.Since(began).Round(time.Second); took != test.took || errOut != test.said {
					t.Errorf("took %s and said %q", took, errOut)
				}
				if test.want == "" && err == nil {
					return
				}
				expect.Error(t, err, test.want)
			})
		})
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
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local(), seenBy())
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
	c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.NewServiceExport("web", clustertest.Ready(metav1.ConditionTrue, "")), clustertest.Local(), seenBy())
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
	t.Run("exported Services forbidden", func(t *testing.T) {
		c := clustertest.NewCluster(clustertest.NewService("web"), clustertest.Local())
		clustertest.FakeOf(c).PrependReactor("list", "exportedservices", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(clustersetv1alpha1.SchemeGroupVersion.WithResource("exportedservices").GroupResource(), "", nil)
		})
		_, _, err := runExport(t, c, waiting)
		expect.Error(t, err, `failed to watch ExportedServices "web"`, "permission denied")
	})
	t.Run("interrupted", func(t *testing.T) {
		c := clustertest.NewCluster(clustertest.NewServiceExport("web"), clustertest.Local())
		ctx, cancel := context.WithCancel(t.Context())
		clustertest.FakeOf(c).PrependWatchReactor("serviceexports", func(clienttesting.Action) (bool, watch.Interface, error) {
			cancel()
			return true, watch.NewFake(), nil
		})
		_, err := waitUntilReady(ctx, c, clustertest.NewServiceExport("web"), false, time.Hour, nil)
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
