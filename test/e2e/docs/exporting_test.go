// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// ledger is a Service with an endpoint that nobody calls.
const ledger = `
apiVersion: v1
kind: Service
metadata: {name: ledger}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ledger-1, labels: {kubernetes.io/service-name: ledger}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.100.0.200], conditions: {ready: true}}]
`

// exporting is what is done with services and members. It leaves Service web in namespace shop
// exported from east and west, and Service db from north.
var exporting = []step{
	{"exporting a Service", func(t *testing.T, u *user) {
		for _, cluster := range []*localcluster.Cluster{east, west, north} {
			for _, namespace := range []string{"shop", "payments"} {
				cluster.MustKubectl(t, "create", "namespace", namespace)
			}
		}
		deploy(t, east)
		expect.NoError(t, os.WriteFile(filepath.Join(u.dir, "web.yaml"), []byte(example(t, clusterSets, "Exporting a Service")), 0o600))
		east.MustKubectl(t, "apply", "-f", filepath.Join(u.dir, "web.yaml"))
		output := u.follow(t, west, clusterSets, "Exporting a Service")
		expect.Contains(t, output, "Directory listing for /", "east")
	}},
	{"conflicts", func(t *testing.T, u *user) {
		north.MustKubectl(t, "create", "service", "clusterip", "web", "-n", "shop", "--tcp=8080:8080")
		north.MustKubectl(t, "wait", "--for=create", "serviceimport/web", "-n", "shop", "--timeout=1m")
		output := u.follow(t, north, clusterSets, "Conflicts")
		expect.Contains(t, output, "Warning: PortConflict with the exports of east: Conflicting ports. Using ", "1/2 clusters disagree.\nserviceexport.multicluster.x-k8s.io/web created (server dry run)\n")
		north.MustKubectl(t, "delete", "service", "web", "-n", "shop")
		north.MustKubectl(t, "create", "service", "clusterip", "db", "-n", "shop", "--tcp=5432:5432")
		kubectl(t, "mcs", "export", "db", "-n", "shop", "--context", "north")
		deploy(t, west)
		kubectl(t, "mcs", "export", "web", "-n", "shop", "--context", "west")
	}},
	{"chosen clusters", func(t *testing.T, u *user) {
		east.MustKubectl(t, "apply", "-n", "payments", "-f", expect.Manifest(t, "%s", ledger))
		output := u.follow(t, east, clusterSets, "Exporting to chosen clusters")
		expect.Contains(t, output, "/ledger exported to north,west only\n", "/ledger exported to all clusters\n", "nroth is not known as a member", "\nledger.east ", "imports from west,north only")
		east.MustKubectl(t, "apply", "-f", expect.Manifest(t, "%s", example(t, clusterSets, "Exporting to chosen clusters")))
		expect.Contains(t, u.follow(t, east, clusterSets, "Versions"), "payments/ledger\n")
		east.MustKubectl(t, "annotate", "namespace", "payments", "clusterset.mcs-apiserver.io/import-from-")
		east.MustKubectl(t, "delete", "serviceexport/ledger", "service/ledger", "endpointslice/ledger-1", "-n", "payments")
	}},
	{"preferred clusters", func(t *testing.T, u *user) {
		manifests := examples(t, clusterSets, "Preferring clusters")
		for _, cluster := range []*localcluster.Cluster{east, west} {
			for _, manifest := range manifests {
				cluster.MustKubectl(t, "apply", "-f", expect.Manifest(t, "%s", manifest))
			}
		}
		west.MustKubectl(t, "wait", "serviceimport/web", "-n", "shop", "--timeout=1m",
			`--for=jsonpath={.metadata.annotations.clusterset\.mcs-apiserver\.io/active-tier}=property:region.example.com`)
		output := u.follow(t, west, clusterSets, "Which tier is active")
		expect.Contains(t, output, "    clusterset.mcs-apiserver.io/active-tier: property:region.example.com\n",
			`    clusterset.mcs-apiserver.io/active-tier-reason: tier "cluster" does not have enough`)
		explained := kubectl(t, "mcs", "explain", "web", "-n", "shop", "--context", "west")
		expect.Contains(t, explained, `  Active tier: property:region.example.com: tier "cluster" does not have enough endpoints (at least 2 ready for 5s)`)
		expect.Contains(t, u.follow(t, west, runbooks, "MCSPreferenceIneffective"), "shop/web: ServiceImport is ready to use\n", " ZONE\n")
		for _, cluster := range []*localcluster.Cluster{east, west} {
			cluster.MustKubectl(t, "annotate", "serviceexport", "web", "-n", "shop", "clusterset.mcs-apiserver.io/cluster-preference-", "clusterset.mcs-apiserver.io/preference-min-ready-")
			cluster.MustKubectl(t, "delete", "clusterclaim", "region.example.com")
		}
		expect.Eventually(t, "an import that prefers no clusters", func(ctx context.Context) error {
			annotations, err := west.Kubectl(ctx, "get", "serviceimport", "web", "-n", "shop", "-o", "jsonpath={.metadata.annotations}")
			if err == nil && strings.Contains(annotations, "active-tier") {
				err = errors.New(annotations)
			}
			return err
		})
	}},
	{"separate EndpointSlices", func(t *testing.T, u *user) {
		const page = "docs/gateways.md"
		expect.Contains(t, u.follow(t, west, page, "Other gateways"), "derived-")
		u.follow(t, west, page, "Separate EndpointSlices")
		slices := func(what string, good func(names string) bool) {
			t.Helper()
			expect.Eventually(t, what, func(ctx context.Context) error {
				output, err := west.Kubectl(ctx, "get", "endpointslices", "-n", "shop", "-o", "name")
				if err == nil && !good(output) {
					err = errors.New(output)
				}
				return err
			})
		}
		separate := func(names string) bool {
			return strings.Contains(names, "-service\n") && strings.Contains(names, "-import\n")
		}
		slices("separate EndpointSlices", separate)
		west.MustKubectl(t, "wait", "namespace/demo", "--for=delete", "--timeout=1m") // of the quick start
		west.MustKubectl(t, "apply", "-f", expect.Manifest(t, "%s", gatewayKinds))
		west.MustKubectl(t, "wait", "--for=condition=Established", "crds", "--all", "--timeout=1m")
		expect.Contains(t, u.follow(t, west, page, "Envoy Gateway"), "httproute.gateway.networking.k8s.io/web created")
		u.follow(t, west, page, "Before a rollback")
		slices("common EndpointSlices", func(names string) bool { return !separate(names) })
	}},
	{"inventory", func(t *testing.T, u *user) {
		const page = "docs/inventory.md"
		expect.Contains(t, u.follow(t, east, page, "Members of the ClusterSet"), "\neast    east           mcs-controller.mcs-apiserver.io   v1.", "\nwest    west           mcs-controller.mcs-apiserver.io   v1.")
		east.MustKubectl(t, "create", "namespace", "fleet")
		east.MustKubectl(t, "apply", "-f", expect.Manifest(t, "%s", example(t, page, "ClusterProfiles")))
		expect.Contains(t, u.follow(t, east, page, "ClusterProfiles"), "\neast   East           example ")
	}},
	{"members and peers", func(t *testing.T, u *user) {
		members := u.follow(t, east, clusterSets, "Checking the members")
		expect.Contains(t, members, "ID      CLUSTERSET   STATE       LAST-SEEN   EXPORTS   ENDPOINTS   AGE\n", "\neast    production   Local ", "\nwest    production   Connected ")
		expect.Contains(t, u.follow(t, east, clusterSets, "What a peer sees"), "shop ")
		if token := u.follow(t, west, clusterSets, "Joining by files"); strings.Count(token, ".") != 2 {
			t.Errorf("%q is no token", token)
		}
		u.follow(t, east, clusterSets, "Hubs")
		east.MustKubectl(t, "delete", "clusterrolebinding", "mcs-apiserver:relay:west")
	}},
	{"limits of a member", func(t *testing.T, u *user) {
		u.follow(t, east, clusterSets, "Limits of a member")
		limits := east.MustKubectl(t, "get", "secret", "-n", "mcs-system", "member-west", "-o", `go-template={{index .data "allowed-namespaces" | base64decode}} {{index .data "memory-limit" | base64decode}}`)
		expect.Contains(t, limits, "shop 128Mi")
		kubectl(t, "mcs", "status", "east", "--wait")
		east.MustKubectl(t, "patch", "secret", "-n", "mcs-system", "member-west", "--type=merge", "-p", `{"data": {"allowed-namespaces": null, "memory-limit": null}}`)
		east.MustKubectl(t, "annotate", "namespace", "payments", "clusterset.mcs-apiserver.io/import-")
		join(t, east, west, north)

		east.MustKubectl(t, "annotate", "secret", "-n", "mcs-system", "member-north", "clusterset.mcs-apiserver.io/ttl=90s")
		u.follow(t, east, clusterSets, "Leaving a ClusterSet")
		saved := u.written(t, "north-in-east.json")
		expect.Contains(t, saved, `"clusterset.mcs-apiserver.io/ttl": "90s"`, `"allowed-cidrs": "`+north.PodCIDRs()[0])
		expect.Lacks(t, saved, "kubeconfig", "joined-at")
		east.MustKubectl(t, "annotate", "secret", "-n", "mcs-system", "member-north", "clusterset.mcs-apiserver.io/ttl-")
	}},
}

// deploy runs a web server in namespace shop of a cluster.
func deploy(t *testing.T, in *localcluster.Cluster) {
	t.Helper()
	in.MustKubectl(t, "create", "deployment", "web", "-n", "shop", "--image=python:3", "--", "python3", "-m", "http.server", "--bind", "::", "--directory", "/etc/ssl", "8080")
	in.MustKubectl(t, "apply", "-f", expect.Manifest(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
`))
	in.MustKubectl(t, "rollout", "status", "deployment/web", "-n", "shop", "--timeout=100s")
}

// example returns the first manifest under a heading.
func example(t *testing.T, page, heading string) string {
	t.Helper()
	return examples(t, page, heading)[0]
}

// examples returns all manifests under a heading.
func examples(t *testing.T, page, heading string) (manifests []string) {
	t.Helper()
	for _, block := range expect.Must(documents.Read(os.DirFS(set.Root)))(t) {
		if block.Page == page && block.Heading == heading && block.Language == "yaml" {
			manifests = append(manifests, block.Text)
		}
	}
	if len(manifests) == 0 {
		t.Fatalf("%s has no manifest under %q", page, heading)
	}
	return manifests
}

// gatewayKinds are those of the Gateway API that the example has, of which nothing is validated.
const gatewayKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gatewayclasses.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: gateway.networking.k8s.io
  scope: Cluster
  names: {kind: GatewayClass, plural: gatewayclasses}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gateways.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: Gateway, plural: gateways}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: HTTPRoute, plural: httproutes}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
