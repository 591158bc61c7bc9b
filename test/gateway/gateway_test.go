// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R487: with separate slices, Envoy Gateway sends requests for an import to the endpoints of all
// clusters, and follows changes of them.
func TestEnvoyGatewayRoutesToEndpointsOfAllClusters(t *testing.T) {
	ns := clusters.CreateNamespace(t, "demo")
	east().ExportService(t, ns, "web", []string{"10.9.0.1", "10.9.0.2"})
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	startEnvoyGateway(t) // which installs the kinds of the example
	kubectl(t, "annotate", "namespace", ns, "clusterset.mcs-apiserver.io/endpoint-slices=separate")
	kubectl(t, "apply", "--server-side", "-f", filepath.Join(west().Root, "artifacts", "examples", "gateway.yaml"))
	proxy := connect(t, ns, "web")
	proxy.await(t, "demo/web", "10.8.0.1:80", "10.9.0.1:80", "10.9.0.2:80")
	awaitRoute(t, ns, "ResolvedRefs", "True ResolvedRefs")

	changed := time.Now()
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.2", "10.9.0.3"}, func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(false)}
	}))(t)
	proxy.await(t, "demo/web", "10.8.0.1:80", "10.9.0.2:80", "10.9.0.3:80 DRAINING")
	t.Logf("a change of endpoints in the other cluster arrived at the proxy after %s", time.Since(changed).Round(time.Millisecond))

	expect.NoError(t, east().Unexport(t.Context(), ns, "web"))
	proxy.await(t, "demo/web", "10.8.0.1:80")
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	proxy.await(t, "demo/web", "10.8.0.1:80", "10.9.0.2:80", "10.9.0.3:80 DRAINING")

	// Without the annotation, its slices are those of a Service for Envoy Gateway.
	kubectl(t, "annotate", "namespace", ns, "clusterset.mcs-apiserver.io/endpoint-slices-")
	awaitRoute(t, ns, "BackendsAvailable", "False EndpointsNotFound")
	proxy.await(t, "demo/web")
	kubectl(t, "annotate", "namespace", ns, "clusterset.mcs-apiserver.io/endpoint-slices=separate")
	proxy.await(t, "demo/web", "10.8.0.1:80", "10.9.0.2:80", "10.9.0.3:80 DRAINING")
}

// R487: the same holds for headless imports, which have no IP to route to.
func TestEnvoyGatewayRoutesToHeadlessImport(t *testing.T) {
	ns := clusters.CreateNamespace(t, "headless")
	startEnvoyGateway(t)
	route(t, ns, 80)
	kubectl(t, "annotate", "namespace", ns, "clusterset.mcs-apiserver.io/endpoint-slices=separate")
	headless := func(service *corev1.Service) { service.Spec.ClusterIP = corev1.ClusterIPNone }
	east().ExportService(t, ns, "web", []string{"10.9.0.1"}, headless)
	west().ExportService(t, ns, "web", []string{"10.8.0.1"}, headless)
	connect(t, ns, "web").await(t, ns+"/web", "10.8.0.1:80", "10.9.0.1:80")
}

// R488, R489: with routing type Service, requests are sent to the IP of the import, without separate
// slices. Envoy Gateway ignores updates that do not change the generation: it notices nevertheless
// that a port was added, although no EndpointSlice changes.
func TestEnvoyGatewayRoutesToTheIPOfAnImport(t *testing.T) {
	ns := clusters.CreateNamespace(t, "by-ip")
	startEnvoyGateway(t)
	route(t, ns, 81)
	kubectl(t, "apply", "-f", expect.Manifest(t, `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: web, namespace: %s}
spec:
  routingType: Service
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}]
`, ns))
	expect.Must(east().Service(t.Context(), ns, "web"))(t)
	expect.Must(east().Export(t.Context(), ns, "web"))(t)
	awaitRoute(t, ns, "ResolvedRefs", "False PortNotFound")
	proxy := connect(t, ns, "web")
	services := east().Kubernetes.CoreV1().Services(ns)
	service := expect.Must(services.Get(t.Context(), "web", metav1.GetOptions{}))(t)
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81})
	expect.Must(services.Update(t.Context(), service, metav1.UpdateOptions{}))(t)
	imported := west().AwaitImport(t, ns, "web", "east")
	proxy.await(t, ns+"/web", imported.Spec.IPs[0]+":81")
}

// route lets a Gateway send all requests to the import web at a port.
func route(t *testing.T, ns string, port int) {
	t.Helper()
	kubectl(t, "apply", "-f", expect.Manifest(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: envoy}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: %[1]s}
spec:
  gatewayClassName: envoy
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: %[1]s}
spec:
  parentRefs: [{name: web}]
  rules:
  - backendRefs: [{group: multicluster.x-k8s.io, kind: ServiceImport, name: web, port: %[2]d}]
`, ns, port))
}

// awaitRoute waits until a condition of the HTTPRoute web has a status and reason.
func awaitRoute(t *testing.T, ns, condition, want string) {
	t.Helper()
	expect.Eventually(t, "HTTPRoute web in namespace "+ns, func(ctx context.Context) error {
		output, err := clusters.KubectlCommand(ctx, west().Plane.AdminKubeconfig(), "get", "httproute", "web", "-n", ns, "-o",
			fmt.Sprintf(`jsonpath={range .status.parents[*].conditions[?(@.type==%q)]}{.status} {.reason}{end}`, condition)).CombinedOutput()
		if err == nil && string(output) != want {
			err = fmt.Errorf("condition %s is %q, want %q", condition, output, want)
		}
		return err
	})
}
