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
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// firstToken is how long the token lives that passes through the user's hands.
// mcs-controller exchanges it at once for one that nobody has seen.
const firstToken = 30 * time.Minute

// undo takes back what was done; nil if there is nothing to take back.
type undo func(context.Context) error

func (u undo) list() []undo {
	if u == nil {
		return nil
	}
	return []undo{u}
}

// admission is what one cluster needs to read from another: an account, the
// right to read, and the right to renew its own token.
type admission struct {
	account        *corev1.ServiceAccount
	clusterBinding *rbacv1.ClusterRoleBinding
	role           *rbacv1.Role
	binding        *rbacv1.RoleBinding
}

func newAdmission(namespace, peer string) admission {
	metadata := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{multicluster.ManagedByLabel: managedBy, peerLabel: peer}}
	}
	name, account := clusterset.PeerBindingName(peer), clusterset.PeerAccountName(peer)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
	return admission{
		account: &corev1.ServiceAccount{ObjectMeta: metadata(namespace, account), AutomountServiceAccountToken: ptr.To(false)},
		clusterBinding: &rbacv1.ClusterRoleBinding{
			ObjectMeta: metadata("", name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterset.PeerRole},
		},
		role: &rbacv1.Role{
			ObjectMeta: metadata(namespace, name),
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}, Verbs: []string{"create"}}},
		},
		binding: &rbacv1.RoleBinding{
			ObjectMeta: metadata(namespace, name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}

// creator is the part of a typed client that this needs.
type creator[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// create creates an object unless there is one, and returns how to undo that,
// also when it may have been created although there is an error.
func create[T metav1.Object](ctx context.Context, client creator[T], object T) (undo, error) {
	back := func(ctx context.Context) error { return remove(ctx, client, object.GetName()) }
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	switch {
	case err == nil || uncertain(err):
		return back, err
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	}
	return nil, err
}

// uncertain says whether something may have been written although there is an
// error: nobody answered, or not the one who writes.
func uncertain(err error) bool {
	var status apierrors.APIStatus
	return err != nil && (!errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

// remove deletes an object, if there is one.
func remove[T any](ctx context.Context, client creator[T], name string) error {
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// admit lets a peer read from this cluster.
func (s *Cluster) admit(ctx context.Context, peer string) ([]undo, error) {
	wanted, core, rbac := newAdmission(s.Namespace, peer), s.Kubernetes.CoreV1(), s.Kubernetes.RbacV1()
	var undos []undo
	for _, part := range []struct {
		object metav1.Object
		create func() (undo, error)
	}{
		{wanted.account, func() (undo, error) { return create(ctx, core.ServiceAccounts(s.Namespace), wanted.account) }},
		{wanted.clusterBinding, func() (undo, error) { return create(ctx, rbac.ClusterRoleBindings(), wanted.clusterBinding) }},
		{wanted.role, func() (undo, error) { return create(ctx, rbac.Roles(s.Namespace), wanted.role) }},
		{wanted.binding, func() (undo, error) { return create(ctx, rbac.RoleBindings(s.Namespace), wanted.binding) }},
	} {
		if s.parts.Has(partOf(part.object)) {
			continue
		}
		back, err := part.create()
		undos = append(undos, back.list()...)
		if err != nil {
			return undos, err
		}
	}
	return undos, nil
}

// expel takes from a peer what admit gave it. Its token ends with its account.
func (s *Cluster) expel(ctx context.Context, peer string) error {
	wanted, core, rbac := newAdmission(s.Namespace, peer), s.Kubernetes.CoreV1(), s.Kubernetes.RbacV1()
	for _, remove := range []func() error{
		func() error { return remove(ctx, core.ServiceAccounts(s.Namespace), wanted.account.Name) },
		func() error { return remove(ctx, rbac.ClusterRoleBindings(), wanted.clusterBinding.Name) },
		func() error { return remove(ctx, rbac.RoleBindings(s.Namespace), wanted.binding.Name) },
		func() error { return remove(ctx, rbac.Roles(s.Namespace), wanted.role.Name) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	return nil
}

// tokenFor is a token by which a peer that was admitted gets in.
func (s *Cluster) tokenFor(ctx context.Context, peer string) (string, error) {
	answer, err := s.Kubernetes.CoreV1().ServiceAccounts(s.Namespace).CreateToken(ctx, clusterset.PeerAccountName(peer), &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(firstToken.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// addMember makes a peer a member in this cluster, or replaces how it is reached.
// What else is in its Secret stays.
func (s *Cluster) addMember(ctx context.Context, peer *Cluster, peerID, ownID string) (undo, error) {
	token, err := peer.tokenFor(ctx, ownID)
	if err != nil {
		return nil, peer.WrapError(err, cluster.KubernetesAdminAdvice)
	}
	kubeconfig, err := kubeconfigFor(peerID, peer.Found.Access, token)
	if err != nil {
		return nil, err
	}
	secrets, name := s.Kubernetes.CoreV1().Secrets(s.Namespace), clusterset.MemberSecretName(peerID)
	if had := s.secrets[peerID]; len(had) > 0 {
		name = had[0]
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{multicluster.ManagedByLabel: managedBy}},
		Type:       clusterset.MemberSecretType,
		Data:       map[string][]byte{clusterset.MemberSecretClusterID: []byte(peerID), clusterset.MemberSecretKubeconfig: kubeconfig},
	}
	existing, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return create(ctx, secrets, secret)
	case err != nil:
		return nil, err
	case idIn(existing) != peerID || existing.Type != secret.Type:
		return nil, fmt.Errorf("the Secret %q in the namespace %q is there for something else: give it another name", name, s.Namespace)
	}
	before := existing.DeepCopy()
	existing.Data[clusterset.MemberSecretKubeconfig] = kubeconfig
	if _, err = secrets.Update(ctx, existing, metav1.UpdateOptions{}); err != nil && !uncertain(err) {
		return nil, err
	}
	return func(ctx context.Context) error {
		before.ResourceVersion = "" // whatever has become of it meanwhile
		_, err := secrets.Update(ctx, before, metav1.UpdateOptions{})
		return err
	}, err
}

// removeMember ends that a cluster is a member here, by whichever Secrets.
func (s *Cluster) removeMember(ctx context.Context, id string) error {
	for _, name := range s.secrets[id] {
		if err := remove(ctx, s.Kubernetes.CoreV1().Secrets(s.Namespace), name); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfigFor has everything inline.
func kubeconfigFor(id string, access plan.Access, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[id] = &clientcmdapi.Cluster{Server: access.Server, TLSServerName: access.ServerName, CertificateAuthorityData: []byte(access.CA)}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[id] = &clientcmdapi.Context{Cluster: id, AuthInfo: "peer"}
	config.CurrentContext = id
	return clientcmd.Write(*config)
}
