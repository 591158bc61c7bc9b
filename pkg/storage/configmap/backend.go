// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// Backend is storage in the ConfigMaps of one namespace of the host.
type Backend struct {
	client    kubernetes.Interface
	watches   rest.Interface
	namespace string
	guard     *NamespaceGuard
	// prepared is the UID of the namespace that Prepare has found, and opened the marker of
	// the storage that was opened.
	prepared types.UID
	opened   marker.Marker
}

// NewBackend returns storage that cannot be used until it was opened.
func NewBackend(host *rest.Config, namespace string) (*Backend, error) {
	client, err := kubernetes.NewForConfig(requestConfig(host))
	if err != nil {
		return nil, fmt.Errorf("create client for storage in the host cluster: %w", err)
	}
	watches, err := kubernetes.NewForConfig(ClientConfig(host))
	if err != nil {
		return nil, fmt.Errorf("create client for watches of storage in the host cluster: %w", err)
	}
	b := &Backend{client: client, watches: watches.CoreV1().RESTClient(), namespace: namespace}
	b.guard = NewNamespaceGuard(namespace, b.getNamespace)
	return b, nil
}

func (b *Backend) getNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return b.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
}

// Close does nothing: the client holds no resources of its own.
func (b *Backend) Close() {}

// Gate is closed while the storage cannot be used.
func (b *Backend) Gate() *gate.Gate { return b.guard.Gate() }

// Prepare returns an error until the namespace exists and this server has the
// required permissions.
func (b *Backend) Prepare(ctx context.Context) error {
	namespace, err := b.getNamespace(ctx, b.namespace)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("storage namespace %q does not exist: it is created by mcs-controller; check that mcs-controller is running with the same --storage-namespace", b.namespace)
	case err != nil:
		return fmt.Errorf("read storage namespace %q: %w", b.namespace, err)
	case namespace.DeletionTimestamp != nil:
		return fmt.Errorf("storage namespace %q is being deleted: %s", b.namespace, waitRemedy+restoreRemedy)
	}
	b.prepared = namespace.UID
	return b.authorized(ctx)
}

// authorized returns an error if this server lacks a permission.
func (b *Backend) authorized(ctx context.Context) error {
	var denied []string
	for _, verb := range []string{"get", "list", "watch", "create", "update", "delete"} {
		review, err := b.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: b.namespace, Verb: verb, Version: "v1", Resource: "configmaps",
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("check permissions in storage namespace %q: %w", b.namespace, err)
		}
		if !review.Status.Allowed {
			denied = append(denied, verb)
		}
	}
	if len(denied) > 0 {
		return fmt.Errorf("the account of mcs-apiserver is not allowed to %s configmaps in storage namespace %q: grant these verbs by applying artifacts/default again",
			strings.Join(denied, ", "), b.namespace)
	}
	return nil
}

// Marker is where the storage keeps its marker.
func (b *Backend) Marker() marker.Place {
	return marker.ConfigMap{Client: b.client, Namespace: b.namespace, Name: marker.Name}
}

// Empty reports whether the storage holds no objects.
func (b *Backend) Empty(ctx context.Context) (bool, error) {
	wrappers, err := b.client.CoreV1().ConfigMaps(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: ResourceLabel, Limit: 1})
	if err != nil {
		return false, err
	}
	return len(wrappers.Items) == 0, nil
}

// Open opens the storage after its marker was verified. The marker is written last
// when a namespace is restored from a backup: at its version, the namespace was
// complete.
func (b *Backend) Open(ctx context.Context) error {
	held, err := b.client.CoreV1().ConfigMaps(b.namespace).Get(ctx, marker.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the storage marker: %w", err)
	}
	version, err := versioner.ParseResourceVersion(held.ResourceVersion)
	if err != nil {
		return err
	}
	found, err := marker.FromConfigMap(held)
	if err != nil {
		return err
	}
	b.opened = *found
	b.guard.Open(b.prepared, version)
	return nil
}

// Confirm closes the gate if the namespace was deleted, or the marker is not the one of the
// storage that was opened: another server has moved its objects, or it was replaced.
func (b *Backend) Confirm(ctx context.Context) error {
	if err := b.guard.Confirm(ctx); err != nil {
		return err
	}
	held, err := b.Marker().Get(ctx)
	if err != nil {
		return gate.Unavailable("storage is unavailable: read the storage marker: " + err.Error())
	}
	switch {
	case held == nil:
		err = fmt.Errorf("storage %s was lost: its marker is missing", b.opened.StorageID)
	case *held == b.opened:
		return nil
	case held.MovedTo != "":
		err = errors.New("storage is outdated: its objects were moved to " + held.MovedTo)
	default:
		err = fmt.Errorf("storage %s was replaced by storage %s", b.opened.StorageID, held.StorageID)
	}
	b.Gate().Close(err)
	return b.Gate().Usable()
}

// ValidateNamespace returns an error for a name that no storage namespace can have.
func ValidateNamespace(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return errors.New(strings.Join(problems, ", "))
	}
	if name == metav1.NamespaceDefault || strings.HasPrefix(name, "kube-") {
		return errors.New("must be a namespace that is used for nothing else, such as mcs-storage")
	}
	return nil
}
