// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// NewOriginGetter returns an OriginGetter that reads namespaces from the cache. A
// namespace that the cache does not have may have been created just now, so the
// OriginGetter then reads it from the API.
func NewOriginGetter(cache corev1listers.NamespaceLister, live typedcorev1.NamespacesGetter) OriginGetter {
	uid := func(ctx context.Context, name string) (types.UID, error) {
		namespace, err := cache.Get(name)
		if apierrors.IsNotFound(err) {
			namespace, err = live.Namespaces().Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return "", err
		}
		return namespace.UID, nil
	}
	return func(ctx context.Context, namespace string) (origin multicluster.Origin, err error) {
		if origin.Cluster, err = uid(ctx, metav1.NamespaceSystem); err != nil {
			return origin, err
		}
		origin.Namespace, err = uid(ctx, namespace)
		return origin, err
	}
}
