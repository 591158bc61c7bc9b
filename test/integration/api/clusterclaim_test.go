// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/test/expect"
)

// R94: a claim is cluster-scoped, has a dotted name, and kubectl shows its value.
func TestClusterClaims(t *testing.T) {
	t.Cleanup(func() {
		if err := client(t).MulticlusterV1().ClusterClaims().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, "apply", "-f", expect.Manifest(t, `
apiVersion: multicluster.k8s.io/v1
kind: ClusterClaim
metadata: {name: id.k8s.io}
spec: {value: cluster-1}
`))
	table := strings.Fields(kubectl(t, "get", "clusterclaims", "id.k8s.io"))
	if len(table) != 6 || strings.Join(table[:5], " ") != "NAME VALUE AGE id.k8s.io cluster-1" {
		t.Errorf("kubectl get clusterclaims printed %q", table)
	}
	if value := kubectl(t, "get", "clusterclaim", "id.k8s.io", "-o", "jsonpath={.spec.value}"); value != "cluster-1" {
		t.Errorf("the value is %q", value)
	}
	kubectl(t, "patch", "clusterclaim", "id.k8s.io", "--type=merge", "-p", `{"spec":{"value":"cluster-2"}}`)
	claims := client(t).MulticlusterV1().ClusterClaims()
	claim, err := claims.Get(t.Context(), "id.k8s.io", metav1.GetOptions{})
	if err != nil || claim.Spec.Value != "cluster-2" || claim.Generation != 2 {
		t.Errorf("after a patch: %+v, %v", claim, err)
	}

	longest := strings.Repeat("x", 128_000)
	if _, err := claims.Create(t.Context(), &multiclusterv1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "long.example.com"}, Spec: multiclusterv1.ClusterClaimSpec{Value: longest},
	}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a value of 128,000 bytes: %v", err)
	}
	if output := kubectl(t, "get", "clusterclaims"); len(output) > 1000 {
		t.Errorf("a long value floods the table: %d bytes", len(output))
	}
}
