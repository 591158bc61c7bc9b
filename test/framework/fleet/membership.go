// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/tcplink"
)

// firstLinkPort is the first port of a cluster's links, below the range of
// ephemeral ports.
const firstLinkPort = 7000

// JoinAll sets the claims of all clusters and makes each a member of every
// other.
func (f *Fleet) JoinAll(ctx context.Context, clusterSet string) error {
	for _, c := range f.Clusters {
		if err := c.Claim(ctx, c.ID, clusterSet); err != nil {
			return err
		}
	}
	for _, c := range f.Clusters {
		for _, peer := range f.Clusters {
			if peer == c {
				continue
			}
			if _, err := c.Join(ctx, peer, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Claim sets the cluster ID and ClusterSet claims, as an administrator would: if
// anything changes, the cluster leaves its current ClusterSet first.
func (c *Cluster) Claim(ctx context.Context, id, clusterSet string) error {
	// mcs-controller may create the default ID claim at the same time.
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		return c.claim(ctx, id, clusterSet)
	})
	if err != nil {
		return fmt.Errorf("set claims of cluster %s: %w", c.ID, err)
	}
	return nil
}

func (c *Cluster) claim(ctx context.Context, id, clusterSet string) error {
	held, err := c.Clientset.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	values := map[string]string{}
	for _, claim := range held.Items {
		values[claim.Name] = claim.Spec.Value
	}
	if values[multicluster.ClusterIDClaim] == id && values[multicluster.ClusterSetClaim] == clusterSet {
		return nil
	}
	if values[multicluster.ClusterSetClaim] != "" {
		if err := c.Unclaim(ctx); err != nil {
			return err
		}
	}
	if err := c.SetClaim(ctx, multicluster.ClusterIDClaim, id, nil); err != nil {
		return err
	}
	return c.SetClaim(ctx, multicluster.ClusterSetClaim, clusterSet, nil)
}

// SetClaim creates or updates a ClusterClaim.
func (c *Cluster) SetClaim(ctx context.Context, name, value string, annotations map[string]string) error {
	claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: multiclusterv1.ClusterClaimSpec{Value: value}}
	_, err := createOrUpdate(ctx, c.Clientset.MulticlusterV1().ClusterClaims(), claim)
	return err
}

// Unclaim makes the cluster leave its ClusterSet.
func (c *Cluster) Unclaim(ctx context.Context) error {
	return c.Clientset.MulticlusterV1().ClusterClaims().Delete(ctx, multicluster.ClusterSetClaim, metav1.DeleteOptions{})
}

// Join makes a peer a member in this cluster and returns the member Secret: the
// peer grants access to a service account for this cluster, and this cluster
// stores its token. Overrides replace keys of the Secret; a nil value removes
// the key. Joining again creates a new token and updates the Secret.
func (c *Cluster) Join(ctx context.Context, peer *Cluster, overrides map[string][]byte) (*corev1.Secret, error) {
	token, err := peer.admit(ctx, c.ID)
	if err != nil {
		return nil, fmt.Errorf("grant cluster %s access to cluster %s: %w", c.ID, peer.ID, err)
	}
	kubeconfig, err := c.KubeconfigFor(peer, token)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{clusterset.MemberSecretClusterID: []byte(peer.ID), clusterset.MemberSecretKubeconfig: kubeconfig}
	for key, value := range overrides {
		if value == nil {
			delete(data, key)
		} else {
			data[key] = value
		}
	}
	secret, err := createOrUpdate(ctx, c.Kubernetes.CoreV1().Secrets(installation.Namespace), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.MemberSecretName(peer.ID), Namespace: installation.Namespace},
		Type:       clusterset.MemberSecretType, Data: data,
	})
	if err != nil {
		return nil, fmt.Errorf("create member Secret of cluster %s in cluster %s: %w", peer.ID, c.ID, err)
	}
	return secret, nil
}

// admit grants a peer the access of a peer and returns a token for it.
func (c *Cluster) admit(ctx context.Context, peer string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: clusterset.PeerAccountName(peer), Namespace: installation.Namespace}}
	accounts := c.Kubernetes.CoreV1().ServiceAccounts(installation.Namespace)
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.PeerBindingName(peer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterset.PeerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	if _, err := c.Kubernetes.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	token, err := accounts.CreateToken(ctx, account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// RelayTo makes this cluster the hub of a peer, to which it already grants access.
func (c *Cluster) RelayTo(ctx context.Context, peer string) error {
	_, err := c.Kubernetes.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.RelayBindingName(peer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterset.RelayRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: clusterset.PeerAccountName(peer), Namespace: installation.Namespace}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Leave ends the membership of a peer in this cluster by deleting its member Secret.
func (c *Cluster) Leave(ctx context.Context, peerID string) error {
	return c.Kubernetes.CoreV1().Secrets(installation.Namespace).Delete(ctx, clusterset.MemberSecretName(peerID), metav1.DeleteOptions{})
}

// KubeconfigFor returns a self-contained kubeconfig with which this cluster
// reaches a peer through its link.
func (c *Cluster) KubeconfigFor(peer *Cluster, token string) ([]byte, error) {
	way, err := c.linkTo(peer)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[peer.ID] = &clientcmdapi.Cluster{
		Server: "https://" + way.Address(), CertificateAuthorityData: peer.Plane.CertificateAuthority(),
		TLSServerName: controlplane.ServerName, // the link's address is not in the certificate
	}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[peer.ID] = &clientcmdapi.Context{Cluster: peer.ID, AuthInfo: "peer"}
	config.CurrentContext = peer.ID
	return clientcmd.Write(*config)
}

// client is the part of a typed client that createOrUpdate needs.
type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// createOrUpdate creates or replaces an object and returns the result.
func createOrUpdate[T metav1.Object](ctx context.Context, client client[T], object T) (T, error) {
	existing, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return client.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		return existing, err
	}
	object.SetResourceVersion(existing.GetResourceVersion())
	return client.Update(ctx, object, metav1.UpdateOptions{})
}

// linkTo returns the link to a peer and creates it if needed. The link listens
// at this cluster's address.
func (c *Cluster) linkTo(peer *Cluster) (*tcplink.Link, error) {
	if existing := c.Links[peer.ID]; existing != nil {
		return existing, nil
	}
	created, err := tcplink.New(net.JoinHostPort(c.Plane.Host, strconv.Itoa(firstLinkPort+peer.number)), peer.Plane.Endpoint())
	if err != nil {
		return nil, err
	}
	c.Links[peer.ID] = created
	return created, nil
}
