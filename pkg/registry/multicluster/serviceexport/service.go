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

// NewServiceGetter looks into the cache first. What the cache does not have
// may have been created a moment ago, so it is asked for once more before it
// is called missing.
func NewServiceGetter(cache corev1listers.ServiceLister, live typedcorev1.ServicesGetter) ServiceGetter {
	return func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
		service, err := cache.Services(namespace).Get(name)
		if !apierrors.IsNotFound(err) {
			return service, err
		}
		return live.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}
