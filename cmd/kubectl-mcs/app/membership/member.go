// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// addMember creates the member Secret of a peer, or updates the kubeconfig in an
// existing one and keeps its other content.
func (c *Cluster) addMember(ctx context.Context, peer *Cluster) (rollback, error) {
	token, _, err := peer.createPeerToken(ctx, c.Observed.ID, initialTokenLifetime)
	if err != nil {
		return nil, peer.WrapError(err, cluster.KubernetesAdminAdvice)
	}
	id := peer.Observed.ID
	wanted, err := plan.NewMemberSecret(c.Namespace, plan.Membership{
		ID: id, UID: peer.Observed.UID, Access: peer.Observed.Access, Token: token, Secret: c.memberSecret(id),
	})
	if err != nil {
		return nil, err
	}
	existing, err := c.existingSecret(ctx, wanted)
	switch {
	case err != nil:
		return nil, err
	case existing == nil:
		return createIfMissing(ctx, c.Kubernetes.CoreV1().Secrets(c.Namespace), wanted)
	}
	return c.replaceAccess(ctx, existing, wanted)
}

// replaceAccess replaces how a member is reached, and keeps all other content of its Secret.
func (c *Cluster) replaceAccess(ctx context.Context, existing, wanted *corev1.Secret) (rollback, error) {
	return c.updateSecret(ctx, existing, func(secret *corev1.Secret) {
		secret.Data[clusterset.MemberSecretKubeconfig] = wanted.Data[clusterset.MemberSecretKubeconfig]
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterset.PeerLabel, memberIDOf(wanted))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, clusterset.ClusterUIDAnnotation, wanted.Annotations[clusterset.ClusterUIDAnnotation])
	})
}

// fieldManager owns what the user accepted of an invitation.
const fieldManager = "kubectl-mcs"

// applyMember applies the member Secret of an invitation, like `kubectl apply`. Of one that
// exists, only how the member is reached is replaced, as when clusters join: other steps of
// the plan change what this cluster recorded.
func (c *Cluster) applyMember(ctx context.Context, wanted *corev1.Secret) (rollback, error) {
	existing, err := c.existingSecret(ctx, wanted)
	if err != nil {
		return nil, err
	}
	planned := len(c.memberSecrets[memberIDOf(wanted)]) > 0
	switch {
	case planned != (existing != nil):
		return nil, fmt.Errorf("member Secret %q was created or deleted meanwhile: repeat the command", wanted.Name)
	case existing != nil:
		return c.replaceAccess(ctx, existing, wanted)
	}
	secrets := c.Kubernetes.CoreV1().Secrets(c.Namespace)
	apply := corev1apply.Secret(wanted.Name, c.Namespace).WithType(wanted.Type).WithLabels(wanted.Labels).WithAnnotations(wanted.Annotations).WithData(wanted.Data)
	_, err = secrets.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: fieldManager})
	if err != nil && !mayHaveSucceeded(err) {
		return nil, err
	}
	return func(ctx context.Context) error { return deleteIfExists(ctx, secrets, wanted.Name) }, err
}

// existingSecret returns the Secret that another one is going to replace, nil if there is
// none. It is an error if that is not the Secret of the same member.
func (c *Cluster) existingSecret(ctx context.Context, wanted *corev1.Secret) (*corev1.Secret, error) {
	existing, err := c.Kubernetes.CoreV1().Secrets(c.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case memberIDOf(existing) != memberIDOf(wanted) || existing.Type != wanted.Type:
		return nil, fmt.Errorf("name conflict: Secret %q in namespace %q is not the member Secret of %q; rename or delete it", wanted.Name, c.Namespace, memberIDOf(wanted))
	}
	return existing, nil
}

// updateSecret changes a Secret. It returns the rollback also with an error after
// which the Secret may be changed.
func (c *Cluster) updateSecret(ctx context.Context, existing *corev1.Secret, change func(*corev1.Secret)) (rollback, error) {
	secrets, changed := c.Kubernetes.CoreV1().Secrets(c.Namespace), existing.DeepCopy()
	change(changed)
	_, err := secrets.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !mayHaveSucceeded(err) {
		return nil, err
	}
	return c.restoreSecret(existing), err
}

// restoreSecret returns the rollback of a change of a Secret.
func (c *Cluster) restoreSecret(existing *corev1.Secret) rollback {
	return func(ctx context.Context) error {
		before := existing.DeepCopy()
		before.ResourceVersion = "" // overwrite changes since then
		_, err := c.Kubernetes.CoreV1().Secrets(c.Namespace).Update(ctx, before, metav1.UpdateOptions{})
		return err
	}
}

// removeMember deletes all member Secrets of a cluster, by any name.
func (c *Cluster) removeMember(ctx context.Context, id string) error {
	for _, name := range c.memberSecrets[id] {
		if err := deleteIfExists(ctx, c.Kubernetes.CoreV1().Secrets(c.Namespace), name); err != nil {
			return err
		}
	}
	return nil
}
