// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// limited returns a new namespace that has a quota for a resource, once the cluster enforces
// it. The quota controller discovers new APIs every 30 seconds, and does not look
// again at quotas that it saw before: they are replaced until it knows the API. A function
// that creates an object as a dry run tells when mcs-apiserver has observed the quota.
func limited(t *testing.T, counted corev1.ResourceName, limit string, try func(ctx context.Context, namespace string) error) string {
	t.Helper()
	const patience = 5 * time.Second
	ns := namespace(t)
	quotas := suite.Kubernetes.CoreV1().ResourceQuotas(ns)
	var created time.Time
	expect.Eventually(t, "quota", func(ctx context.Context) error {
		quota, err := quotas.Get(ctx, "exports", metav1.GetOptions{})
		_, known := quota.Status.Used[counted]
		switch {
		case err == nil && known:
			return nil
		case err == nil && time.Since(created) > patience:
			return errors.Join(errors.New("usage is not known yet"), quotas.Delete(ctx, "exports", metav1.DeleteOptions{}))
		case apierrors.IsNotFound(err):
			created = time.Now()
			_, err = quotas.Create(ctx, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "exports"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("0")}},
			}, metav1.CreateOptions{})
		}
		return errors.Join(errors.New("usage is not known yet"), err)
	})
	expect.Eventually(t, "quota in mcs-apiserver", func(ctx context.Context) error {
		if err := try(ctx, ns); !exceedsQuota(err) {
			return fmt.Errorf("not enforced: %w", err)
		}
		return nil
	})
	patch := fmt.Appendf(nil, `{"spec":{"hard":{%q:%q}}}`, counted, limit)
	expect.Must(quotas.Patch(t.Context(), "exports", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	expect.Eventually(t, "limit in mcs-apiserver", func(ctx context.Context) error { return try(ctx, ns) })
	return ns
}

// tryExport creates an export as a dry run.
func tryExport(t *testing.T) func(ctx context.Context, namespace string) error {
	return func(ctx context.Context, namespace string) error {
		_, err := serviceExports(t, xGroup, namespace).Create(ctx, unstructuredExport(xGroup, "try", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

// countOf is the name in quotas of the ServiceExports of a group.
func countOf(group apischema.GroupVersion) corev1.ResourceName {
	return corev1.ResourceName("count/serviceexports." + group.Group)
}

func createExport(ctx context.Context, t *testing.T, group apischema.GroupVersion, namespace, name string) error {
	t.Helper()
	_, err := serviceExports(t, group, namespace).Create(ctx, unstructuredExport(group, name, nil), metav1.CreateOptions{})
	return err
}

func exceedsQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: exports")
}

// R264: a ResourceQuota limits the ServiceExports of a namespace, through whichever group they
// are created and limited. A deleted export makes room for another one.
func TestQuotaLimitsServiceExports(t *testing.T) {
	for _, in := range []apischema.GroupVersion{xGroup, kepGroup} {
		t.Run(in.Group, func(t *testing.T) {
			ns := limited(t, countOf(in), "2", tryExport(t))
			expect.NoError(t, createExport(t.Context(), t, xGroup, ns, "one"))
			expect.NoError(t, createExport(t.Context(), t, kepGroup, ns, "two"))
			for _, through := range []apischema.GroupVersion{xGroup, kepGroup} {
				if err := createExport(t.Context(), t, through, ns, "three"); !exceedsQuota(err) {
					t.Errorf("third export through %s: %v", through, err)
				}
			}
			expect.NoError(t, serviceExports(t, xGroup, ns).Delete(t.Context(), "one", metav1.DeleteOptions{}))
			expect.Eventually(t, "room for another export", func(ctx context.Context) error { return createExport(ctx, t, in, ns, "three") })
		})
	}
}

// R264: a quota holds for exports that are created at the same time.
func TestQuotaHoldsForConcurrentCreations(t *testing.T) {
	ns := limited(t, countOf(xGroup), "3", tryExport(t))
	var creations sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		creations.Go(func() { errs[i] = createExport(t.Context(), t, xGroup, ns, fmt.Sprintf("export-%d", i)) })
	}
	creations.Wait()
	created := 0
	for _, err := range errs {
		switch {
		case err == nil:
			created++
		case !exceedsQuota(err):
			t.Error(err)
		}
	}
	if created != 3 {
		t.Errorf("%d exports were created, want 3", created)
	}
}

// R455
func TestQuotaLimitsInventories(t *testing.T) {
	clients := client(t).MulticlusterXV1alpha1()
	for resource, create := range map[string]func(ctx context.Context, namespace, name string, options metav1.CreateOptions) error{
		"clusterprofiles": func(ctx context.Context, namespace, name string, options metav1.CreateOptions) error {
			_, err := clients.ClusterProfiles(namespace).Create(ctx, profile(name, "example"), options)
			return err
		},
		"placementdecisions": func(ctx context.Context, namespace, name string, options metav1.CreateOptions) error {
			_, err := clients.PlacementDecisions(namespace).Create(ctx, &v1alpha1.PlacementDecision{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Decisions: []v1alpha1.ClusterDecision{},
			}, options)
			return err
		},
	} {
		t.Run(resource, func(t *testing.T) {
			ns := limited(t, corev1.ResourceName("count/"+resource+".multicluster.x-k8s.io"), "1", func(ctx context.Context, namespace string) error {
				return create(ctx, namespace, "try", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			})
			expect.NoError(t, create(t.Context(), ns, "one", metav1.CreateOptions{}))
			if err := create(t.Context(), ns, "two", metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
				t.Errorf("second object: %v, want a refusal", err)
			}
		})
	}
}
