// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	upstreamv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	"sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"
	"sigs.k8s.io/mcs-api/pkg/client/informers/externalversions"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// Upstream's clients and informers work unchanged, with streaming lists.
func TestUpstreamInformersSync(t *testing.T) {
	if !clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		t.Fatal("the client does not use streaming lists, which this test is about")
	}
	ns, ctx := namespace(t), t.Context()
	upstream, err := versioned.NewForConfig(adminConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	exports := upstream.MulticlusterV1alpha1().ServiceExports(ns)
	create := func(name string) {
		t.Helper()
		if _, err := exports.Create(ctx, &upstreamv1alpha1.ServiceExport{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       upstreamv1alpha1.ServiceExportSpec{ExportedLabels: map[string]string{"from": "upstream"}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")

	factory := externalversions.NewSharedInformerFactoryWithOptions(upstream, 0, externalversions.WithNamespace(ns))
	v1alpha1, v1beta1 := factory.Multicluster().V1alpha1(), factory.Multicluster().V1beta1()
	informers := map[string]cache.SharedIndexInformer{
		"v1alpha1 exports": v1alpha1.ServiceExports().Informer(), "v1alpha1 imports": v1alpha1.ServiceImports().Informer(),
		"v1beta1 exports": v1beta1.ServiceExports().Informer(), "v1beta1 imports": v1beta1.ServiceImports().Informer(),
	}
	informed, stop := context.WithCancel(ctx)
	factory.Start(informed.Done())
	defer factory.Shutdown()
	defer stop()
	for name, informer := range informers {
		expect.Eventually(t, "sync of "+name, func(context.Context) error {
			if !informer.HasSynced() {
				return fmt.Errorf("not synced")
			}
			return nil
		})
	}
	create("after")
	for _, name := range []string{"before", "after"} {
		expect.Eventually(t, name, func(context.Context) error {
			export, err := v1beta1.ServiceExports().Lister().ServiceExports(ns).Get(name)
			if err == nil && export.Spec.ExportedLabels["from"] != "upstream" {
				err = fmt.Errorf("labels are missing: %+v", export)
			}
			return err
		})
	}
	if err := exports.Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "deletion", func(context.Context) error {
		if list := informers["v1alpha1 exports"].GetStore().ListKeys(); len(list) != 1 {
			return fmt.Errorf("the informer holds %v", list)
		}
		return nil
	})
}
