// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// watchObjects reports changed ConfigMaps and Secrets until the context is done. It watches
// their metadata only: consumers read the content from the API server, which is at least as
// recent as the reported change.
func watchObjects(ctx context.Context, client metadata.Interface, changed func(namespace string, changed object)) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, resource := range []string{configMaps, secrets} {
		tell := func(item any) {
			if unknown, ok := item.(cache.DeletedFinalStateUnknown); ok {
				item = unknown.Obj
			}
			meta := item.(*metav1.PartialObjectMetadata)
			changed(meta.Namespace, object{resource, meta.Name})
		}
		informer := metadatainformer.NewFilteredMetadataInformer(client, corev1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll, 0, nil, nil).Informer()
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when stopped
			AddFunc:    tell,
			UpdateFunc: func(_, item any) { tell(item) },
			DeleteFunc: tell,
		})
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}
