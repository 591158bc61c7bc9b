// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership makes clusters members of each other, as
// docs/clustersets.md tells people to.
package membership

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

const (
	// Namespace is where the Secrets and the accounts of peers are.
	Namespace = "mcs-system"
	// SecretType is the type of the Secret that makes a member.
	SecretType corev1.SecretType = "clusterset.mcs-apiserver.io/member"
	// ClusterIDKey is the key of that Secret with the member's id.
	ClusterIDKey = "cluster-id"
	// KubeconfigKey is the key with how to reach the member.
	KubeconfigKey = "kubeconfig"
	// RelayForKey is the key with the ids of the clusters that it may speak for.
	RelayForKey = "relay-for"

	peerRole = "mcs-apiserver:peer"
)

// SecretName is the name of the Secret that makes a cluster a member.
func SecretName(id string) string { return "member-" + id }

// Account is the name of the service account that a cluster uses in a member.
func Account(id string) string { return "peer-" + id }

// Claim makes a cluster say who it is and which ClusterSet it belongs to.
func Claim(ctx context.Context, client versioned.Interface, id, clusterSet string) error {
	for name, value := range map[string]string{multicluster.ClusterIDClaim: id, multicluster.ClusterSetClaim: clusterSet} {
		claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1.ClusterClaimSpec{Value: value}}
		if _, err := CreateOrUpdate(ctx, client.MulticlusterV1().ClusterClaims(), claim); err != nil {
			return err
		}
	}
	return nil
}

// Admit lets a peer see what peers may see, and returns a token for it.
func Admit(ctx context.Context, client kubernetes.Interface, peer string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: Account(peer), Namespace: Namespace}}
	accounts := client.CoreV1().ServiceAccounts(Namespace)
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: peerRole + ":" + peer},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: peerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	token, err := accounts.CreateToken(ctx, account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// Target is a kube-apiserver as another cluster reaches it.
type Target struct {
	ID     string
	Server string
	// ServerName is what the server's certificate says, if not its address.
	ServerName string
	CA         []byte
}

// Kubeconfig leads to the target and has everything inline.
func (t Target) Kubeconfig(token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[t.ID] = &clientcmdapi.Cluster{Server: t.Server, TLSServerName: t.ServerName, CertificateAuthorityData: t.CA}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[t.ID] = &clientcmdapi.Context{Cluster: t.ID, AuthInfo: "peer"}
	config.CurrentContext = t.ID
	return clientcmd.Write(*config)
}

// Put makes a member of the cluster that the data leads to, in place of what
// its Secret said before.
func Put(ctx context.Context, client kubernetes.Interface, id string, data map[string][]byte) (*corev1.Secret, error) {
	return CreateOrUpdate(ctx, client.CoreV1().Secrets(Namespace), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName(id), Namespace: Namespace}, Type: SecretType, Data: data,
	})
}

// Client is the part of a typed client that CreateOrUpdate needs.
type Client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// CreateOrUpdate makes an object be as it is here, and returns what has become of it.
func CreateOrUpdate[T metav1.Object](ctx context.Context, client Client[T], object T) (T, error) {
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
