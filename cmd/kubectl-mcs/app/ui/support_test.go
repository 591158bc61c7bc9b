// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

type watchInterface = watch.Interface

func namespaceOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return accessor.GetNamespace()
}

func multiclusterResource(name string) schema.GroupVersionResource {
	return multiclusterxv1beta1.SchemeGroupVersion.WithResource(name)
}
