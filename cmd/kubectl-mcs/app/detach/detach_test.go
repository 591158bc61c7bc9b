// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package detach_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
)

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

func apiService(name, namespace, service string) any {
	return map[string]any{"metadata": map[string]string{"name": name}, "spec": map[string]any{"service": map[string]string{"namespace": namespace, "name": service}}}
}

func registered(objects map[string]any) {
	objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService",
		apiService("v1beta1.metrics.k8s.io", "kube-system", "metrics-server"),
		apiService("v1beta1.multicluster.x-k8s.io", "mcs-system", "mcs-apiserver"),
		apiService("v1.multicluster.k8s.io", "mcs-system", "mcs-apiserver"),
		map[string]any{"metadata": map[string]string{"name": "v1.apps"}})
	objects["/api/v1/namespaces/mcs-system/configmaps"] = commandtest.List("v1", "ConfigMap")
}

func detached(objects map[string]any) {
	objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
	objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap",
		map[string]any{"metadata": map[string]string{"name": "mcs-apiserver-detached", "namespace": "elsewhere"}})
}

// R180
func TestDetachSaysWhatItMeansAndAsks(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		err    string
		writes []string
	}{
		{"not confirmed", nil, "nothing was changed", nil},
		{"dry run", []string{"--dry-run"}, "", nil},
		{"confirmed", []string{"--yes"}, "", []string{"POST configmaps", "DELETE apiservices", "DELETE apiservices"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west", registered)
			out, _, err := commandtest.Run(t.Context(), append([]string{"detach", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL})}, test.args...)...)
			if test.err == "" && err != nil {
				t.Fatal(err)
			}
			if test.err != "" {
				expect.Error(t, err, test.err)
			}
			for _, want := range []string{
				"Plan:\n  west: create ConfigMap mcs-system/mcs-apiserver-detached",
				"\n  west: delete APIServices v1.multicluster.k8s.io, v1beta1.multicluster.x-k8s.io\n",
				"ServiceExports", "Derived Services", "TTL", "CoreDNS", "Namespaces",
				"allowed-cidrs", "for an hour", "KeepLast", "with Keep all", // R331
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			if diff := cmp.Diff(test.writes, west.Written()); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetachCanBeRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		change func(map[string]any)
		writes []string
		out    string
	}{
		"detached": {detached, nil, "API of mcs-apiserver is already detached from the cluster of context \"west\".\n"},
		"interrupted": {func(objects map[string]any) {
			detached(objects)
			registered(objects)
			objects["/api/v1/namespaces/mcs-system/configmaps"] = objects["/api/v1/configmaps"]
		}, []string{"DELETE apiservices", "DELETE apiservices"}, "kubectl mcs attach west"},
		"never registered": {func(objects map[string]any) {
			objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
			objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap")
		}, []string{"POST configmaps"}, "create ConfigMap mcs-system/mcs-apiserver-detached"},
		"never registered, installed in another namespace": {func(objects map[string]any) {
			objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
			objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap")
			objects["/apis/apps/v1/deployments"] = commandtest.List("apps/v1", "Deployment", map[string]any{"metadata": map[string]string{"name": "mcs-apiserver", "namespace": "fleet"}})
		}, []string{"POST configmaps"}, "create ConfigMap fleet/mcs-apiserver-detached"},
	} {
		t.Run(name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west", test.change)
			out, _, err := commandtest.Run(t.Context(), "detach", "west", "--yes", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, test.out) {
				t.Errorf("%q is missing in:\n%s", test.out, out)
			}
			if diff := cmp.Diff(test.writes, west.Written()); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
		})
	}
}

// A namespace that is being deleted waits for its APIs, and takes no ConfigMap: nothing is
// left in it that registers the API again.
func TestDetachWithoutTheNamespace(t *testing.T) {
	gone := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	for name, namespace := range map[string]any{
		"terminating": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "mcs-system", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
		"deleted":     gone,
	} {
		t.Run(name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west", registered, func(objects map[string]any) { objects["/api/v1/namespaces/mcs-system"] = namespace })
			out, _, err := commandtest.Run(t.Context(), "detach", "west", "--yes", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"Plan:\n  west: delete APIServices v1.", "Namespace mcs-system is being deleted or does not exist", "To register it again, install mcs-apiserver again."} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			if diff := cmp.Diff([]string{"DELETE apiservices", "DELETE apiservices"}, west.Written()); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
		})
	}
}

// What mcs-controller published is left behind as well.
func TestDetachOfPublishedDefinitionsWithoutTheNamespace(t *testing.T) {
	west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
		objects[apiServices] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
		objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap")
		objects["/api/v1/namespaces/mcs-system"] = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "mcs-system", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
		objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = commandtest.List("apiextensions.k8s.io/v1", "CustomResourceDefinition", map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": apiconflict.PublishedCRDs[0], "labels": apiconflict.RegisteredLabels},
		})
	})
	out, _, err := commandtest.Run(t.Context(), "detach", "west", "--dry-run", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
	if err != nil || !strings.HasPrefix(out, "Plan:\n  west: delete CustomResourceDefinitions "+apiconflict.PublishedCRDs[0]) {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestFailuresOfDetachSayWhatToDo(t *testing.T) {
	for write, want := range map[string]string{
		"POST configmaps":    "detach and attach require permission",
		"DELETE apiservices": "run detach again",
	} {
		west := commandtest.NewAPIServer(t, "west", registered)
		west.Refuse = commandtest.Failing(write)
		_, _, err := commandtest.Run(t.Context(), "detach", "west", "--yes", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
		expect.Error(t, err, `context "west": permission denied`, want)
		if completed := write != "POST configmaps"; strings.Contains(err.Error(), "completed steps") != completed {
			t.Errorf("%s: %v", write, err)
		}
	}
}
