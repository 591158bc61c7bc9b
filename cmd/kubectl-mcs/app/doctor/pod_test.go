// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

const complete = `{"lookup":{"name":"web.shop.svc.clusterset.local","addresses":["10.0.0.7"],"outcome":"Succeeded"}}
{"connection":{"address":"10.0.0.7:80","outcome":"Succeeded","milliseconds":1}}
{"done":true}
`

// newProbe returns a probe in a cluster that gives Pods a name and this status.
func newProbe(status corev1.PodStatus, log string) (*podProbe, *kubernetesfake.Clientset) {
	client := kubernetesfake.NewClientset()
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		pod.UID, pod.Status, pod.Spec.NodeName = "uid", status, "node-1"
		return false, nil, nil
	})
	p := newPodProbe(&cluster.Cluster{Context: "east", Kubernetes: client}, "shop", "registry.example/mcs-controller:v1", 50*time.Millisecond)
	p.poll, p.name = time.Millisecond, "mcs-doctor-x"
	p.logs = func(_ context.Context, pod string) ([]byte, error) {
		if pod != "mcs-doctor-x" {
			return nil, errors.New("another Pod")
		}
		return []byte(log), nil
	}
	return p, client
}

// verbs returns what was done to Pods, without reads.
func verbs(client *kubernetesfake.Clientset) []string {
	var done []string
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" {
			done = append(done, verb)
		}
	}
	return done
}

// R546: the Pod tries what it is asked for, and is deleted.
func TestProbeInAPod(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{Phase: corev1.PodSucceeded}, complete)
	results, err := p.run(t.Context(), podprobe.Request{Name: "web.shop.svc.clusterset.local"})
	if err != nil || !results.Done || len(results.Connections) != 1 || p.node != "node-1" {
		t.Errorf("got %+v on %q, error %v", results, p.node, err)
	}
	if done := verbs(client); !slices.Equal(done, []string{"create", "delete"}) {
		t.Errorf("did %v", done)
	}
}

// R546: the Pod meets the Pod Security Standard restricted, has no credentials and ends by itself.
func TestPodIsRestricted(t *testing.T) {
	p, _ := newProbe(corev1.PodStatus{}, "")
	pod := p.newPod(podprobe.Request{Name: "web.shop.svc.clusterset.local", Timeout: time.Second})
	spec, container := &pod.Spec, &pod.Spec.Containers[0]
	for what, ok := range map[string]bool{
		"no token":           !ptr.Deref(spec.AutomountServiceAccountToken, true),
		"not root":           *spec.SecurityContext.RunAsNonRoot,
		"seccomp":            spec.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no escalation":      !*container.SecurityContext.AllowPrivilegeEscalation,
		"no capabilities":    slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(container.SecurityContext.Capabilities.Add) == 0,
		"read-only":          *container.SecurityContext.ReadOnlyRootFilesystem,
		"deadline":           *spec.ActiveDeadlineSeconds > 0,
		"limits":             len(container.Resources.Limits) == 2 && len(container.Resources.Requests) == 2,
		"no volumes":         len(spec.Volumes) == 0 && !spec.HostNetwork,
		"never ready":        len(spec.ReadinessGates) == 1,
		"runs once":          spec.RestartPolicy == corev1.RestartPolicyNever,
		"image of the probe": container.Image == p.image,
		"command":            slices.Equal(container.Command, []string{"mcs-controller", "probe"}) && slices.Contains(container.Args, "--name=web.shop.svc.clusterset.local"),
	} {
		if !ok {
			t.Errorf("%s does not hold: %+v", what, spec)
		}
	}
}

// R546: the Pod gets labels of an application, but keeps its own.
func TestLabelsOfThePod(t *testing.T) {
	p, _ := newProbe(corev1.PodStatus{}, "")
	p.labels = map[string]string{"app": "web", "app.kubernetes.io/name": "shop"}
	if got := p.newPod(podprobe.Request{}).Labels; got["app"] != "web" || got["app.kubernetes.io/name"] != "shop" || got[probeLabel] != "probe" || got["sidecar.istio.io/inject"] != "false" {
		t.Errorf("got %v", got)
	}
	for key, want := range map[string]string{
		"app": "", "sidecar.istio.io/inject": "another meaning", probeLabel: "another meaning", "pod-template-hash": "ReplicaSet", "a b": "name part must consist of",
	} {
		if err := validateLabels(map[string]string{key: "x"}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v", key, err)
		}
	}
}

// R547: if the Pod does not complete, the message says why, and the Pod is deleted.
func TestPodThatDoesNotComplete(t *testing.T) {
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "details"}}}}}
	}
	for _, test := range []struct {
		name   string
		status corev1.PodStatus
		log    string
		want   string
	}{
		{"unschedulable", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}, "",
			"did not complete within 50ms: it cannot be scheduled: 0/3 nodes are available"},
		{"image cannot be pulled", waiting("ImagePullBackOff"), "", "registry.example/mcs-controller:v1 cannot be pulled: choose another one with --probe-image (ImagePullBackOff: details)"},
		{"image is being pulled", waiting("ErrImagePull"), "", "did not complete within 50ms: its image registry.example/mcs-controller:v1 cannot be pulled: details"},
		{"container cannot be created", waiting("CreateContainerConfigError"), "", "cannot be created (CreateContainerConfigError: details)"},
		{"not started", corev1.PodStatus{Phase: corev1.PodPending}, "", "it has not started"},
		{"running", corev1.PodStatus{Phase: corev1.PodRunning}, "", "it is still running"},
		{"old image", corev1.PodStatus{Phase: corev1.PodFailed}, `Error: unknown command "probe" for "mcs-controller"`, "has no command probe: upgrade"},
		{"killed", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "Pod was active too long"}, "", "DeadlineExceeded Pod was active too long"},
		{"no output", corev1.PodStatus{Phase: corev1.PodSucceeded}, "exec format error", "ended before everything was tried:  exec format error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, client := newProbe(test.status, test.log)
			_, err := p.run(t.Context(), podprobe.Request{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if done := verbs(client); !slices.Equal(done, []string{"create", "delete"}) {
				t.Errorf("did %v", done)
			}
		})
	}
}

// R546: the Pod is also deleted if the user interrupts the command.
func TestInterruptDeletesThePod(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{Phase: corev1.PodRunning}, "")
	p.timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return false, nil, nil
	})
	if _, err := p.run(ctx, podprobe.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if done := verbs(client); !slices.Equal(done, []string{"create", "delete"}) {
		t.Errorf("did %v", done)
	}
}

// R547: what refuses the Pod is told: permissions, a quota, or a policy.
func TestPodIsRefused(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{apierrors.NewForbidden(pods, "", errors.New(`User "dev" cannot create resource "pods" in API group "" in the namespace "shop"`)), `permission denied: ask for this permission to have it checked`},
		{apierrors.NewForbidden(pods, "x", errors.New("exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10")), "quota exceeded"},
		{apierrors.NewForbidden(pods, "x", errors.New(`violates PodSecurity "restricted:latest"`)), "violates PodSecurity"},
		{apierrors.NewBadRequest(`admission webhook "images.example.com" denied the request`), "images.example.com"},
	} {
		p, client := newProbe(corev1.PodStatus{}, "")
		client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		if err := client.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mcs-doctor-x", Labels: podLabels(nil)}}); err != nil {
			t.Fatal(err)
		}
		_, err := p.run(t.Context(), podprobe.Request{})
		if probe := omitted(p.Cluster, err); !strings.Contains(probe.Omitted, test.want) {
			t.Errorf("got %q, want %q", probe.Omitted, test.want)
		}
		if done := verbs(client); !slices.Equal(done, []string{"create"}) {
			t.Errorf("did %v", done)
		}
	}
}

// R546: a Pod that was created although the response is lost is deleted, also if it appears later, but no Pod of
// others. If that is not certain, it is named.
func TestResponseIsLost(t *testing.T) {
	lost := errors.New("connection reset by peer")
	existing := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mcs-doctor-x", UID: "uid", Labels: labels}}
	}
	unreadable := func(client *kubernetesfake.Clientset) {
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, lost })
	}
	undeletable := func(client *kubernetesfake.Clientset) {
		client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, lost })
	}
	late := func(client *kubernetesfake.Clientset) {
		gets := 0
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if gets++; gets == 2 {
				return false, nil, client.Tracker().Add(existing(podLabels(nil)))
			}
			return false, nil, nil
		})
	}
	for _, test := range []struct {
		name    string
		change  func(*kubernetesfake.Clientset)
		created *corev1.Pod
		err     error
		// deletes is whether the Pod is deleted, and left is the name of the Pod if that fails.
		deletes bool
		left    string
	}{
		{"it was created", nil, existing(podLabels(map[string]string{"app": "web"})), lost, true, ""},
		{"it is created later", late, nil, lost, true, ""},
		{"the server did not answer in time", nil, existing(podLabels(nil)), apierrors.NewServerTimeout(schema.GroupResource{Resource: "pods"}, "create", 1), true, ""},
		{"a repeated request created it", nil, existing(podLabels(nil)), apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, "mcs-doctor-x"), true, ""},
		{"it was not created", nil, nil, lost, false, ""},
		{"it belongs to somebody else", nil, existing(nil), lost, false, ""},
		{"it cannot be read", unreadable, nil, lost, false, "mcs-doctor-x"},
		{"it cannot be deleted", undeletable, existing(podLabels(nil)), lost, true, "mcs-doctor-x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, client := newProbe(corev1.PodStatus{}, "")
			if test.change != nil {
				test.change(client)
			}
			client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			if test.created != nil {
				if err := client.Tracker().Add(test.created); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.run(t.Context(), podprobe.Request{}); !errors.Is(err, test.err) {
				t.Errorf("got error %v", err)
			}
			if done := verbs(client); slices.Contains(done, "delete") != test.deletes || p.leftBehind != test.left || (p.undeleted != nil) != (test.left != "") {
				t.Errorf("did %v, left behind %q because of %v", done, p.leftBehind, p.undeleted)
			}
		})
	}
}

// The name of every Pod is another one.
func TestNamesOfPodsDiffer(t *testing.T) {
	name := func() string {
		return newPodProbe(&cluster.Cluster{}, "shop", "", time.Second).newPod(podprobe.Request{}).Name
	}
	if a, b := name(), name(); a == b || !strings.HasPrefix(a, "mcs-doctor-") {
		t.Errorf("got %q and %q", a, b)
	}
}

// R546: the Pod runs where mcs-apiserver does, for which its image is made.
func TestPodRunsWhereTheServerMay(t *testing.T) {
	p, _ := newProbe(corev1.PodStatus{}, "")
	p.nodeSelector = map[string]string{corev1.LabelArchStable: "arm64"}
	p.tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	spec := p.newPod(podprobe.Request{}).Spec
	if spec.NodeSelector[corev1.LabelOSStable] != "linux" || spec.NodeSelector[corev1.LabelArchStable] != "arm64" || !slices.Equal(spec.Tolerations, p.tolerations) {
		t.Errorf("got node selector %v, tolerations %v", spec.NodeSelector, spec.Tolerations)
	}
}

// R546: a Pod that cannot be deleted is named. What it saw is used.
func TestPodIsLeftBehind(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{Phase: corev1.PodSucceeded}, complete)
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	results, err := p.run(t.Context(), podprobe.Request{})
	if err != nil || !results.Done || p.leftBehind != "mcs-doctor-x" || p.undeleted == nil {
		t.Errorf("got %+v, error %v, left behind %q because of %v", results, err, p.leftBehind, p.undeleted)
	}
}

// R547: a user who may create Pods, but not read them, is told at once.
func TestPodMayNotBeRead(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{Phase: corev1.PodSucceeded}, complete)
	p.timeout = time.Hour
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "mcs-doctor-x", errors.New(`User "dev" cannot get resource "pods"`))
	})
	_, err := p.run(t.Context(), podprobe.Request{})
	if got := omitted(p.Cluster, err).Omitted; !strings.Contains(got, "permission denied: ask for this permission") || !strings.Contains(got, "cannot get resource") {
		t.Errorf("got %q", got)
	}
	if done := verbs(client); !slices.Equal(done, []string{"create", "delete"}) {
		t.Errorf("did %v", done)
	}
}

// R547: why a Pod cannot be read is told.
func TestPodCannotBeRead(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{}, "")
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("etcd is down"))
	})
	if _, err := p.run(t.Context(), podprobe.Request{}); err == nil || !strings.Contains(err.Error(), "did not complete within 50ms: it cannot be read: ") || !strings.Contains(err.Error(), "etcd is down") {
		t.Errorf("got error %v", err)
	}
}

// R546: containers that are injected do not keep the Pod from having completed.
func TestPodWithInjectedContainerCompletes(t *testing.T) {
	status := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}}
	p, _ := newProbe(status, complete)
	if results, err := p.run(t.Context(), podprobe.Request{}); err != nil || !results.Done {
		t.Errorf("got %+v, error %v", results, err)
	}
}

func TestPodDeletedBySomebodyElse(t *testing.T) {
	p, client := newProbe(corev1.PodStatus{Phase: corev1.PodRunning}, "")
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "mcs-doctor-x")
		err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status"}
		return true, nil, err
	})
	if _, err := p.run(t.Context(), podprobe.Request{}); err == nil || !strings.Contains(err.Error(), "deleted by somebody else") {
		t.Errorf("got error %v", err)
	}
}
