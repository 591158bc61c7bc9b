// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/mcs-api/config/crd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

var checkArgs = []string{"mcs", "join", "--clusterset", clusterSet, "east", "west", "--id", "east=east", "--id", "west=west", "--check"}

// withPod adds a node with a Pod CIDR, if it is not empty, and a Pod with an address, until the
// test ends.
func withPod(t *testing.T, in *fleet.Cluster, podCIDR, address string) {
	t.Helper()
	const name = "check"
	nodes, pods := in.Kubernetes.CoreV1().Nodes(), in.Kubernetes.CoreV1().Pods("default")
	t.Cleanup(func() {
		for _, err := range []error{nodes.Delete(context.Background(), name, metav1.DeleteOptions{}), pods.Delete(context.Background(), name, metav1.DeleteOptions{})} {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if podCIDR != "" {
		node.Spec = corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}}
	}
	expect.Must(nodes.Create(t.Context(), node, metav1.CreateOptions{}))(t)
	automount := false
	expect.Must(pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name}}, AutomountServiceAccountToken: &automount},
	}, metav1.CreateOptions{}))(t)
	expect.Eventually(t, "status of the Pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// R430, R431, R432, R433, R435, R439: clusters that are ready pass the check, which changes
// nothing, and so do members, which say that they reach each other.
func TestCheckBeforeAndAfterJoining(t *testing.T) {
	withPod(t, east(), "10.77.0.0/24", "10.77.0.5")
	withPod(t, west(), "10.78.0.0/24", "10.78.0.5")
	claims := map[string]string{}
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		claims[cluster.ID] = claimed(t, cluster, multicluster.ClusterIDClaim) + " " + claimed(t, cluster, multicluster.ClusterSetIPCIDRClaim)
	}
	output := kubectl(t, checkArgs...)
	expect.Contains(t, output,
		`✓ the clusters can join ClusterSet "everywhere"`, "✓ east: the API of mcs-apiserver is registered and available", "✓ west: the kube-apiserver is version v1.",
		"✓ mcs-apiserver is version ", "✓ the clocks of the kube-apiservers of east, west do not differ", "✓ east, west: Pod networks do not overlap",
		`✓ east: server "https://10.250.0.`, "? east: whether mcs-apiserver reaches west (https://10.250.0.", "? west: there is no ConfigMap with the configuration of kube-proxy",
		"! west: DNS of the ClusterSet cannot be checked", "\n0 problems (✗), ")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		if made := traces(t, cluster); len(made) > 0 {
			t.Errorf("--check created %v in %s", made, cluster.ID)
		}
		if now := claimed(t, cluster, multicluster.ClusterIDClaim) + " " + claimed(t, cluster, multicluster.ClusterSetIPCIDRClaim); now != claims[cluster.ID] {
			t.Errorf("--check changed claims of %s from %q to %q", cluster.ID, claims[cluster.ID], now)
		}
	}
	join(t, "east", "west")
	output = kubectl(t, checkArgs...)
	expect.Contains(t, output, `✓ the clusters are already members of ClusterSet "everywhere"`, "✓ east: mcs-apiserver reaches west (https://10.250.0.", "✓ west: mcs-apiserver reaches east (https://10.250.0.")
	expect.Lacks(t, output, "is not known, because only its Pods can tell", "✗ ")
}

// R431, R433, R434, R439: a CustomResourceDefinition in the way, and a Pod in the network of
// another cluster, whose node has no Pod CIDR, fail the check.
func TestCheckFindsProblems(t *testing.T) {
	withPod(t, east(), "10.77.0.0/24", "10.77.0.5")
	withPod(t, west(), "", "10.77.0.9")
	const definition = "customresourcedefinition/serviceexports.multicluster.x-k8s.io"
	kubectl(t, "mcs", "detach", "west", "--yes")
	config := kubeconfig(t)
	t.Cleanup(func() {
		for _, args := range [][]string{
			{"--context", "west", "delete", definition, "--ignore-not-found", "--timeout=60s"}, {"mcs", "attach", "west", "--timeout", "60s"},
		} {
			if output, err := clusters.KubectlCommand(context.Background(), config, args...).CombinedOutput(); err != nil {
				t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
			}
		}
	})
	kubectl(t, "--context", "west", "apply", "-f", expect.Manifest(t, "%s", crd.ServiceExportCRD))
	expect.Eventually(t, "APIService of the CRD", func(ctx context.Context) error {
		output, err := west().Kubectl(ctx, "get", "apiservice", "v1alpha1.multicluster.x-k8s.io")
		if err != nil {
			return errors.New(output)
		}
		return nil
	})
	refused(t, []string{
		"✗ west: CustomResourceDefinition serviceexports.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1",
		"✗ west: the API of mcs-apiserver is detached: attach it with `kubectl mcs attach west`",
		"✗ east, west: a Pod of west (10.77.0.9) is in a Pod CIDR of east (10.77.0.0/24), and Pods use it",
		"✓ west: the kube-apiserver is version v1.",
		`error: the clusters are not ready to join ClusterSet "everywhere": `, " problems found; nothing was changed",
	}, checkArgs...)
}
