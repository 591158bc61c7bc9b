// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// sharedIPs begin with this: it is the allocation CIDR of the importer.
const sharedIPs = "243.1."

// R277, R278, R285, R286, R288, R289: a service of the importer keeps the shared ClusterSet IP
// that it has just got, and others still get theirs, whatever a member says about them, or
// about clusters behind it.
func TestForgedDecisionsDoNotAffectSharedIPs(t *testing.T) {
	claims := importer().Clientset.MulticlusterV1().ClusterClaims()
	expect.Must(claims.Create(t.Context(), &multiclusterv1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetIPCIDRClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: sharedIPs + "0.0/16"},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		expect.NoError(t, claims.Delete(context.Background(), multicluster.ClusterSetIPCIDRClaim, metav1.DeleteOptions{}))
	})
	target := hostile.Target{Importer: "importer", Honest: "honest", ClusterSet: clusterSet, Namespace: clusters.CreateNamespace(t, "shared"), Services: []string{"honest"}, FreeIP: sharedIPs + "200.200"}
	exportHonestly(t, target.Namespace, target.Services)
	observed := observe(t, target.Namespace, target.Services)
	for number, attack := range hostile.DecisionAttacks() {
		first, later := fmt.Sprintf("first-%d", number), fmt.Sprintf("later-%d", number)
		t.Run(attack.Name, func(t *testing.T) {
			target.SharedIP = exportShared(t, target.Namespace, first)
			play(t, target, attack, observed, func() {
				exportShared(t, target.Namespace, later)
				expect.NoError(t, keepsSharedIP(t.Context(), target, first))
				for _, id := range hostile.Identities(attack.Name) {
					expectOthersWithout(t, observed, id)
				}
				if !canAllocate(t) {
					t.Error("the importer cannot allocate shared ClusterSet IPs")
				}
			})
			expect.NoError(t, keepsSharedIP(t.Context(), target, first))
			observed.check(t)
		})
	}
}

// exportShared exports a service of the importer, and waits until it has a shared
// ClusterSet IP, which it returns.
func exportShared(t *testing.T, namespace, name string) string {
	t.Helper()
	expect.Must(importer().Service(t.Context(), namespace, name))(t)
	expect.Must(importer().Export(t.Context(), namespace, name, func(export *multiclusterxv1beta1.ServiceExport) {
		export.Annotations = map[string]string{multicluster.UseClusterSetIPAnnotation: "true"}
	}))(t)
	found := importer().AwaitImportThat(t, namespace, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		if len(found.Spec.IPs) != 1 || !strings.HasPrefix(found.Spec.IPs[0], sharedIPs) {
			return fmt.Errorf("IPs are %v", found.Spec.IPs)
		}
		return nil
	})
	return found.Spec.IPs[0]
}

// keepsSharedIP returns an error if a service of the importer has not the IP that is
// attacked.
func keepsSharedIP(ctx context.Context, target hostile.Target, name string) error {
	exported, err := importer().Clientset.MulticlusterXV1beta1().ServiceExports(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if record := exported.Annotations[multicluster.ClusterSetIPDecisionAnnotation]; !strings.Contains(record, `"`+target.SharedIP+`"`) {
		return fmt.Errorf("%s has decision %s, want %s", name, record, target.SharedIP)
	}
	imported, err := importer().Clientset.MulticlusterXV1beta1().ServiceImports(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.Equal(imported.Spec.IPs, []string{target.SharedIP}) {
		return fmt.Errorf("%s has IPs %v, want %s", name, imported.Spec.IPs, target.SharedIP)
	}
	return nil
}

// expectOthersWithout fails if a service of a member has a shared ClusterSet IP that the
// importer could allocate.
func expectOthersWithout(t *testing.T, observed *observation, member string) {
	t.Helper()
	for _, object := range observed.imports.List() {
		found := object.(*multiclusterxv1beta1.ServiceImport)
		if slices.Contains(exporters(found), member) && slices.ContainsFunc(found.Spec.IPs, func(ip string) bool { return strings.HasPrefix(ip, sharedIPs) }) {
			t.Errorf("%s, which member %s exports, has IPs %v", found.Name, member, found.Spec.IPs)
		}
	}
}

// canAllocate reports whether the importer can allocate shared ClusterSet IPs.
func canAllocate(t *testing.T) bool {
	t.Helper()
	own := expect.Must(importer().Clientset.ClusterSetV1alpha1().Members().Get(t.Context(), "importer", metav1.GetOptions{}))(t)
	return meta.IsStatusConditionTrue(own.Status.Conditions, clusterset.MemberClusterSetIP)
}
