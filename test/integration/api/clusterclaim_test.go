// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R94: a claim is cluster-scoped, has a dotted name, and kubectl shows its value.
func TestClusterClaims(t *testing.T) {
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", expect.Manifest(t, `
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
		t.Errorf("value is %q, want cluster-1", value)
	}
	claims := client(t).MulticlusterV1().ClusterClaims()
	before, err := claims.Get(t.Context(), "id.k8s.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "patch", "clusterclaim", "id.k8s.io", "--type=merge", "-p", `{"spec":{"value":"cluster-2"}}`)
	claim, err := claims.Get(t.Context(), "id.k8s.io", metav1.GetOptions{})
	if err != nil || claim.Spec.Value != "cluster-2" || claim.Generation != before.Generation+1 {
		t.Errorf("after a patch: %+v, %v", claim, err)
	}
}

// claim creates a claim that is deleted when the test ends.
func claim(t *testing.T, name, value string) error {
	t.Helper()
	claims := client(t).MulticlusterV1().ClusterClaims()
	_, err := claims.Create(t.Context(), &multiclusterv1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1.ClusterClaimSpec{Value: value},
	}, metav1.CreateOptions{})
	if err == nil {
		t.Cleanup(func() {
			if err := claims.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	return err
}

// R95, R96: any other claim is accepted with any value up to the size limit.
func TestOtherClaimsMayHaveAnyValue(t *testing.T) {
	longest := strings.Repeat("x", 128_000)
	for name, value := range map[string]string{"long.example.com": longest, "empty.example.com": "", "odd.example.com": "a\x00b\n\u00e9", "simple": "x", "a.x-k8s.io": "x"} {
		if err := claim(t, name, value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if output := kubectl(t, "get", "clusterclaims"); len(output) > 1000 {
		t.Errorf("table with a long value has %d bytes, want at most 1000", len(output))
	}
	err := claim(t, "longer.example.com", longest+"x")
	if !apierrors.IsInvalid(err) {
		t.Fatalf("a value of 128,001 bytes: %v", err)
	}
	expect.Contains(t, err.Error(), "spec.value", "128000")
	if len(err.Error()) > 1000 {
		t.Errorf("error message has %d bytes, want at most 1000", len(err.Error()))
	}
}

// R97: names in the Kubernetes domains are reserved.
func TestReservedClaimsAreRefused(t *testing.T) {
	for _, name := range []string{"region.k8s.io", "cluster.clusterset.k8s.io", "a.kubernetes.io", "sigs.k8s.io", "a.sigs.k8s.io"} {
		err := claim(t, name, "x")
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		expect.Contains(t, err.Error(), "metadata.name", "reserved", "region.example.com")
	}
}
