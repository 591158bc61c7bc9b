// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

const (
	// peerLabel on the objects that let a cluster read from another has its id.
	peerLabel = clusterset.GroupName + "/peer"
	// managedBy is how objects made here are marked.
	managedBy = "kubectl-mcs"
	// observing is how long it may take to find out how a cluster is.
	observing = 30 * time.Second
)

// site is a cluster that is to join or leave.
type site struct {
	*cluster
	// Namespace is that of its installation.
	Namespace string
	// Found is how it was found.
	Found plan.Cluster
	// parts are what it had already of what lets peers read from it.
	parts sets.Set[string]
}

// partOf tells the parts of what lets peers read apart.
func partOf(object metav1.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// observe looks at clusters, all at once. servers are where other clusters reach
// them, by their contexts, unless that is where the user does.
func (f *factory) observe(ctx context.Context, contexts []string, servers map[string]string) ([]*site, error) {
	ctx, cancel := context.WithTimeout(ctx, observing)
	defer cancel()
	sites, errs := make([]*site, len(contexts)), make([]error, len(contexts))
	var group errgroup.Group
	for i, name := range contexts {
		group.Go(func() error {
			c, err := f.cluster(name)
			if err == nil {
				sites[i], err = observe(ctx, c, servers[name])
			}
			errs[i] = err
			return nil
		})
	}
	_ = group.Wait()
	return sites, errors.Join(errs...)
}

func observe(ctx context.Context, c *cluster, server string) (*site, error) {
	s := &site{cluster: c, parts: sets.New[string](), Found: plan.Cluster{Context: c.Context, Members: map[string]plan.Member{}, Known: map[string]types.UID{}, Admitted: map[string]bool{}}}
	for _, look := range []func(context.Context) error{s.findInstallation, s.findIdentity, s.findNetworks, s.findMembers, s.findAdmitted} {
		if err := look(ctx); err != nil {
			return nil, c.failed(err)
		}
	}
	s.Found.Unverified = c.Config.Insecure
	var err error
	if s.Found.Access, err = accessOf(c.Config, server); err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Context, err)
	}
	return s, nil
}

// accessOf is how other clusters reach the one that a user reaches like this.
func accessOf(config *rest.Config, server string) (plan.Access, error) {
	access := plan.Access{Server: config.Host, ServerName: config.ServerName, CA: string(config.CAData)}
	if server != "" {
		access.Server = server
	}
	if access.CA == "" && config.CAFile != "" {
		authority, err := os.ReadFile(config.CAFile)
		if err != nil {
			return access, fmt.Errorf("read its certificate authority: %w", err)
		}
		access.CA = string(authority)
	}
	return access, nil
}

// findInstallation finds out in which namespace mcs-apiserver is installed.
func (s *site) findInstallation(ctx context.Context) error {
	client, err := aggregator.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	name := clustersetv1alpha1.SchemeGroupVersion.Version + "." + clusterset.GroupName
	registered, err := client.ApiregistrationV1().APIServices().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("mcs-apiserver is not installed there: install it with `kubectl --context %s apply -k artifacts/default`", s.Context)
	case err != nil:
		return err
	case registered.Spec.Service == nil:
		return fmt.Errorf("the APIService %s leads to no Service: it is not that of mcs-apiserver", name)
	}
	s.Namespace = registered.Spec.Service.Namespace
	return nil
}

// findIdentity finds out who the cluster is.
func (s *site) findIdentity(ctx context.Context) error {
	system, err := s.Kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.Found.UID = system.UID
	claims, err := s.MCS.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		switch claim := &claims.Items[i]; claim.Name {
		case multicluster.ClusterIDClaim:
			s.Found.ID = claim.Spec.Value
		case multicluster.ClusterSetClaim:
			s.Found.ClusterSet = claim.Spec.Value
		}
	}
	return nil
}

// findNetworks finds out which networks the cluster's Pods are in. Who may join
// clusters need not be allowed to see nodes.
func (s *site) findNetworks(ctx context.Context) error {
	nodes, err := s.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		s.Found.PodCIDRs = append(s.Found.PodCIDRs, nodes.Items[i].Spec.PodCIDRs...)
	}
	return nil
}

// findMembers finds out whom the cluster knows, and how it reaches them.
func (s *site) findMembers(ctx context.Context) error {
	entries, err := s.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	refuse := sets.New[string]()
	for i := range entries.Items {
		entry := &entries.Items[i]
		if condition := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberReachable); condition != nil &&
			(condition.Reason == string(metav1.StatusReasonUnauthorized) || condition.Reason == string(metav1.StatusReasonForbidden)) {
			refuse.Insert(entry.Status.ClusterID)
		}
		s.Found.Taken = append(s.Found.Taken, entry.Status.ClusterSetIPCIDRs...)
		switch entry.Status.State {
		case clustersetv1alpha1.MemberLocal:
			s.Found.Ranges, s.Found.CIDRs = entry.Status.ClusterSetIPRanges, entry.Status.ClusterSetIPCIDRs
		case clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberLost:
			s.Found.Known[entry.Status.ClusterID] = entry.Status.ClusterUID
		}
	}
	secrets, err := s.Kubernetes.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(clusterset.MemberSecretType)).String(),
	})
	if err != nil {
		return err
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if id := string(secret.Data[clusterset.MemberSecretClusterID]); id != "" && secret.Name == clusterset.MemberSecretName(id) {
			s.Found.Members[id] = plan.Member{Access: accessIn(secret), Refuses: refuse.Has(id)}
		}
	}
	return nil
}

// accessIn is what a Secret says of how to reach its cluster; nothing, if it
// cannot be read.
func accessIn(secret *corev1.Secret) plan.Access {
	config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return plan.Access{}
	}
	target := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	if target == nil {
		return plan.Access{}
	}
	return plan.Access{Server: target.Server, ServerName: target.TLSServerName, CA: string(target.CertificateAuthorityData)}
}

// findAdmitted finds out who may read from the cluster: who has an account, and
// all that gives it rights.
func (s *site) findAdmitted(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: peerLabel}
	accounts, err := s.Kubernetes.CoreV1().ServiceAccounts(s.Namespace).List(ctx, options)
	if err != nil {
		return err
	}
	clusterBindings, err := s.Kubernetes.RbacV1().ClusterRoleBindings().List(ctx, options)
	if err != nil {
		return err
	}
	roles, err := s.Kubernetes.RbacV1().Roles(s.Namespace).List(ctx, options)
	if err != nil {
		return err
	}
	bindings, err := s.Kubernetes.RbacV1().RoleBindings(s.Namespace).List(ctx, options)
	if err != nil {
		return err
	}
	found := map[string]int{}
	note := func(part metav1.Object) {
		found[part.GetLabels()[peerLabel]]++
		s.parts.Insert(partOf(part))
	}
	for i := range accounts.Items {
		note(&accounts.Items[i])
	}
	for i := range clusterBindings.Items {
		note(&clusterBindings.Items[i])
	}
	for i := range roles.Items {
		note(&roles.Items[i])
	}
	for i := range bindings.Items {
		note(&bindings.Items[i])
	}
	for id, count := range found {
		s.Found.Admitted[id] = count == 4
	}
	return nil
}
