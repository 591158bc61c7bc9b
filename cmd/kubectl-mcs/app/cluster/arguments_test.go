// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func TestCompletionOfNames(t *testing.T) {
	list := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: multiclusterxv1beta1.SchemeGroupVersion.String(), Kind: kind}
	}
	const path = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/"
	fleet := commandtest.Servers{
		{"east", commandtest.Serving(map[string]any{
			path + "shop/serviceexports":   multiclusterxv1beta1.ServiceExportList{TypeMeta: list("ServiceExportList"), Items: []multiclusterxv1beta1.ServiceExport{*clustertest.NewServiceExport("web")}},
			path + "office/serviceimports": multiclusterxv1beta1.ServiceImportList{TypeMeta: list("ServiceImportList"), Items: []multiclusterxv1beta1.ServiceImport{*clustertest.NewImport()}},
		})},
		{"west", commandtest.Serving(nil)},
	}
	for _, test := range []struct{ args, want string }{
		{"unexport|", "web\n:4\n"},
		{"unexport|web|", ":4\n"},
		{"explain|-n|office|", "web\n:4\n"},
		{"explain|--context|west|", ":1\n"}, // the API is not served
		{"status|", "east\nwest\n:4\n"},
		{"status|east|", "west\n:4\n"},
	} {
		out, _, _ := fleet.Run(t, append([]string{"__complete"}, strings.Split(test.args, "|")...)...)
		if out != test.want {
			t.Errorf("%s: got completions %q, want %q", test.args, out, test.want)
		}
	}
}

func TestCompletionOfNamespaces(t *testing.T) {
	fleet := commandtest.Servers{{"east", commandtest.Serving(map[string]any{"/api/v1/namespaces": commandtest.List("v1", "Namespace", map[string]any{"metadata": map[string]string{"name": "shop"}})})}}
	if out, _, _ := fleet.Run(t, "__complete", "explain", "web", "-n", ""); out != "shop\n:4\n" {
		t.Errorf("got completions %q", out)
	}
}

// Shells complete kubectl, so that a completion script of the plugin has no effect.
func TestHelpHasNoCompletionScript(t *testing.T) {
	out, _, err := commandtest.Run(t.Context(), "--help")
	if err != nil || strings.Contains(out, "autocompletion script") || !strings.Contains(out, "kubectl_complete-mcs") {
		t.Errorf("got help %s (%v)", out, err)
	}
}
