// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// NewServiceGetter returns a ServiceGetter that reads from the cache. If the
// cache does not have the Service, it may have been created just now, so the
// ServiceGetter then reads from the API.
func NewServiceGetter(cache corev1listers.ServiceLister, live typedcorev1.ServicesGetter) ServiceGetter {
	return func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
		service, err := cache.Services(namespace).Get(name)
		if !apierrors.IsNotFound(err) {
			return service, err
		}
		return live.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}
