// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

const (
	// peerLabel on the objects that let a cluster read from another has its id.
	peerLabel = clusterset.GroupName + "/peer"
	// managedBy is how objects made here are marked.
	managedBy = "kubectl-mcs"
	// observing is how long it may take to find out how clusters are, unless the
	// user says otherwise.
	observing = 30 * time.Second
)

// Cluster is a cluster that is to join or leave.
type Cluster struct {
	*cluster.Cluster
	// Namespace is that of its installation.
	Namespace string
	// Found is how it was found.
	Found plan.Cluster
	// parts are what it had already of what lets peers read from it.
	parts sets.Set[string]
	// secrets are the names of the Secrets that make clusters members, by their ids.
	secrets map[string][]string
}

// partOf tells the parts of what lets peers read apart.
func partOf(object metav1.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// Observe looks at clusters, all at once. servers are where other clusters reach
// them, by their contexts, unless that is where the user does.
func Observe(ctx context.Context, f *cluster.Factory, contexts []string, servers map[string]string) ([]*Cluster, error) {
	ctx, cancel, err := f.WithTimeout(ctx, observing)
	defer cancel()
	if err != nil {
		return nil, err
	}
	sites, errs := make([]*Cluster, len(contexts)), make([]error, len(contexts))
	var group errgroup.Group
	for i, name := range contexts {
		group.Go(func() error {
			c, err := f.ForContext(name)
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

func observe(ctx context.Context, c *cluster.Cluster, server string) (*Cluster, error) {
	s := &Cluster{Cluster: c, parts: sets.New[string](), Found: unseen(c.Context)}
	for _, look := range []struct {
		find   func(context.Context) error
		advice cluster.Advice
	}{
		{s.findInstallation, cluster.KubernetesAdminAdvice},
		{s.findUID, cluster.KubernetesAdminAdvice},
		{s.findClaims, cluster.MCSAdminAdvice},
		{s.findNetworks, cluster.KubernetesAdminAdvice},
		{s.findSecrets, cluster.KubernetesAdminAdvice},
		{s.findMembers, cluster.MCSAdminAdvice},
		{s.findAdmitted, cluster.KubernetesAdminAdvice},
	} {
		if err := look.find(ctx); err != nil {
			return nil, c.WrapError(err, look.advice)
		}
	}
	s.Found.Unverified = c.Config.Insecure
	var err error
	if s.Found.Access, err = accessOf(c.Config, server); err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Context, err)
	}
	return s, nil
}

// unseen is a cluster of which nothing has been found yet.
func unseen(context string) plan.Cluster {
	return plan.Cluster{
		Context: context, Members: map[string]plan.Member{}, Known: map[string]types.UID{}, Admitted: map[string]bool{}, Taken: map[types.UID][]string{},
	}
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
func (s *Cluster) findInstallation(ctx context.Context) error {
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

// findUID finds out which cluster it is, whatever it is called.
func (s *Cluster) findUID(ctx context.Context) error {
	system, err := s.Kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.Found.UID = system.UID
	return nil
}

// findClaims finds out what the cluster claims to be and to have.
func (s *Cluster) findClaims(ctx context.Context) error {
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
		case multicluster.ClusterSetIPCIDRClaim:
			s.Found.Claimed = clustersetip.SplitCIDRs(claim.Spec.Value)
		}
	}
	return nil
}

// findNetworks finds out which networks the cluster's Pods are in. Who may join
// clusters need not be allowed to see nodes.
func (s *Cluster) findNetworks(ctx context.Context) error {
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

// findSecrets finds out which clusters are members by Secrets, and how they are
// reached. What a Secret is called is up to whoever made it.
func (s *Cluster) findSecrets(ctx context.Context) error {
	secrets, err := s.Kubernetes.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", string(clusterset.MemberSecretType)).String(),
	})
	if err != nil {
		return err
	}
	s.secrets = map[string][]string{}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		id := idIn(secret)
		if id == "" {
			continue
		}
		// Of several, the one that join would have made is the one that it updates.
		if secret.Name == clusterset.MemberSecretName(id) || len(s.secrets[id]) == 0 {
			s.Found.Members[id] = plan.Member{Access: accessIn(secret)}
			s.secrets[id] = append([]string{secret.Name}, s.secrets[id]...)
		} else {
			s.secrets[id] = append(s.secrets[id], secret.Name)
		}
	}
	return nil
}

// idIn is the id of the cluster that a Secret makes a member.
func idIn(secret *corev1.Secret) string {
	return strings.TrimSpace(string(secret.Data[clusterset.MemberSecretClusterID]))
}

// findMembers finds out whom the cluster knows, and what they have.
func (s *Cluster) findMembers(ctx context.Context) error {
	entries, err := s.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	s.Found.Unlisted = true
	for i := range entries.Items {
		status := &entries.Items[i].Status
		if member, ok := s.Found.Members[status.ClusterID]; ok && refuses(status) {
			member.Refuses = true
			s.Found.Members[status.ClusterID] = member
		}
		s.Found.Taken[status.ClusterUID] = append(s.Found.Taken[status.ClusterUID], status.ClusterSetIPCIDRs...)
		switch status.State {
		case clustersetv1alpha1.MemberLocal:
			s.Found.Unlisted = false
			s.Found.Ranges, s.Found.CIDRs = status.ClusterSetIPRanges, status.ClusterSetIPCIDRs
		case clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberLost:
			s.Found.Known[status.ClusterID] = status.ClusterUID
		}
	}
	return nil
}

// refuses says whether a member does not accept the credential.
func refuses(status *clustersetv1alpha1.MemberStatus) bool {
	condition := meta.FindStatusCondition(status.Conditions, clusterset.MemberReachable)
	return condition != nil && (condition.Reason == string(metav1.StatusReasonUnauthorized) || condition.Reason == string(metav1.StatusReasonForbidden))
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
// all that gives it rights. They go by their names, as admit and expel do: who
// makes them by other means need not label them.
func (s *Cluster) findAdmitted(ctx context.Context) error {
	accounts, err := s.Kubernetes.CoreV1().ServiceAccounts(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	clusterBindings, err := s.Kubernetes.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	roles, err := s.Kubernetes.RbacV1().Roles(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	bindings, err := s.Kubernetes.RbacV1().RoleBindings(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	found := map[string]int{}
	note := func(part metav1.Object, prefix string) {
		if id, ok := strings.CutPrefix(part.GetName(), prefix); ok && id != "" {
			found[id]++
			s.parts.Insert(partOf(part))
		}
	}
	account, rights := clusterset.PeerAccountName(""), clusterset.PeerBindingName("")
	for i := range accounts.Items {
		note(&accounts.Items[i], account)
	}
	for i := range clusterBindings.Items {
		note(&clusterBindings.Items[i], rights)
	}
	for i := range roles.Items {
		note(&roles.Items[i], rights)
	}
	for i := range bindings.Items {
		note(&bindings.Items[i], rights)
	}
	for id, count := range found {
		s.Found.Admitted[id] = count == 4
	}
	return nil
}
