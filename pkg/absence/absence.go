// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package absence tells whether an object, and a namespace in particular, does not exist for
// certain. What belongs to it is deleted then.
package absence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// retryPeriod is the time between two attempts to identify the cluster.
const retryPeriod = time.Second

// Of reports whether an API server says that an object does not exist. A 404 that does not
// name the object has another origin, such as a proxy or an admission plugin.
func Of(err error, resource, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == resource && details.Name == name
}

// Reader reads namespaces of one cluster. It is safe for concurrent use.
type Reader struct {
	namespaces typedcorev1.NamespacesGetter

	mu sync.Mutex
	// cluster is the UID of the cluster, empty until it is known.
	cluster types.UID
}

// NewReader returns a Reader.
func NewReader(namespaces typedcorev1.NamespacesGetter) *Reader {
	return &Reader{namespaces: namespaces}
}

// Identify finds out which cluster this is, retrying until it succeeds or the context ends.
func (r *Reader) Identify(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, retryPeriod, true, func(ctx context.Context) (bool, error) { return r.check(ctx) == nil, nil })
}

// Get returns a namespace. It returns an error that is a NotFound, or a namespace with another
// UID than before, only if the cluster is the one that was identified: a kube-apiserver with
// other or lost data does not have the namespace either.
func (r *Reader) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Namespace, error) {
	found, err := r.namespaces.Namespaces().Get(ctx, name, options)
	if apierrors.IsNotFound(err) && !Of(err, "namespaces", name) {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("get namespace %s: the response is not that of a kube-apiserver: %v", name, err))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if unknown := r.check(ctx); unknown != nil {
		return nil, unknown
	}
	return found, err
}

// check returns an error unless the kube-apiserver serves the cluster that it served before.
func (r *Reader) check(ctx context.Context) error {
	system, err := r.namespaces.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil { // also if it is absent: no cluster is without it
		return apierrors.NewServiceUnavailable(fmt.Sprintf("get namespace %s: %v", metav1.NamespaceSystem, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster == "" {
		r.cluster = system.UID
	}
	if system.UID != r.cluster {
		return fmt.Errorf("namespace %s has the UID %s instead of %s: the kube-apiserver serves another cluster, so that nothing of missing namespaces is deleted; restart mcs-apiserver",
			metav1.NamespaceSystem, system.UID, r.cluster)
	}
	return nil
}
