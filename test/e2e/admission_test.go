// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// The administrator of a namespace can neither change derived objects nor create
// objects that resemble them. The cluster's own controllers can still work.
func TestNamespaceAdminsCannotForgeDerivedObjects(t *testing.T) {
	ns := namespace(t, "guarded")
	deploy(t, east, ns, workload(east, 1, usual)+"---"+exportWeb)
	awaitReady(t, west, ns, "web")
	awaitSlices(t, west, ns, 2)
	derived := kubectl(t, west, "get", "serviceimport", "web", "-n", ns, "-o", `jsonpath={.metadata.annotations.multicluster\.kubernetes\.io/derived-service}`)
	slice := words(t, west, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].metadata.name}")[0]
	kubectl(t, west, "create", "rolebinding", "admin", "-n", ns, "--clusterrole=admin", "--user=ann")
	// The role admin does not include EndpointSlices; some clusters add them.
	kubectl(t, west, "create", "role", "slices", "-n", ns, "--verb=*", "--resource=endpointslices.discovery.k8s.io,endpoints")
	kubectl(t, west, "create", "rolebinding", "slices", "-n", ns, "--role=slices", "--user=ann")

	forgedSlice := func(labels string) string {
		return expect.Manifest(t, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: forged, namespace: %s, labels: {%s}}\naddressType: IPv4\nports: [{name: tcp, port: 8080}]\nendpoints: [{addresses: [10.66.6.6]}]\n", ns, labels)
	}
	for _, test := range []struct {
		name string
		args []string
	}{
		{"edit the Service", []string{"patch", "service", derived, "--type=merge", "-p", `{"spec":{"sessionAffinity":"ClientIP"}}`}},
		{"set a selector on the Service", []string{"patch", "service", derived, "--type=merge", "-p", `{"spec":{"selector":{"app":"evil"}}}`}},
		{"relabel the Service", []string{"label", "service", derived, "multicluster.kubernetes.io/service-name-", "--overwrite"}},
		{"delete the Service", []string{"delete", "service", derived}},
		{"edit a slice", []string{"patch", "endpointslice", slice, "--type=merge", "-p", `{"endpoints":[]}`}},
		{"relabel a slice", []string{"label", "endpointslice", slice, "multicluster.kubernetes.io/source-cluster=west", "--overwrite"}},
		{"delete a slice", []string{"delete", "endpointslice", slice}},
		{"forge a slice by label", []string{"create", "-f", forgedSlice("multicluster.kubernetes.io/service-name: web, multicluster.kubernetes.io/source-cluster: east")}},
		{"forge a slice of the derived Service", []string{"create", "-f", forgedSlice("kubernetes.io/service-name: " + derived)}},
		{"forge a slice by manager", []string{"create", "-f", forgedSlice("endpointslice.kubernetes.io/managed-by: mcs-controller.mcs-apiserver.io")}},
		{"forge Endpoints", []string{"create", "-f", expect.Manifest(t, "apiVersion: v1\nkind: Endpoints\nmetadata: {name: %s, namespace: %s}\nsubsets: [{addresses: [{ip: 10.66.6.6}], ports: [{name: tcp, port: 8080}]}]\n", derived, ns)}},
		{"forge a derived Service", []string{"create", "service", "clusterip", "derived-0123456789", "--tcp=80"}},
		{"forge a Service by label", []string{"create", "-f", expect.Manifest(t, "apiVersion: v1\nkind: Service\nmetadata: {name: forged, namespace: %s, labels: {multicluster.kubernetes.io/service-name: web}}\nspec: {ports: [{port: 80}]}\n", ns)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, err := west.Kubectl(t.Context(), append(test.args, "-n", ns, "--as=ann")...)
			if err == nil || !strings.Contains(output, "materialized.mcs-apiserver.io") {
				t.Errorf("request was not refused by the policy: %v %s", err, output)
			}
		})
	}
	// Objects of the administrator's own are not restricted.
	for _, args := range [][]string{
		{"create", "service", "clusterip", "mine", "--tcp=80"}, {"label", "service", "mine", "a=b"}, {"delete", "service", "mine"},
		{"create", "-f", forgedSlice("kubernetes.io/service-name: mine")}, {"delete", "endpointslice", "forged"},
	} {
		if output, err := west.Kubectl(t.Context(), append(args, "-n", ns, "--as=ann")...); err != nil {
			t.Errorf("kubectl %s: %s", strings.Join(args, " "), output)
		}
	}
	// The namespace controller and the garbage collector can delete the objects.
	kubectl(t, west, "delete", "namespace", ns, "--timeout=60s")
}
