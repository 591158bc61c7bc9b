// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package detach_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
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

func TestFailuresOfDetachSayWhatToDo(t *testing.T) {
	for write, want := range map[string]string{
		"POST configmaps":    "detach and attach require permission",
		"DELETE apiservices": "run detach again",
	} {
		west := commandtest.NewAPIServer(t, "west", registered)
		west.Refuse = commandtest.Failing(write)
		_, _, err := commandtest.Run(t.Context(), "detach", "west", "--yes", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
		expect.Error(t, err, `context "west": permission denied`, want)
	}
}
