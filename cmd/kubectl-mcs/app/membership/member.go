// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// addMember creates the member Secret of a peer, or updates the kubeconfig in an
// existing one and keeps its other content.
func (c *Cluster) addMember(ctx context.Context, peer *Cluster, peerID, ownID string) (rollback, error) {
	token, err := peer.createPeerToken(ctx, ownID)
	if err != nil {
		return nil, peer.WrapError(err, cluster.KubernetesAdminAdvice)
	}
	kubeconfig, err := peerKubeconfig(peerID, peer.Observed.Access, token)
	if err != nil {
		return nil, err
	}
	secrets, name := c.Kubernetes.CoreV1().Secrets(c.Namespace), c.memberSecret(peerID)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: peerLabels(peerID)},
		Type:       clusterset.MemberSecretType,
		Data:       map[string][]byte{clusterset.MemberSecretClusterID: []byte(peerID), clusterset.MemberSecretKubeconfig: kubeconfig},
	}
	existing, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return createIfMissing(ctx, secrets, secret)
	case err != nil:
		return nil, err
	case memberIDOf(existing) != peerID || existing.Type != secret.Type:
		return nil, fmt.Errorf("name conflict: Secret %q in namespace %q is not the member Secret of %q; rename or delete it", name, c.Namespace, peerID)
	}
	return c.updateSecret(ctx, existing, func(secret *corev1.Secret) {
		secret.Data[clusterset.MemberSecretKubeconfig] = kubeconfig
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterset.PeerLabel, peerID)
	})
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
	return func(ctx context.Context) error {
		before := existing.DeepCopy()
		before.ResourceVersion = "" // overwrite changes since then
		_, err := secrets.Update(ctx, before, metav1.UpdateOptions{})
		return err
	}, err
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

// peerKubeconfig returns a kubeconfig that does not refer to files.
func peerKubeconfig(id string, access plan.Access, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[id] = &clientcmdapi.Cluster{Server: access.Server, TLSServerName: access.ServerName, CertificateAuthorityData: []byte(access.CA)}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[id] = &clientcmdapi.Context{Cluster: id, AuthInfo: "peer"}
	config.CurrentContext = id
	return clientcmd.Write(*config)
}
