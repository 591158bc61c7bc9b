// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R94, R118, R138, R140, R450: the aggregated server serves every resource under its
// group-versions, with exactly the verbs that it implements. R466: and with its category.
func TestDiscoveryListsTheServedVerbs(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(adminConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	type resource struct {
		Verbs      string
		Short      string
		Namespaced bool
		Category   string
	}
	const category = "multicluster"
	written := "create delete deletecollection get list patch update watch"
	status := resource{Verbs: "get patch update", Namespaced: true}
	named := map[string]resource{
		"serviceexports":        {Verbs: written, Short: "svcex svcexport", Namespaced: true, Category: category},
		"serviceexports/status": status,
		"serviceimports":        {Verbs: "get list watch", Short: "svcim svcimport", Namespaced: true, Category: category},
	}
	withInventory := maps.Clone(named)
	maps.Copy(withInventory, map[string]resource{
		"clusterprofiles":        {Verbs: written, Namespaced: true, Category: category},
		"clusterprofiles/status": status,
		"placementdecisions":     {Verbs: written, Namespaced: true, Category: category},
	})
	for groupVersion, want := range map[string]map[string]resource{
		"multicluster.x-k8s.io/v1beta1":  named,
		"multicluster.x-k8s.io/v1alpha1": withInventory,
		"multicluster.k8s.io/v1alpha1": {
			"serviceexports":        {Verbs: written, Namespaced: true},
			"serviceexports/status": status,
			"serviceimports":        {Verbs: "get list watch", Namespaced: true},
		},
		"multicluster.k8s.io/v1": {"clusterclaims": {Verbs: written, Category: category}},
		"clusterset.mcs-apiserver.io/v1alpha1": {
			"exportedservices":       {Verbs: "get list watch", Namespaced: true, Category: category},
			"exportedendpointslices": {Verbs: "get list watch", Namespaced: true, Category: category},
			"members":                {Verbs: "get list watch", Category: category},
		},
		"about.k8s.io/v1beta1": {"clusterproperties": {Verbs: "get list watch", Category: category}},
	} {
		t.Run(groupVersion, func(t *testing.T) {
			list, err := client.ServerResourcesForGroupVersion(groupVersion)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]resource{}
			for _, r := range list.APIResources {
				slices.Sort(r.Verbs)
				got[r.Name] = resource{Verbs: strings.Join(r.Verbs, " "), Short: strings.Join(r.ShortNames, " "), Namespaced: r.Namespaced, Category: strings.Join(r.Categories, " ")}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resources (-want +got): %s", diff)
			}
		})
	}
}

// Two groups have resources of these names; the short form selects the upstream group.
func TestPlainNamesMeanTheUpstreamGroup(t *testing.T) {
	ns := namespace(t)
	kubectl(t, "apply", "-f", expect.Manifest(t, "%s", export("multicluster.x-k8s.io/v1beta1", ns, "web", "{}")))
	for _, name := range []string{"serviceexports", "serviceexport", "svcex", "svcexport"} {
		output := kubectl(t, "get", name, "-n", ns, "-o", "name")
		if output != "serviceexport.multicluster.x-k8s.io/web\n" {
			t.Errorf("kubectl get %s answered %q", name, output)
		}
	}
	for _, name := range []string{"serviceimports", "svcim", "svcimport", "serviceimports.multicluster.k8s.io"} {
		if output := kubectl(t, "get", name, "-n", ns); output != "No resources found in "+ns+" namespace.\n" {
			t.Errorf("kubectl get %s answered %q", name, output)
		}
	}
}

func TestExplainDocumentsEveryField(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"serviceexports"}, []string{"KIND:       ServiceExport", "GROUP:      multicluster.x-k8s.io", "VERSION:    v1beta1", "FIELDS:", "spec\t<ServiceExportSpec>"}},
		{[]string{"serviceexports.spec.exportedLabels"}, []string{"exportedLabels <map[string]string>", "labels of the ServiceImport"}},
		{[]string{"serviceexports", "--api-version=multicluster.k8s.io/v1alpha1"}, []string{"GROUP:      multicluster.k8s.io"}},
		{[]string{"serviceimports.spec.ports", "--api-version=multicluster.x-k8s.io/v1alpha1"}, []string{"appProtocol", "port\t<integer> -required-"}},
		{[]string{"serviceimports.spec.sessionAffinityConfig.clientIP.timeoutSeconds"}, []string{"timeoutSeconds <integer>"}},
		{[]string{"members.status.state"}, []string{"Connected", "Stale", "Lost", "Refused"}},
		{[]string{"exportedservices.spec.effectiveAt"}, []string{"effect first takes precedence"}},
		{[]string{"clusterproperties"}, []string{"GROUP:      about.k8s.io", "id.k8s.io"}},
		{[]string{"clusterprofiles.status"}, []string{"VERSION:    v1alpha1", "accessProviders\t<[]AccessProvider>", "credentialProviders is the former name"}},
		{[]string{"clusterprofiles.status.accessProviders.cluster"}, []string{"certificate-authority-data\t<string>", "server\t<string> -required-"}},
		{[]string{"placementdecisions.decisions.clusterProfileRef"}, []string{"name\t<string> -required-"}},
		{[]string{"clusterclaims.spec"}, []string{"value\t<string> -required-", "128000 bytes"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			expect.Contains(t, kubectl(t, append([]string{"explain"}, test.args...)...), test.want...)
		})
	}
}

func TestOpenAPIDescribesOurTypesInBothVersions(t *testing.T) {
	config := adminConfig(t)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for path, models := range map[string][]string{
		"/openapi/v2": {
			"io.x-k8s.multicluster.v1beta1.ServiceExport", "io.x-k8s.multicluster.v1alpha1.ServiceImport",
			"io.k8s.multicluster.v1alpha1.ServiceExport", "io.k8s.multicluster.v1.ClusterClaim",
		},
		"/openapi/v3/apis/multicluster.x-k8s.io/v1beta1": {"io.x-k8s.multicluster.v1beta1.ServiceExport", "io.x-k8s.multicluster.v1beta1.ServiceImport"},
		"/openapi/v3/apis/multicluster.x-k8s.io/v1alpha1": {
			"io.x-k8s.multicluster.v1alpha1.ServiceExport", "io.x-k8s.multicluster.v1alpha1.ClusterProfile", "io.x-k8s.multicluster.v1alpha1.PlacementDecision",
		},
		"/openapi/v3/apis/multicluster.k8s.io/v1alpha1": {"io.k8s.multicluster.v1alpha1.ServiceImport"},
		"/openapi/v3/apis/multicluster.k8s.io/v1":       {"io.k8s.multicluster.v1.ClusterClaim"},
		"/openapi/v3/apis/clusterset.mcs-apiserver.io/v1alpha1": {
			"io.mcs-apiserver.clusterset.v1alpha1.ExportedService", "io.mcs-apiserver.clusterset.v1alpha1.Member",
		},
		"/openapi/v3/apis/about.k8s.io/v1beta1": {"io.k8s.about.v1beta1.ClusterProperty"},
	} {
		t.Run(path, func(t *testing.T) {
			data := get(t, transport, config.Host+path, "application/json")
			var document struct {
				Definitions map[string]schema
				Components  struct{ Schemas map[string]schema }
			}
			if err := json.Unmarshal(data, &document); err != nil {
				t.Fatal(err)
			}
			all := document.Definitions
			if all == nil {
				all = document.Components.Schemas
			}
			for _, model := range models {
				if len(all[model].Kinds) == 0 {
					t.Errorf("model %s has no group-version-kind: %+v", model, all[model])
				}
			}
			for name := range all {
				if strings.Contains(name, "__internal") || strings.Contains(name, "github") {
					t.Errorf("unexpected model %s", name)
				}
			}
		})
	}
}

type schema struct {
	Kinds []map[string]string `json:"x-kubernetes-group-version-kind"`
}

// get reads a URL through the kube-apiserver.
func get(t *testing.T, transport *http.Client, url, accept string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := transport.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, response.Status, data)
	}
	return data
}

// The types have no protobuf encoding. Clients that prefer protobuf, such as
// CoreDNS, receive JSON.
func TestProtobufIsNeverNegotiated(t *testing.T) {
	config := adminConfig(t)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/apis/multicluster.x-k8s.io/v1alpha1/serviceimports",
		"/apis/multicluster.x-k8s.io/v1beta1/serviceexports",
		"/apis/multicluster.x-k8s.io/v1alpha1/clusterprofiles",
		"/apis/multicluster.k8s.io/v1alpha1/serviceexports",
		"/apis/multicluster.k8s.io/v1/clusterclaims",
		"/apis/clusterset.mcs-apiserver.io/v1alpha1/exportedservices",
		"/apis/about.k8s.io/v1beta1/clusterproperties",
	} {
		for _, accept := range []string{"application/vnd.kubernetes.protobuf, */*", "application/vnd.kubernetes.protobuf,application/json"} {
			var list struct{ Kind string }
			if err := json.Unmarshal(get(t, transport, config.Host+path, accept), &list); err != nil || !strings.HasSuffix(list.Kind, "List") {
				t.Errorf("Accept %q of %s: not a list in JSON: %v", accept, path, err)
			}
		}
	}
}
