// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// managedBy marks the objects that the plugin creates.
const managedBy = "kubectl-mcs"

// peerLabels returns the labels of all objects that a cluster has for a peer.
func peerLabels(peer string) map[string]string {
	return map[string]string{multicluster.ManagedByLabel: managedBy, clusterset.PeerLabel: peer}
}

// PeerAccess has the objects that give a peer read access: a service account, the
// permission to read, and the permission to renew its own token.
type PeerAccess struct {
	Account        *corev1.ServiceAccount
	ClusterBinding *rbacv1.ClusterRoleBinding
	Role           *rbacv1.Role
	Binding        *rbacv1.RoleBinding
}

// NewPeerAccess returns the objects that a cluster has for a peer. The namespace is that of
// its installation.
func NewPeerAccess(namespace, peer string) PeerAccess {
	metadata := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: peerLabels(peer)}
	}
	core := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: kind}
	}
	rbac := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	name, account := clusterset.PeerBindingName(peer), clusterset.PeerAccountName(peer)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
	return PeerAccess{
		Account: &corev1.ServiceAccount{TypeMeta: core("ServiceAccount"), ObjectMeta: metadata(namespace, account), AutomountServiceAccountToken: ptr.To(false)},
		ClusterBinding: &rbacv1.ClusterRoleBinding{
			TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: metadata("", name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterset.PeerRole},
		},
		Role: &rbacv1.Role{
			TypeMeta: rbac("Role"), ObjectMeta: metadata(namespace, name),
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}, Verbs: []string{"create"}}},
		},
		Binding: &rbacv1.RoleBinding{
			TypeMeta: rbac("RoleBinding"), ObjectMeta: metadata(namespace, name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}

// Objects returns the objects in the order in which they are created.
func (a PeerAccess) Objects() []runtime.Object {
	return []runtime.Object{a.Account, a.ClusterBinding, a.Role, a.Binding}
}

// NewRelayBinding returns the ClusterRoleBinding that makes a cluster the hub of a peer.
func NewRelayBinding(namespace, peer string) *rbacv1.ClusterRoleBinding {
	binding := NewPeerAccess(namespace, peer).ClusterBinding
	binding.Name, binding.RoleRef.Name = clusterset.RelayBindingName(peer), clusterset.RelayRole
	return binding
}

// Membership is what a cluster is told about another one to make it a member. What is empty
// is not told.
type Membership struct {
	// ID and UID identify the member.
	ID  string
	UID types.UID
	// Access and Token are how to read it, unless Kubeconfig is.
	Access     Access
	Token      string
	Kubeconfig []byte
	// JoinedAt, AllowedCIDRs, AllocationCIDRs and RelayFor are values of its member Secret.
	JoinedAt, AllowedCIDRs, AllocationCIDRs, RelayFor string
	// Secret is the name of its member Secret.
	Secret string
	// Kept is all other content of the Secret.
	Kept Kept
}

// KeptIn returns what joining does not change in a member Secret: all keys that it does not
// write, and the annotations of the ClusterSet. Others, such as that of `kubectl apply`, may have copies
// of the credential.
func KeptIn(secret *corev1.Secret) Kept {
	var kept Kept
	for key, value := range secret.Data {
		switch key {
		case clusterset.MemberSecretClusterID, clusterset.MemberSecretKubeconfig, clusterset.MemberSecretJoinedAt, clusterset.MemberSecretAllowedCIDRs,
			clusterset.MemberSecretAllocationCIDRs, clusterset.MemberSecretRelayFor:
			continue
		}
		if kept.Data == nil {
			kept.Data = map[string][]byte{}
		}
		kept.Data[key] = value
	}
	for key, value := range secret.Annotations {
		if key == clusterset.ClusterUIDAnnotation || !strings.HasPrefix(key, clusterset.GroupName+"/") {
			continue
		}
		if kept.Annotations == nil {
			kept.Annotations = map[string]string{}
		}
		kept.Annotations[key] = value
	}
	return kept
}

// NewMemberSecret returns the Secret that makes a cluster a member of another one. The
// namespace is that of the installation in the other one.
func NewMemberSecret(namespace string, member Membership) (*corev1.Secret, error) {
	kubeconfig := member.Kubeconfig
	if kubeconfig == nil {
		var err error
		if kubeconfig, err = peerKubeconfig(member); err != nil {
			return nil, fmt.Errorf("encode kubeconfig of %s: %w", member.ID, err)
		}
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: member.Secret, Labels: peerLabels(member.ID)},
		Type:       clusterset.MemberSecretType,
		Data:       map[string][]byte{clusterset.MemberSecretClusterID: []byte(member.ID), clusterset.MemberSecretKubeconfig: kubeconfig},
	}
	secret.Annotations = maps.Clone(member.Kept.Annotations)
	if member.UID != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, clusterset.ClusterUIDAnnotation, string(member.UID))
	}
	maps.Copy(secret.Data, member.Kept.Data)
	for key, value := range map[string]string{
		clusterset.MemberSecretJoinedAt: member.JoinedAt, clusterset.MemberSecretAllowedCIDRs: member.AllowedCIDRs, clusterset.MemberSecretAllocationCIDRs: member.AllocationCIDRs,
		clusterset.MemberSecretRelayFor: member.RelayFor,
	} {
		if value != "" {
			secret.Data[key] = []byte(value)
		}
	}
	return secret, nil
}

// peerKubeconfig returns a kubeconfig that does not refer to files.
func peerKubeconfig(member Membership) ([]byte, error) {
	id, access := member.ID, member.Access
	config := clientcmdapi.NewConfig()
	config.Clusters[id] = &clientcmdapi.Cluster{Server: access.Server, TLSServerName: access.ServerName, CertificateAuthorityData: []byte(access.CA)}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: member.Token}
	config.Contexts[id] = &clientcmdapi.Context{Cluster: id, AuthInfo: "peer"}
	config.CurrentContext = id
	return clientcmd.Write(*config)
}

// AccessIn returns how the kubeconfig in a member Secret reaches the member. It is empty if
// the kubeconfig is invalid.
func AccessIn(secret *corev1.Secret) Access {
	config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return Access{}
	}
	target := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	if target == nil {
		return Access{}
	}
	return Access{Server: target.Server, ServerName: target.TLSServerName, CA: string(target.CertificateAuthorityData)}
}

// TokenIn returns the token in a member Secret, empty if it has another credential or is not valid.
func TokenIn(member *corev1.Secret) string { return secret.Parse(member).Token }

// NewClaim returns a ClusterClaim.
func NewClaim(name, value string) *multiclusterv1.ClusterClaim {
	return &multiclusterv1.ClusterClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: multiclusterv1.SchemeGroupVersion.String(), Kind: "ClusterClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       multiclusterv1.ClusterClaimSpec{Value: value},
	}
}
