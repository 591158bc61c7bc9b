// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

// world is a ClusterSet of fake clusters in which everything works.
type world struct {
	trial *trial
	kube  map[string]*kubernetesfake.Clientset
	mcs   map[string]*mcsfake.Clientset
	out   *bytes.Buffer
	// status returns the status of a Pod by role.
	status func(role string) corev1.PodStatus

	mu    sync.Mutex
	plans map[string]podtrial.Plan
}

var addresses = map[string]string{"east": "10.1.0.1", "west": "10.2.0.1"}

func ready(role string) corev1.PodStatus {
	if role == client {
		return corev1.PodStatus{Phase: corev1.PodSucceeded}
	}
	return corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

func newWorld() *world {
	w := &world{kube: map[string]*kubernetesfake.Clientset{}, mcs: map[string]*mcsfake.Clientset{}, out: &bytes.Buffer{}, plans: map[string]podtrial.Plan{}, status: ready}
	w.trial = &trial{run: newRun(""), clusterSet: "production", steps: progress.New(w.out), notes: w.out}
	for _, id := range []string{"east", "west"} {
		w.trial.sites = append(w.trial.sites, w.newSite(id))
	}
	return w
}

func (w *world) newSite(id string) *site {
	kube := kubernetesfake.NewClientset()
	kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		pod.Status, pod.Spec.NodeName = w.status(pod.Labels[roleLabel]), "node-of-"+id
		if args := pod.Spec.Containers[0].Args; args[0] == "call" {
			w.mu.Lock()
			defer w.mu.Unlock()
			var plan podtrial.Plan
			if err := json.Unmarshal([]byte(strings.TrimPrefix(args[1], "--plan=")), &plan); err != nil {
				return true, nil, err
			}
			w.plans[id] = plan
		}
		return false, nil, nil
	})
	kube.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		action.(clienttesting.CreateAction).GetObject().(*corev1.Service).Spec.IPFamilies = []corev1.IPFamily{v4}
		return false, nil, nil
	})
	kube.PrependReactor("list", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		derived, _ := action.(clienttesting.ListAction).GetListRestrictions().Labels.RequiresExactMatch(discoveryv1.LabelServiceName)
		list := &discoveryv1.EndpointSliceList{}
		for cluster, address := range addresses {
			list.Items = append(list.Items, discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{multicluster.SourceClusterLabel: cluster, discoveryv1.LabelServiceName: derived}},
				Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}}},
			})
		}
		return true, list, nil
	})
	mcs := mcsfake.NewSimpleClientset(clustertest.NewMember("east", clustersetv1alpha1.MemberConnected), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected))
	mcs.PrependReactor("get", "serviceimports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found := &multiclusterxv1beta1.ServiceImport{Spec: multiclusterxv1beta1.ServiceImportSpec{Type: multiclusterxv1beta1.ClusterSetIP, IPs: []string{"10.9.0.1"}}}
		if strings.HasSuffix(action.(clienttesting.GetAction).GetName(), "-headless") {
			found.Spec = multiclusterxv1beta1.ServiceImportSpec{Type: multiclusterxv1beta1.Headless}
		}
		return true, found, nil
	})
	w.kube[id], w.mcs[id] = kube, mcs
	s := newSite(&cluster.Cluster{Context: id + "-admin", Kubernetes: kube, MCS: mcs}, id, "mcs-controller:v1", time.Minute)
	s.poll = time.Millisecond
	s.logs = func(context.Context, string, string, string) ([]byte, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.log(w.plans[id]), nil
	}
	return s
}

// limit sets how long everything may take.
func (w *world) limit(timeout time.Duration) {
	for _, s := range w.trial.sites {
		s.timeout = timeout
	}
}

// log is what a client prints for which everything works.
func (w *world) log(plan podtrial.Plan) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, query := range plan.Queries {
		_ = encoder.Encode(podtrial.Line{Lookup: &podtrial.Lookup{Name: query.Name, Type: query.Type, Got: query.Want, Outcome: podprobe.Succeeded, Sent: 1, Took: time.Millisecond}})
	}
	for _, target := range plan.Targets {
		clusters := map[string]int{"east": 1}
		if target.Address == "10.9.0.1:8080" {
			clusters["west"] = 1
		}
		if target.Address == "10.2.0.1:8080" {
			clusters = map[string]int{"west": 1}
		}
		_ = encoder.Encode(podtrial.Line{Contact: &podtrial.Contact{Network: target.Network, Address: target.Address, Outcome: podprobe.Succeeded, Sent: 1, Clusters: clusters, RoundTrip: time.Millisecond}})
	}
	_ = encoder.Encode(podtrial.Line{Done: true})
	return out.Bytes()
}

// left returns what is left in the clusters.
func (w *world) left(t *testing.T) []string {
	t.Helper()
	var left []string
	for id := range w.kube {
		ctx := context.Background()
		pods, err1 := w.kube[id].CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		services, err2 := w.kube[id].CoreV1().Services("").List(ctx, metav1.ListOptions{})
		namespaces, err3 := w.kube[id].CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		exports, err4 := w.mcs[id].MulticlusterXV1beta1().ServiceExports("").List(ctx, metav1.ListOptions{})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			left = append(left, id+" pod "+pod.Name)
		}
		for _, service := range services.Items {
			left = append(left, id+" service "+service.Name)
		}
		for _, namespace := range namespaces.Items {
			left = append(left, id+" namespace "+namespace.Name)
		}
		for _, export := range exports.Items {
			left = append(left, id+" export "+export.Name)
		}
	}
	slices.Sort(left)
	return left
}

// R560, R562: everything is tried from every cluster, and nothing is left.
func TestRun(t *testing.T) {
	w := newWorld()
	report, err := w.trial.do(t.Context())
	if err != nil || w.trial.left != nil || !report.Passed {
		t.Fatalf("errors %v, %v; failures %+v", err, w.trial.left, failuresOf(report.Checks))
	}
	if left := w.left(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if len(report.Clusters) != 2 || report.Clusters[0].Node != "node-of-east" || report.Clusters[1].Context != "west-admin" || report.Clusters[1].Image != "mcs-controller:v1" {
		t.Errorf("got %+v", report.Clusters)
	}
	for _, id := range []string{"east", "west"} {
		if plan := w.plans[id]; len(plan.Targets) != 6 || len(plan.Queries) != 8 {
			t.Errorf("%s: got plan %+v", id, plan)
		}
	}
	for _, step := range []string{"✓ Start servers in namespace mcs-test-", "✓ Wait until", "✓ Look up and call", "✓ Delete everything"} {
		if !strings.Contains(w.out.String(), step) {
			t.Errorf("%q is missing in %s", step, w.out)
		}
	}
}

// R562: nothing is left after a failure at any step, nor after an interrupt, whatever the API answered.
func TestNothingIsLeft(t *testing.T) {
	no := errors.New("no")
	for _, test := range []struct {
		name   string
		change func(w *world, cancel context.CancelFunc)
		err    string
	}{
		{"namespace is refused", func(w *world, _ context.CancelFunc) { fail(w.kube["west"], "create", "namespaces", no) }, "create namespace"},
		{"Service is refused", func(w *world, _ context.CancelFunc) { fail(w.kube["west"], "create", "services", no) }, "create Service"},
		{"Pod is refused", func(w *world, _ context.CancelFunc) { fail(w.kube["west"], "create", "pods", no) }, "create Pod"},
		{"export is refused", func(w *world, _ context.CancelFunc) { fail(w.mcs["west"], "create", "serviceexports", no) }, "create ServiceExport"},
		{"server does not start", func(w *world, _ context.CancelFunc) {
			w.limit(50 * time.Millisecond)
			w.status = func(string) corev1.PodStatus { return corev1.PodStatus{Phase: corev1.PodPending} }
		}, "did not get ready or complete within 50ms: it has not started"},
		{"image cannot be pulled", func(w *world, _ context.CancelFunc) {
			w.status = func(string) corev1.PodStatus {
				return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no"}}}}}
			}
		}, "container with image mcs-controller:v1: ImagePullBackOff: no; choose another image with --image"},
		{"Pods may not be read", func(w *world, _ context.CancelFunc) {
			fail(w.kube["east"], "get", "pods", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`User "dev" cannot get resource "pods"`)))
		}, "with --namespace, the role edit in an existing namespace suffices"},
		{"old image", func(w *world, _ context.CancelFunc) {
			w.status = func(string) corev1.PodStatus { return corev1.PodStatus{Phase: corev1.PodFailed} }
			w.trial.sites[0].logs = func(context.Context, string, string, string) ([]byte, error) {
				return []byte(`Error: unknown command "trial"`), nil
			}
		}, "has no command trial: upgrade mcs-apiserver"},
		{"imports cannot be read", func(w *world, _ context.CancelFunc) {
			w.limit(500 * time.Millisecond)
			fail(w.mcs["east"], "get", "serviceimports", no)
		}, "read imports"},
		// R569: what nobody saw is not a result.
		{"reads of imports hang", func(w *world, _ context.CancelFunc) {
			w.limit(500 * time.Millisecond)
			fail(w.mcs["east"], "get", "serviceimports", context.DeadlineExceeded)
		}, "read imports"},
		{"interrupted at the start", func(w *world, cancel context.CancelFunc) {
			w.kube["east"].PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { cancel(); return false, nil, nil })
		}, "interrupted"},
		{"interrupted while waiting", func(w *world, cancel context.CancelFunc) {
			w.mcs["east"].PrependReactor("get", "serviceimports", func(clienttesting.Action) (bool, runtime.Object, error) { cancel(); return true, nil, no })
		}, "interrupted"},
		{"interrupted while calling", func(w *world, cancel context.CancelFunc) {
			w.status = func(role string) corev1.PodStatus {
				if role == client {
					cancel()
					return corev1.PodStatus{Phase: corev1.PodRunning}
				}
				return ready(role)
			}
		}, "interrupted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			test.change(w, cancel)
			_, err := w.trial.do(ctx)
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v", err)
			}
			if left := w.left(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func fail(client interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
}, verb, resource string, err error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// R562: what was created although there was no answer is deleted.
func TestLostAnswers(t *testing.T) {
	w := newWorld()
	w.kube["west"].PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject()
		if err := w.kube["west"].Tracker().Add(object); err != nil {
			return true, nil, err
		}
		return true, nil, errors.New("connection reset")
	})
	if _, err := w.trial.do(t.Context()); err == nil || len(w.left(t)) > 0 {
		t.Errorf("error %v, left %v", err, w.left(t))
	}
}

// R562: what cannot be deleted is said, with the command that deletes it.
func TestCleanupFails(t *testing.T) {
	w := newWorld()
	fail(w.kube["west"], "delete", "namespaces", errors.New("no"))
	report, err := w.trial.do(t.Context())
	if err != nil || !report.Passed || w.trial.left == nil || !strings.Contains(w.trial.left.Error(), "`kubectl mcs test --cleanup --run "+w.trial.id+" east-admin west-admin`") {
		t.Errorf("got errors %v and %v", err, w.trial.left)
	}
}

// R562: mcs-apiserver that hangs does not keep what is in Kubernetes from being deleted, also with --cleanup.
func TestHangingAPIDoesNotKeepTheRest(t *testing.T) {
	for name, hang := range map[string]func(*world){
		"at the end": func(w *world) {
			if _, err := w.trial.do(t.Context()); err != nil || w.trial.left == nil {
				t.Errorf("got errors %v and %v", err, w.trial.left)
			}
		},
		"with --cleanup": func(w *world) {
			w.trial.keep = true
			if _, err := w.trial.do(t.Context()); err != nil {
				t.Error(err)
			}
			for _, s := range w.trial.sites {
				if _, err := s.cleanUpAll(t.Context(), "", ""); err == nil {
					t.Error("there is no error")
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for id := range w.mcs {
				// A fake client does not know the context of a request: this one ends when everything else is deleted.
				gone := make(chan struct{})
				w.kube[id].PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { close(gone); return false, nil, nil })
				for _, verb := range []string{"delete", "list"} {
					w.mcs[id].PrependReactor(verb, "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
						select {
						case <-gone:
						case <-time.After(20 * time.Second):
							t.Error("the namespace is not deleted meanwhile")
						}
						return true, nil, context.DeadlineExceeded
					})
				}
			}
			hang(w)
			for id := range w.kube {
				if namespaces, err := w.kube[id].CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil || len(namespaces.Items) > 0 {
					t.Errorf("%s: error %v, left %v", id, err, namespaces.Items)
				}
			}
		})
	}
}

// R562: a namespace that somebody else created is not deleted, and objects with other names stay.
func TestOthersAreLeftAlone(t *testing.T) {
	w := newWorld()
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.trial.namespace}}
	if err := w.kube["west"].Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.trial.do(t.Context()); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("got error %v", err)
	}
	if left := w.left(t); !slices.Equal(left, []string{"west namespace " + w.trial.namespace}) {
		t.Errorf("left %v", left)
	}
}

// An existing namespace is used, and stays.
func TestExistingNamespace(t *testing.T) {
	w := newWorld()
	w.trial.run = newRun("shop")
	for id := range w.kube {
		if err := w.kube[id].Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := w.trial.do(t.Context()); err != nil || !report.Passed || report.Namespace != "shop" {
		t.Errorf("namespace %q, error %v, failures %+v", report.Namespace, err, failuresOf(report.Checks))
	}
	if left := w.left(t); !slices.Equal(left, []string{"east namespace shop", "west namespace shop"}) {
		t.Errorf("left %v", left)
	}
	w.trial.run = newRun("nowhere")
	if _, err := w.trial.do(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace nowhere does not exist") {
		t.Errorf("got error %v", err)
	}
}

// --keep leaves everything, and says how to look at it and how to delete it.
func TestKeep(t *testing.T) {
	w := newWorld()
	w.trial.keep = true
	if _, err := w.trial.do(t.Context()); err != nil || len(w.left(t)) != 14 {
		t.Errorf("error %v, left %v", err, w.left(t))
	}
	for _, want := range []string{"kubectl mcs doctor mcs-test-" + w.trial.id + " -n " + w.trial.namespace + " --context east-admin", "`kubectl mcs test --cleanup --run " + w.trial.id + " east-admin west-admin`"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in %s", want, w.out)
		}
	}
	// R562: --cleanup finds it by labels.
	for _, s := range w.trial.sites {
		if _, err := s.cleanUpAll(t.Context(), "", ""); err != nil {
			t.Error(err)
		}
	}
	if left := w.left(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// R562: --cleanup leaves objects of others alone.
func TestCleanupFollowsLabels(t *testing.T) {
	w := newWorld()
	for _, set := range []map[string]string{nil, {nameLabel: program}, {nameLabel: program, multicluster.ManagedByLabel: "Helm", runLabel: "x"}, {nameLabel: program, multicluster.ManagedByLabel: coredns.Manager, runLabel: "x", "more": ""}} {
		name := "other-" + string(rune('a'+len(set)))
		for _, object := range []runtime.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: set}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: set}},
		} {
			if err := w.kube["east"].Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := w.left(t)
	deleted, err := w.trial.sites[0].cleanUpAll(t.Context(), "", "")
	if err != nil || len(deleted) > 0 || !slices.Equal(before, w.left(t)) {
		t.Errorf("error %v, deleted %v, left %v", err, deleted, w.left(t))
	}
}

// R562: --cleanup spares what a test may be using, unless its run is named, and namespaces that others use.
func TestCleanupSparesOthers(t *testing.T) {
	w := newWorld()
	add := func(object runtime.Object) {
		t.Helper()
		if err := w.kube["east"].Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	meta := func(namespace, name, id string, age time.Duration) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: run{id: id}.labels(""), CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}
	}
	derived := map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}
	for id, age := range map[string]time.Duration{"old": time.Hour, "new": time.Minute, "used": time.Hour, "serving": time.Hour} {
		add(&corev1.Namespace{ObjectMeta: meta("", "mcs-test-"+id, id, age)})
		add(&corev1.Pod{ObjectMeta: meta("mcs-test-"+id, "mcs-test-"+id+"-server", id, age)})
		add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-test-" + id, Name: "derived-x", Labels: derived}})
	}
	add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-test-used", Name: "web"}})
	add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-test-serving", Name: "web"}})
	for _, step := range []struct {
		run  string
		want []string
	}{
		{"", []string{
			"deleted Pod mcs-test-old/mcs-test-old-server", "deleted Pod mcs-test-serving/mcs-test-serving-server", "deleted Pod mcs-test-used/mcs-test-used-server", "deleted namespace mcs-test-old",
			"kept Pod mcs-test-new/mcs-test-new-server: it is younger than 20m0s, and a test may use it; --run new deletes it",
			"kept namespace mcs-test-new: it is younger than 20m0s, and a test may use it; --run new deletes it",
			"kept namespace mcs-test-serving: it has Service web of somebody else", "kept namespace mcs-test-used: it has Pod web of somebody else",
		}},
		{"new", []string{"deleted Pod mcs-test-new/mcs-test-new-server", "deleted namespace mcs-test-new"}},
		{"used", []string{"kept namespace mcs-test-used: it has Pod web of somebody else"}},
	} {
		got, err := w.trial.sites[0].cleanUpAll(t.Context(), "", step.run)
		if slices.Sort(got); err != nil || !slices.Equal(got, step.want) {
			t.Errorf("run %q: error %v, got %q", step.run, err, got)
		}
	}
}

// R562: nothing is deleted where nothing was created, so that nothing fails that need not be tried.
func TestNothingIsDeletedWithoutPermission(t *testing.T) {
	w := newWorld()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	fail(w.kube["west"], "create", "namespaces", forbidden)
	fail(w.kube["west"], "delete", "*", forbidden)
	fail(w.mcs["west"], "delete", "*", forbidden)
	if _, err := w.trial.do(t.Context()); !apierrors.IsForbidden(err) || w.trial.left != nil {
		t.Errorf("got errors %v and %v", err, w.trial.left)
	}
	if left := w.left(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// R563: Pods run where mcs-apiserver does: other nodes may not be allowed, or lack its image.
func TestPodsRunWhereTheInstallationDoes(t *testing.T) {
	w := newWorld()
	toleration := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	if err := w.kube["east"].Tracker().Add(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "mcs-apiserver", Labels: map[string]string{nameLabel: "mcs-apiserver"}},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"pool": "infra"}, Tolerations: []corev1.Toleration{toleration}, Containers: []corev1.Container{{Name: "mcs-controller", Image: "mcs-controller:v2"}},
		}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.mcs["east"].Tracker().Update(clustersetv1alpha1.SchemeGroupVersion.WithResource("members"), clustertest.NewMember("east", clustersetv1alpha1.MemberLocal), ""); err != nil {
		t.Fatal(err)
	}
	c := *w.trial.sites[0].Cluster
	c.Config = &rest.Config{Host: "http://127.0.0.1:1"} // APIServices cannot be read
	for chosen, want := range map[string]string{"": "mcs-controller:v2", "other:v1": "other:v1"} {
		opened, _, _, err := (&options{image: chosen, timeout: time.Minute}).openSite(t.Context(), &c)
		if err != nil || opened.image != want {
			t.Fatalf("got %+v, error %v", opened, err)
		}
		pod := w.trial.newServer("east", opened.image, time.Minute)
		opened.place(pod)
		if pod.Spec.NodeSelector["pool"] != "infra" || pod.Spec.NodeSelector[corev1.LabelOSStable] != "linux" || !slices.Equal(pod.Spec.Tolerations, []corev1.Toleration{toleration}) {
			t.Errorf("got %+v", pod.Spec)
		}
	}
	placed := 0
	w.trial.sites[0].tolerations = []corev1.Toleration{toleration}
	w.kube["east"].PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		placed += len(action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Spec.Tolerations)
		return false, nil, nil
	})
	if _, err := w.trial.do(t.Context()); err != nil || placed != 2 {
		t.Errorf("error %v, %d Pods are placed", err, placed)
	}
}

// R560: the key of a run is not a part of names, which all members see.
func TestKeyIsNotInNames(t *testing.T) {
	r := newRun("")
	if len(r.key) < 26 || strings.Contains(r.key, r.id) || newRun("").key == r.key {
		t.Errorf("got %+v", r)
	}
}

// A namespace that was just created has no ServiceAccount yet.
func TestNewNamespaceMaySettle(t *testing.T) {
	w := newWorld()
	refused := 0
	w.kube["east"].PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused++; refused > 2 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`error looking up service account ns/default: serviceaccount "default" not found`))
	})
	if report, err := w.trial.do(t.Context()); err != nil || !report.Passed {
		t.Errorf("error %v, failures %+v", err, failuresOf(report.Checks))
	}
}

// R560: a client that does not complete is a result. The others are not affected.
func TestClientFails(t *testing.T) {
	w := newWorld()
	w.trial.sites[1].logs = func(context.Context, string, string, string) ([]byte, error) { return []byte("{}"), nil }
	report, err := w.trial.do(t.Context())
	if err != nil || report.Passed {
		t.Fatalf("error %v", err)
	}
	for _, failed := range failuresOf(report.Checks) {
		if failed.from != "west" || failed.tried || !strings.Contains(failed.reason, "it is not complete") {
			t.Errorf("got %+v", failed)
		}
	}
}

// R569: what does not work is told from what could not be tried, and from what could not be deleted.
func TestVerdict(t *testing.T) {
	left := errors.New("left")
	ok, failed, notTried := Check{Result: OK}, Check{Result: Failed}, Check{Result: NotTried}
	for _, test := range []struct {
		checks []Check
		left   error
		code   int
	}{
		{[]Check{ok}, nil, 0}, {[]Check{ok}, left, 2}, {[]Check{ok, failed}, nil, 1}, {[]Check{failed, notTried}, nil, 1}, {[]Check{failed}, left, 2}, {[]Check{ok, notTried}, nil, 2},
	} {
		err := verdict(Report{Checks: test.checks, Passed: passed(test.checks)}, test.left)
		code := exitcode.Of(err)
		if code == exitcode.Failure && !errors.Is(err, errFailed) { // as the command does
			code = couldNotTest
		}
		if code != test.code {
			t.Errorf("%+v, %v: exit code %d", test.checks, test.left, code)
		}
	}
}

// R560: containers that are injected keep running, and do not matter.
func TestInjectedContainers(t *testing.T) {
	w := newWorld()
	w.status = func(role string) corev1.PodStatus {
		if role != client {
			return ready(role)
		}
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, {Name: client, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		}}
	}
	if report, err := w.trial.do(t.Context()); err != nil || !report.Passed {
		t.Errorf("error %v, failures %+v", err, failuresOf(report.Checks))
	}
}

// R563: Pods meet the Pod Security Standard restricted, have no credentials and end by themselves.
func TestPodsAreRestricted(t *testing.T) {
	r := newRun("")
	caller, err := r.newClient("mcs-controller:v1", podtrial.Plan{Key: "x"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{caller, r.newServer("east", "mcs-controller:v1", time.Minute)} {
		spec, container := &pod.Spec, &pod.Spec.Containers[0]
		for what, ok := range map[string]bool{
			"no token":        !ptr.Deref(spec.AutomountServiceAccountToken, true),
			"not root":        *spec.SecurityContext.RunAsNonRoot,
			"seccomp":         spec.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"no escalation":   !*container.SecurityContext.AllowPrivilegeEscalation,
			"no capabilities": slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(container.SecurityContext.Capabilities.Add) == 0,
			"read-only":       *container.SecurityContext.ReadOnlyRootFilesystem,
			"deadline":        *spec.ActiveDeadlineSeconds > 0,
			"limits":          len(container.Resources.Limits) == 2 && len(container.Resources.Requests) == 2,
			"no volumes":      len(spec.Volumes) == 0 && !spec.HostNetwork,
			"runs once":       spec.RestartPolicy == corev1.RestartPolicyNever,
			"labels":          pod.Labels[runLabel] == r.id && pod.Labels[nameLabel] == program && pod.Labels[roleLabel] != "",
			"command":         slices.Equal(container.Command, []string{"mcs-controller", "trial"}),
		} {
			if !ok {
				t.Errorf("%s does not hold: %+v", what, spec)
			}
		}
	}
	if enforced := r.newNamespace().Labels["pod-security.kubernetes.io/enforce"]; enforced != "restricted" {
		t.Errorf("the namespace enforces %q", enforced)
	}
}
