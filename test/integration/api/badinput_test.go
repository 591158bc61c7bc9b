// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Invalid input is answered with a Status that names the problem and the field, and does not affect the server.
func TestBadInputIsRefusedWithAReason(t *testing.T) {
	ns := namespace(t)
	config := adminConfig(t)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	exports := "/apis/multicluster.x-k8s.io/v1beta1/namespaces/" + ns + "/serviceexports"
	claims := "/apis/multicluster.k8s.io/v1/clusterclaims"
	profiles := "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/" + ns + "/clusterprofiles"
	decisions := "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/" + ns + "/placementdecisions"
	object := func(apiVersion, kind, name, rest string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, apiVersion, kind, name, rest)
	}
	export := func(name, rest string) string {
		return object("multicluster.x-k8s.io/v1beta1", "ServiceExport", name, rest)
	}
	preferring := func(tiers, minReady string) string {
		return fmt.Sprintf(`{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport","metadata":{"name":"web","annotations":{`+
			`"clusterset.mcs-apiserver.io/cluster-preference":%q,"clusterset.mcs-apiserver.io/preference-min-ready":%q}}}`, tiers, minReady)
	}
	for _, test := range []struct {
		name, path, body string
		code             int
		// field is the path of the invalid field, if any.
		field, message string
	}{
		{name: "unknown field", path: exports + "?fieldValidation=Strict", body: export("web", `,"spec":{"exportedLabel":{}}`), code: 400, message: `unknown field "spec.exportedLabel"`},
		{name: "duplicate field", path: exports + "?fieldValidation=Strict", body: export("web", `,"spec":{},"spec":{}`), code: 400, message: `duplicate field "spec"`},
		{name: "bad label value", path: exports, body: export("web", `,"spec":{"exportedLabels":{"app":"no label value"}}`), code: 422, field: "spec.exportedLabels"},
		{name: "bad label key", path: exports, body: export("web", `,"spec":{"exportedLabels":{"no key":"x"}}`), code: 422, field: "spec.exportedLabels"},
		{name: "bad annotation key", path: exports, body: export("web", `,"spec":{"exportedAnnotations":{"no key":"x"}}`), code: 422, field: "spec.exportedAnnotations"},
		// R14
		{name: "reserved label", path: exports, body: export("web", `,"spec":{"exportedLabels":{"multicluster.kubernetes.io/source-cluster":"x"}}`), code: 422,
			field: "spec.exportedLabels[multicluster.kubernetes.io/source-cluster]", message: "are reserved for the implementation"},
		// R601
		{name: "unknown tier of clusters", path: exports, body: preferring("nearest", "1"), code: 422,
			field: "metadata.annotations[clusterset.mcs-apiserver.io/cluster-preference]", message: `tier "nearest" is unknown; write cluster for the cluster of the client, property:NAME`},
		{name: "reserved property", path: exports, body: preferring("cluster,property:cluster.clusterset.k8s.io", "1"), code: 422,
			field: "metadata.annotations[clusterset.mcs-apiserver.io/cluster-preference]", message: "for the cluster of the client write cluster"},
		{name: "minimum of ready endpoints", path: exports, body: preferring("cluster", "0"), code: 422,
			field: "metadata.annotations[clusterset.mcs-apiserver.io/preference-min-ready]", message: "must be a positive integer"},
		{name: "name that a Service cannot have", path: exports, body: export("web.v2", ""), code: 422, field: "metadata.name", message: "must not contain dots"},
		{name: "no name", path: exports, body: export("", ""), code: 422, field: "metadata.name", message: "name or generateName is required"},
		{name: "namespace other than that of the path", path: exports, code: 400, message: "namespace of the provided object does not match",
			body: `{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport","metadata":{"name":"web","namespace":"other"}}`},
		// R95
		{name: "claim of 128,001 bytes", path: claims, code: 422, field: "spec.value", message: "128000 bytes",
			body: object("multicluster.k8s.io/v1", "ClusterClaim", "long.example.com", `,"spec":{"value":"`+strings.Repeat("x", 128_001)+`"}`)},
		{name: "claim name that is not a DNS subdomain", path: claims, body: object("multicluster.k8s.io/v1", "ClusterClaim", "Upper", ""), code: 422, field: "metadata.name"},
		// R451
		{name: "profile without a cluster manager", path: profiles, body: object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "east", `,"spec":{}`), code: 422,
			field: "spec.clusterManager.name", message: "must be the name of the cluster manager"},
		{name: "profile with the label of another cluster manager", path: profiles, code: 422, field: "metadata.labels[x-k8s.io/cluster-manager]", message: `must be "example"`,
			body: `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile","metadata":{"name":"east","labels":{"x-k8s.io/cluster-manager":"other"}},"spec":{"clusterManager":{"name":"example"}}}`},
		{name: "profile in a version that does not have it", path: strings.Replace(profiles, "v1alpha1", "v1beta1", 1), code: 404,
			body: object("multicluster.x-k8s.io/v1beta1", "ClusterProfile", "east", `,"spec":{"clusterManager":{"name":"example"}}`)},
		{name: "decision without decisions", path: decisions, body: object("multicluster.x-k8s.io/v1alpha1", "PlacementDecision", "web", ""), code: 422, field: "decisions"},
		{name: "decision without a profile", path: decisions, body: object("multicluster.x-k8s.io/v1alpha1", "PlacementDecision", "web", `,"decisions":[{"clusterProfileRef":{}}]`), code: 422,
			field: "decisions[0].clusterProfileRef.name"},
		{name: "decision for 101 clusters", path: decisions, code: 422, field: "decisions", message: "must have at most 100 items",
			body: object("multicluster.x-k8s.io/v1alpha1", "PlacementDecision", "web", `,"decisions":[`+strings.Repeat(`{"clusterProfileRef":{"name":"east"}},`, 100)+`{"clusterProfileRef":{"name":"east"}}]`)},
		{name: "malformed JSON", path: exports, body: `{"apiVersion":`, code: 400, message: "unexpected end of JSON input"},
		{name: "not JSON", path: exports, body: `<xml/>`, code: 400, message: "invalid character"},
		{name: "nothing", path: exports, body: ``, code: 400},
		{name: "a list instead of a map", path: exports, body: export("web", `,"spec":{"exportedLabels":["a"]}`), code: 400, message: "exportedLabels"},
		{name: "wrong kind", path: exports, body: object("multicluster.x-k8s.io/v1beta1", "ServiceImport", "web", ""), code: 400, message: "cannot be handled as a ServiceExport"},
		{name: "kind of another group", path: exports, body: object("v1", "Service", "web", ""), code: 400},
		{name: "unknown version", path: exports, body: object("multicluster.x-k8s.io/v9", "ServiceExport", "web", ""), code: 400},
		{name: "ServiceImport", path: strings.Replace(exports, "exports", "imports", 1), body: object("multicluster.x-k8s.io/v1beta1", "ServiceImport", "web", ""), code: 405},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := post(t, transport, config.Host+test.path, test.body)
			if int(status.Code) != test.code || status.Status != metav1.StatusFailure {
				t.Errorf("got %d (%s), want %d: %s", status.Code, status.Status, test.code, status.Message)
			}
			if !strings.Contains(status.Message, test.message) {
				t.Errorf("%q is missing in %q", test.message, status.Message)
			}
			if test.field == "" {
				return
			}
			if status.Details == nil || len(status.Details.Causes) == 0 || status.Details.Causes[0].Field != test.field {
				t.Errorf("causes are %+v, want one for %s", status.Details, test.field)
			}
		})
	}
	if list := kubectl(t, "get", "svcex", "-n", ns); !strings.Contains(list, "No resources found") {
		t.Errorf("an invalid object was stored:\n%s", list)
	}
	select {
	case <-suite.APIServers[0].Exited():
		t.Fatalf("server exited: %v", suite.APIServers[0].Err())
	default:
	}
}

func post(t *testing.T, transport *http.Client, url, body string) metav1.Status {
	t.Helper()
	response, err := transport.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil || status.Kind != "Status" {
		t.Fatalf("response is not a Status: %s", data)
	}
	return status
}
