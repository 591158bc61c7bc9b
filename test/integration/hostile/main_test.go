// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile tests that a hostile member does not affect a cluster that reads it,
// nor what that cluster imports from an honest member.
package hostile

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

const clusterSet = "everywhere"

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"importer", "honest"}, ClusterSet: clusterSet})
}

// importer reads the honest and the hostile members.
func importer() *fleet.Cluster { return clusters.Cluster("importer") }
func honest() *fleet.Cluster   { return clusters.Cluster("honest") }

const (
	nodeAddress = "10.240.0.9"
	podCIDR     = "10.241.0.0/24"
)

// createNode adds a Node to the importer, so that it has addresses that endpoints of
// members must not have. It returns one of each kind.
func createNode(t *testing.T) []string {
	t.Helper()
	nodes := importer().Kubernetes.CoreV1().Nodes()
	node := expect.Must(nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}},
	}, metav1.CreateOptions{}))(t)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}
	expect.Must(nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}))(t)
	kubernetes := expect.Must(importer().Kubernetes.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t)
	return []string{nodeAddress, "10.241.0.7", kubernetes.Spec.ClusterIP}
}

// exportHonestly exports services of the honest member, and waits until they are
// imported.
func exportHonestly(t *testing.T, namespace string, names []string) {
	t.Helper()
	for number, name := range names {
		honest().ExportService(t, namespace, name, []string{fixedAddress(number)})
	}
	for _, name := range names {
		importer().AwaitImport(t, namespace, name, "honest")
	}
	expect.Eventually(t, "imported EndpointSlices", func(ctx context.Context) error {
		list, err := importer().Kubernetes.DiscoveryV1().EndpointSlices(namespace).List(ctx, importedFrom("honest"))
		if err == nil && len(list.Items) != len(names) {
			err = fmt.Errorf("%d EndpointSlices", len(list.Items))
		}
		return err
	})
}
