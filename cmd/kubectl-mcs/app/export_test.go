// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
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

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// runExport exports shop/web of a cluster.
func runExport(t *testing.T, c *cluster, changes ...func(*exporting)) (stdout, stderr string, err error) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	o := &exporting{streams: streams, timeout: 30 * time.Second}
	for _, change := range changes {
		change(o)
	}
	err = o.run(t.Context(), c, "shop", "web")
	return out.String(), errOut.String(), err
}

func waiting(o *exporting) { o.wait = true }

func local() *clustersetv1alpha1.Member { return newMember("east", clustersetv1alpha1.MemberLocal) }

func isExported(t *testing.T, c *cluster) bool {
	t.Helper()
	_, err := c.MCS.MulticlusterXV1beta1().ServiceExports("shop").Get(t.Context(), "web", metav1.GetOptions{})
	return err == nil
}

var serviceExports = multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceexports").GroupResource()

func ready(status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: multicluster.ServiceExportReady, Status: status, Message: message}
}

func TestServiceIsExportedOnce(t *testing.T) {
	c := newCluster(newService("web"), local())
	for _, want := range []string{"exported", "already exported"} {
		out, errOut, err := runExport(t, c)
		if err != nil || errOut != "" {
			t.Fatalf("error %v, warnings %q", err, errOut)
		}
		expectText(t, "serviceexport.multicluster.x-k8s.io/web "+want+"\n", out)
	}
	if !isExported(t, c) {
		t.Error("there is no ServiceExport")
	}
}

func TestExportIsPrintedAsAnObject(t *testing.T) {
	out, _, err := runExport(t, newCluster(newService("web"), local()), func(o *exporting) { o.format = "yaml" })
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: web
  namespace: shop
spec: {}
status: {}
`, out)
}

func TestWhatCannotBeExportedIsRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"no Service", nil, `there is no Service "web" in namespace "shop" of context "east": create it first, or choose another namespace with -n`},
		{
			"ExternalName", []runtime.Object{newService("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
			"is of type ExternalName, which cannot be exported: export a Service that has endpoints",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(test.objects...)
			_, _, err := runExport(t, c)
			expectError(t, err, test.want)
			if isExported(t, c) {
				t.Error("it was exported all the same")
			}
		})
	}
}

func TestExportThatIsBeingDeletedIsNoExport(t *testing.T) {
	dying := newServiceExport("web")
	dying.DeletionTimestamp, dying.Finalizers = new(before(time.Minute)), []string{"example.com/slow"}
	_, _, err := runExport(t, newCluster(newService("web"), dying, local()))
	expectError(t, err, "is being deleted", "example.com/slow", "export the Service again when it is gone")
}

func TestExporterInNoClusterSetIsWarned(t *testing.T) {
	unclaimed := local()
	unclaimed.Status.ClusterSet = ""
	const warning = "Warning: the cluster of context \"east\" is in no ClusterSet, and nothing is exported until it is: make it a member of one with `kubectl mcs join`\n"
	for _, test := range []struct {
		name    string
		cluster *cluster
		want    string
	}{
		{"no id", newCluster(newService("web")), warning},
		{"no ClusterSet", newCluster(newService("web"), unclaimed), warning},
		{"a member", newCluster(newService("web"), local()), ""},
		{"not for the user to know", withoutMembers(newCluster(newService("web"))), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, errOut, err := runExport(t, test.cluster)
			if err != nil || errOut != test.want {
				t.Errorf("error %v, warnings %q", err, errOut)
			}
		})
	}
}

// withoutMembers is a cluster whose members the user may not read.
func withoutMembers(c *cluster) *cluster {
	fakeOf(c).PrependReactor("list", "members", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	return c
}

// thenWatched has something happen to the ServiceExport as soon as it is watched.
func thenWatched(c *cluster, events ...watch.Event) {
	fakeOf(c).PrependWatchReactor("serviceexports", func(clienttesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewFakeWithChanSize(len(events), false)
		for _, event := range events {
			watcher.Action(event.Type, event.Object)
		}
		return true, watcher, nil
	})
}

func TestExportWaitsUntilItIsReady(t *testing.T) {
	c := newCluster(newService("web"), local())
	thenWatched(c,
		watch.Event{Type: watch.Modified, Object: newServiceExport("web", ready(metav1.ConditionFalse, "soon"))},
		watch.Event{Type: watch.Modified, Object: newServiceExport("web", ready(metav1.ConditionTrue, "the Service is offered"))},
	)
	out, _, err := runExport(t, c, waiting)
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, `
serviceexport.multicluster.x-k8s.io/web exported
serviceexport.multicluster.x-k8s.io/web ready
`, out)
}

func TestExportThatIsReadyIsNotWaitedFor(t *testing.T) {
	c := newCluster(newService("web"), newServiceExport("web", ready(metav1.ConditionTrue, "")), local())
	if _, _, err := runExport(t, c, waiting); err != nil {
		t.Error(err)
	}
}

func TestExportThatDoesNotGetReadySaysWhy(t *testing.T) {
	invalid := metav1.Condition{Type: multicluster.ServiceExportValid, Status: metav1.ConditionFalse, Message: "there is no such Service"}
	for _, test := range []struct {
		name    string
		current *multiclusterxv1beta1.ServiceExport
		want    string
	}{
		{"not ready", newServiceExport("web", ready(metav1.ConditionFalse, "this cluster is in no ClusterSet")), "this cluster is in no ClusterSet"},
		{"not valid", newServiceExport("web", ready(metav1.ConditionFalse, "not valid"), invalid), "there is no such Service"},
		{"nothing is known", newServiceExport("web"), "mcs-controller has not looked at it yet: `kubectl describe deployment -n mcs-system mcs-apiserver` tells"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, err := runExport(t, newCluster(newService("web"), test.current, local()), waiting)
				expectError(t, err, `ServiceExport "web" in namespace "shop" is not ready after 30s: `+test.want)
			})
		})
	}
}

func TestWaitEndsWithItsReason(t *testing.T) {
	t.Run("deleted meanwhile", func(t *testing.T) {
		c := newCluster(newService("web"), local())
		thenWatched(c, watch.Event{Type: watch.Deleted, Object: newServiceExport("web")})
		_, _, err := runExport(t, c, waiting)
		expectError(t, err, "was deleted while waiting for it to be ready")
	})
	t.Run("not allowed", func(t *testing.T) {
		c := newCluster(newService("web"), local())
		fakeOf(c).PrependReactor("list", "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(serviceExports, "", nil)
		})
		_, _, err := runExport(t, c, waiting)
		expectError(t, err, `cannot wait for ServiceExport "web"`, "you may not do that")
	})
	t.Run("interrupted", func(t *testing.T) {
		c := newCluster(newServiceExport("web"), local())
		ctx, cancel := context.WithCancel(t.Context())
		fakeOf(c).PrependWatchReactor("serviceexports", func(clienttesting.Action) (bool, watch.Interface, error) {
			cancel()
			return true, watch.NewFake(), nil
		})
		_, err := waitUntilReady(ctx, c, newServiceExport("web"), time.Hour)
		expectError(t, err, `interrupted while waiting; Service "web" in namespace "shop" stays exported`)
	})
}

func TestOnlyServicesThatCanBeExportedAreOffered(t *testing.T) {
	derived := newService(multicluster.DerivedServiceName("shop", "db"), func(s *corev1.Service) { s.Labels = map[string]string{multicluster.ServiceNameLabel: "db"} })
	c := newCluster(newService("web"), newService("api"), newService("old"), newServiceExport("old"), derived,
		newService("far", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }))
	got, err := exportable(t.Context(), c, "shop")
	if diff := cmp.Diff([]string{"api", "web"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
