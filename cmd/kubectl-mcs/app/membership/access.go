// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// initialTokenLifetime is the lifetime of the token that passes through the
// user's hands. mcs-controller replaces the token immediately.
const initialTokenLifetime = 30 * time.Minute

// BootstrapLifetime is the default lifetime of tokens in files, which must be valid until
// first contact. The kube-apiserver issues none for less than minLifetime, and the
// ValidatingAdmissionPolicy peer-tokens.mcs-apiserver.io allows none for more than
// maxLifetime.
const (
	BootstrapLifetime = 24 * time.Hour
	minLifetime       = 10 * time.Minute
	maxLifetime       = 30 * 24 * time.Hour
)

// ValidateLifetime validates the lifetime of tokens that a user asks for with --duration.
func ValidateLifetime(lifetime time.Duration) error {
	if lifetime < minLifetime || lifetime > maxLifetime {
		return fmt.Errorf("--duration %s: must be at least %s, and at most %s", lifetime, minLifetime, maxLifetime)
	}
	return nil
}

// createDeleter is the part of a typed client that creates and deletes objects.
type createDeleter[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// createIfMissing creates an object unless it exists. It returns the rollback
// also with an error after which the object may exist.
func createIfMissing[T metav1.Object](ctx context.Context, client createDeleter[T], object T) (rollback, error) {
	rollback := func(ctx context.Context) error { return deleteIfExists(ctx, client, object.GetName()) }
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	switch {
	case err == nil || mayHaveSucceeded(err):
		return rollback, err
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	}
	return nil, err
}

// mayHaveSucceeded reports whether a write may have been carried out despite its
// error: there was no response, or the response is not from the server that
// writes.
func mayHaveSucceeded(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

// deleteIfExists deletes an object unless it does not exist.
func deleteIfExists[T any](ctx context.Context, client createDeleter[T], name string) error {
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// grantAccess grants a peer read access to the cluster.
func (c *Cluster) grantAccess(ctx context.Context, peer string) ([]rollback, error) {
	wanted, core, rbac := plan.NewPeerAccess(c.Namespace, peer), c.Kubernetes.CoreV1(), c.Kubernetes.RbacV1()
	var rollbacks []rollback
	for _, part := range []struct {
		object metav1.Object
		create func() (rollback, error)
	}{
		{wanted.Account, func() (rollback, error) {
			return createIfMissing(ctx, core.ServiceAccounts(c.Namespace), wanted.Account)
		}},
		{wanted.ClusterBinding, func() (rollback, error) {
			return createIfMissing(ctx, rbac.ClusterRoleBindings(), wanted.ClusterBinding)
		}},
		{wanted.Role, func() (rollback, error) { return createIfMissing(ctx, rbac.Roles(c.Namespace), wanted.Role) }},
		{wanted.Binding, func() (rollback, error) { return createIfMissing(ctx, rbac.RoleBindings(c.Namespace), wanted.Binding) }},
	} {
		if c.accessObjects.Has(objectKey(part.object)) {
			continue
		}
		rollback, err := part.create()
		rollbacks = append(rollbacks, rollback.list()...)
		if err != nil {
			return rollbacks, err
		}
	}
	return rollbacks, nil
}

// revokeAccess deletes everything that gives a peer read access. The peer's
// token becomes invalid with its service account.
func (c *Cluster) revokeAccess(ctx context.Context, peer string) error {
	access, core, rbac := plan.NewPeerAccess(c.Namespace, peer), c.Kubernetes.CoreV1(), c.Kubernetes.RbacV1()
	for _, remove := range []func() error{
		func() error { return deleteIfExists(ctx, core.ServiceAccounts(c.Namespace), access.Account.Name) },
		func() error { return deleteIfExists(ctx, rbac.ClusterRoleBindings(), access.ClusterBinding.Name) },
		func() error {
			return deleteIfExists(ctx, rbac.ClusterRoleBindings(), clusterset.RelayBindingName(peer))
		},
		func() error { return deleteIfExists(ctx, rbac.RoleBindings(c.Namespace), access.Binding.Name) },
		func() error { return deleteIfExists(ctx, rbac.Roles(c.Namespace), access.Role.Name) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	return nil
}

// PeerToken creates a token for the service account of a peer. The cluster may issue one for
// a shorter time than it is asked for: the time until which it is valid is returned.
func (c *Cluster) PeerToken(ctx context.Context, peer string, lifetime time.Duration) (token string, expires time.Time, err error) {
	token, expires, err = c.createPeerToken(ctx, peer, lifetime)
	if err != nil {
		return "", time.Time{}, c.WrapError(fmt.Errorf("create token for %s: %w", peer, err), cluster.KubernetesAdminAdvice)
	}
	return token, expires, nil
}

// createPeerToken is PeerToken without an explanation of its error.
func (c *Cluster) createPeerToken(ctx context.Context, peer string, lifetime time.Duration) (token string, expires time.Time, err error) {
	request, err := c.Kubernetes.CoreV1().ServiceAccounts(c.Namespace).CreateToken(ctx, clusterset.PeerAccountName(peer), &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
}
