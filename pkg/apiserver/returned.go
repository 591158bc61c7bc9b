// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	genericapiserver "k8s.io/apiserver/pkg/server"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
)

// returnedAPI follows the ConfigMap that says when the API returned to CRDs.
type returnedAPI struct {
	*handback.Signal
	client    kubernetes.Interface
	namespace string
}

// start follows the ConfigMap until the server stops.
func (r *returnedAPI) start(hook genericapiserver.PostStartHookContext) error {
	marks := coreinformers.NewFilteredConfigMapInformer(r.client, r.namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, clusterset.MigrationConfigMap).String()
	})
	if _, err := marks.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.follow(nil, object) },
		UpdateFunc: r.follow,
	}); err != nil {
		return err
	}
	go marks.RunWithContext(hook)
	return nil
}

// follow ends watches when a mark begins to say that the API returned, or says so again.
func (r *returnedAPI) follow(old, object any) {
	mark, ok := object.(*corev1.ConfigMap)
	if !ok || crdmigration.PhaseOf(mark) != crdmigration.Returned {
		return
	}
	if before, ok := old.(*corev1.ConfigMap); ok && maps.Equal(before.Data, mark.Data) {
		return
	}
	r.End()
}
