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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// observeTimeout limits how long the observation of all clusters may take, unless
// the user sets a timeout.
const observeTimeout = 30 * time.Second

// Cluster is a cluster whose membership is observed and changed.
type Cluster struct {
	*cluster.Cluster
	// Namespace is the namespace of the installation.
	Namespace string
	// Observed is the state of the cluster.
	Observed plan.Cluster
	// accessObjects are the keys of all objects that give peers read access.
	accessObjects sets.Set[string]
	// memberSecrets are the names of the member Secrets, by cluster ID.
	memberSecrets map[string][]string
}

// objectKey identifies an object by type and name.
func objectKey(object metav1.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// Observe observes the clusters of several contexts in parallel. servers has the
// addresses at which other clusters reach them, by context; the default is the
// server of the context.
func Observe(ctx context.Context, f *cluster.Factory, contexts []string, servers map[string]string) ([]*Cluster, error) {
	clusters, errs, err := ObserveEach(ctx, f, contexts, servers)
	return clusters, errors.Join(append(errs, err)...)
}

// ObserveEach is like Observe, but returns one error per context. The cluster of
// a context with an error is nil.
func ObserveEach(ctx context.Context, f *cluster.Factory, contexts []string, servers map[string]string) ([]*Cluster, []error, error) {
	ctx, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return nil, nil, err
	}
	clusters, errs := make([]*Cluster, len(contexts)), make([]error, len(contexts))
	var group errgroup.Group
	for i, name := range contexts {
		group.Go(func() error {
			c, err := f.ForContext(name)
			if err == nil {
				clusters[i], err = observe(ctx, c, servers[name])
			}
			errs[i] = err
			return nil
		})
	}
	_ = group.Wait()
	return clusters, errs, nil
}

func observe(ctx context.Context, c *cluster.Cluster, server string) (*Cluster, error) {
	observed := &Cluster{Cluster: c, Observed: newObserved(c.Context)}
	for _, part := range []struct {
		observe func(context.Context) error
		advice  cluster.Advice
	}{
		{observed.observeInstallation, cluster.KubernetesAdminAdvice},
		{observed.observeUID, cluster.KubernetesAdminAdvice},
		{observed.observeClaims, cluster.MCSAdminAdvice},
		{observed.observePodCIDRs, cluster.KubernetesAdminAdvice},
		{observed.observeServiceCIDRs, cluster.KubernetesAdminAdvice},
		{observed.observeSecrets, cluster.KubernetesAdminAdvice},
		{observed.observeMembers, cluster.MCSAdminAdvice},
		{observed.observeAccess, cluster.KubernetesAdminAdvice},
	} {
		if err := part.observe(ctx); err != nil {
			return nil, c.WrapError(err, part.advice)
		}
	}
	observed.Observed.Unverified = c.Config.Insecure
	var err error
	if observed.Observed.Access, err = AccessTo(c.Config, server); err != nil {
		return nil, fmt.Errorf("context %q: %w", c.Context, err)
	}
	return observed, nil
}

// newObserved returns the state of a cluster before anything is observed.
func newObserved(context string) plan.Cluster {
	return plan.Cluster{
		Context: context, Members: map[string]plan.Member{}, Known: map[string]types.UID{}, Relayed: map[string]string{}, Connected: map[string]bool{},
		Granted: map[string]bool{}, Accounts: map[string]types.UID{}, Relaying: map[string]bool{}, Taken: map[types.UID][]string{},
	}
}

// AccessTo returns how other clusters reach a cluster that the user reaches with
// this configuration. The server is the one of the configuration by default.
func AccessTo(config *rest.Config, server string) (plan.Access, error) {
	access := plan.Access{Server: config.Host, ServerName: config.ServerName, CA: string(config.CAData)}
	if server != "" {
		access.Server = server
	}
	if access.CA == "" && config.CAFile != "" {
		authority, err := os.ReadFile(config.CAFile)
		if err != nil {
			return access, fmt.Errorf("read certificate authority: %w", err)
		}
		access.CA = string(authority)
	}
	return access, nil
}

// observeInstallation determines the namespace in which mcs-apiserver is installed.
func (c *Cluster) observeInstallation(ctx context.Context) error {
	client, err := aggregator.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	name := clustersetv1alpha1.SchemeGroupVersion.Version + "." + clusterset.GroupName
	registered, err := client.ApiregistrationV1().APIServices().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("mcs-apiserver is not installed or is detached: install it, or attach it with `kubectl mcs attach %s`", c.Context)
	case err != nil:
		return err
	case registered.Spec.Service == nil:
		return fmt.Errorf("APIService %q does not refer to a Service, so it is not served by mcs-apiserver", name)
	}
	c.Namespace = registered.Spec.Service.Namespace
	return nil
}

// observeUID determines the UID of the cluster, which is independent of its ID.
func (c *Cluster) observeUID(ctx context.Context) error {
	system, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	c.Observed.UID = system.UID
	return nil
}

// observeClaims reads the well-known ClusterClaims.
func (c *Cluster) observeClaims(ctx context.Context) error {
	claims, err := c.MCS.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		switch claim := &claims.Items[i]; claim.Name {
		case multicluster.ClusterIDClaim:
			c.Observed.ID = claim.Spec.Value
			// An ID of --cluster-id has the annotation, too, but was chosen.
			c.Observed.GeneratedID = claim.Spec.Value == string(c.Observed.UID) && claim.Annotations[multicluster.GeneratedIDAnnotation] == claim.Spec.Value
		case multicluster.ClusterSetClaim:
			c.Observed.ClusterSet = claim.Spec.Value
			if !claim.CreationTimestamp.IsZero() {
				c.Observed.JoinedAt = claim.CreationTimestamp.UTC().Format(time.RFC3339)
			}
		case multicluster.ClusterSetIPCIDRClaim:
			c.Observed.Claimed = clusterset.SplitList(claim.Spec.Value)
		}
	}
	return nil
}

// observePodCIDRs reads the Pod CIDRs of the nodes. Users without permission to
// list nodes can join clusters, too.
func (c *Cluster) observePodCIDRs(ctx context.Context) error {
	nodes, err := c.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		c.Observed.NodesHidden = true
		return nil
	}
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		c.Observed.PodCIDRs = append(c.Observed.PodCIDRs, nodes.Items[i].Spec.PodCIDRs...)
	}
	return nil
}

// observeServiceCIDRs reads the Service CIDRs. Not every cluster has the API, nor every user
// the permission; mcs-apiserver refuses endpoints in Service CIDRs in any case.
func (c *Cluster) observeServiceCIDRs(ctx context.Context) error {
	cidrs, err := c.Kubernetes.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range cidrs.Items {
		c.Observed.ServiceCIDRs = append(c.Observed.ServiceCIDRs, cidrs.Items[i].Spec.CIDRs...)
	}
	return nil
}

// observeSecrets reads the member Secrets. They are identified by their type and
// content, not by their name.
func (c *Cluster) observeSecrets(ctx context.Context) error {
	secrets, err := c.Kubernetes.CoreV1().Secrets(c.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: clusterset.MemberSecretSelector(),
	})
	if err != nil {
		return err
	}
	c.memberSecrets = map[string][]string{}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		id := memberIDOf(secret)
		if id == "" {
			continue
		}
		// If there are several, join updates the one with the default name.
		if secret.Name == clusterset.MemberSecretName(id) || len(c.memberSecrets[id]) == 0 {
			c.Observed.Members[id] = plan.Member{
				Kubeconfig: secret.Data[clusterset.MemberSecretKubeconfig], Token: plan.TokenIn(secret), Access: plan.AccessIn(secret), JoinedAt: string(secret.Data[clusterset.MemberSecretJoinedAt]),
				AllocationCIDRs: string(secret.Data[clusterset.MemberSecretAllocationCIDRs]), AllowedCIDRs: string(secret.Data[clusterset.MemberSecretAllowedCIDRs]),
				RelayFor: string(secret.Data[clusterset.MemberSecretRelayFor]), Kept: plan.KeptIn(secret), Secret: types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name},
			}
			c.memberSecrets[id] = append([]string{secret.Name}, c.memberSecrets[id]...)
		} else {
			c.memberSecrets[id] = append(c.memberSecrets[id], secret.Name)
		}
	}
	return nil
}

// memberIDOf returns the cluster ID in a member Secret.
func memberIDOf(secret *corev1.Secret) string {
	return strings.TrimSpace(string(secret.Data[clusterset.MemberSecretClusterID]))
}

// observeMembers reads the members in the view of the cluster.
func (c *Cluster) observeMembers(ctx context.Context) error {
	entries, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.Observed.Unlisted = true
	for i := range entries.Items {
		status := &entries.Items[i].Status
		if member, ok := c.Observed.Members[status.ClusterID]; ok && rejectsCredential(status) {
			member.Rejected = true
			c.Observed.Members[status.ClusterID] = member
		}
		if claimCounts(status) && c.Observed.Members[status.ClusterID].AllocationCIDRs == "" {
			c.Observed.Taken[status.ClusterUID] = append(c.Observed.Taken[status.ClusterUID], status.ClusterSetIPCIDRs...)
		}
		switch status.State {
		case clustersetv1alpha1.MemberLocal:
			c.Observed.Unlisted = false
			c.Observed.Ranges, c.Observed.CIDRs = status.ClusterSetIPRanges, status.ClusterSetIPCIDRs
		case clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberUnavailable, clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberLost:
			c.Observed.Known[status.ClusterID] = status.ClusterUID
			if path := status.Path; len(path) > 1 {
				c.Observed.Relayed[status.ClusterID] = path[len(path)-1]
			}
			if status.State == clustersetv1alpha1.MemberConnected {
				c.Observed.Connected[status.ClusterID] = true
			}
		}
	}
	return nil
}

// claimCounts reports whether the allocation CIDRs that a cluster claims count in the view
// of another one: it is accepted, and they are not refused for any reason.
func claimCounts(status *clustersetv1alpha1.MemberStatus) bool {
	switch status.State {
	case clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberUnavailable, clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberLost:
		return !meta.IsStatusConditionFalse(status.Conditions, clusterset.MemberClusterSetIP)
	}
	return false // what a cluster has itself is not hearsay
}

// ObserveSharedIPs reads the shared ClusterSet IPs that members hold, in all clusters
// that are in a ClusterSet.
func ObserveSharedIPs(ctx context.Context, f *cluster.Factory, clusters []*Cluster) error {
	ctx, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, c := range clusters {
		group.Go(func() error {
			if c.Observed.ClusterSet == "" {
				return nil
			}
			return c.observeSharedIPs(ctx)
		})
	}
	return group.Wait()
}

func (c *Cluster) observeSharedIPs(ctx context.Context) error {
	exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return c.WrapError(err, cluster.MCSAdminAdvice)
	}
	c.Observed.SharedIPs = exportersByIP(exported.Items)
	return nil
}

// exportersByIP returns who exports services with shared ClusterSet IPs: of several clusters, one
// that has not adopted the IP from others.
func exportersByIP(exported []clustersetv1alpha1.ExportedService) map[string]string {
	exporters := map[string]string{}
	for i := range exported {
		spec := &exported[i].Spec
		if spec.ClusterSetIP == nil {
			continue
		}
		for _, ip := range spec.ClusterSetIP.IPs {
			if exporters[ip] == "" || len(spec.ClusterSetIP.AdoptedFrom) == 0 {
				exporters[ip] = spec.Cluster
			}
		}
	}
	return exporters
}

// rejectsCredential reports whether a member rejects the credential of its Secret.
func rejectsCredential(status *clustersetv1alpha1.MemberStatus) bool {
	condition := meta.FindStatusCondition(status.Conditions, clusterset.MemberReachable)
	return condition != nil && (condition.Reason == string(metav1.StatusReasonUnauthorized) || condition.Reason == string(metav1.StatusReasonForbidden))
}

// observeAccess determines which peers have read access: a service account, and
// all objects that grant it permissions. The objects are identified by name, so
// that those without labels, which were not created by join, are found, too.
func (c *Cluster) observeAccess(ctx context.Context) error {
	accounts, err := c.Kubernetes.CoreV1().ServiceAccounts(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	clusterBindings, err := c.Kubernetes.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	roles, err := c.Kubernetes.RbacV1().Roles(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	bindings, err := c.Kubernetes.RbacV1().RoleBindings(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.accessObjects = sets.New[string]()
	parts := map[string]int{}
	record := func(part metav1.Object, prefix string) {
		if id, ok := strings.CutPrefix(part.GetName(), prefix); ok && id != "" {
			parts[id]++
			c.accessObjects.Insert(objectKey(part))
		}
	}
	account, binding := clusterset.PeerAccountName(""), clusterset.PeerBindingName("")
	for i := range accounts.Items {
		record(&accounts.Items[i], account)
		if id, ok := strings.CutPrefix(accounts.Items[i].Name, account); ok {
			c.Observed.Accounts[id] = accounts.Items[i].UID
		}
	}
	for i := range clusterBindings.Items {
		record(&clusterBindings.Items[i], binding)
		if id, ok := strings.CutPrefix(clusterBindings.Items[i].Name, clusterset.RelayBindingName("")); ok {
			c.Observed.Relaying[id] = true
		}
	}
	for i := range roles.Items {
		record(&roles.Items[i], binding)
	}
	for i := range bindings.Items {
		record(&bindings.Items[i], binding)
	}
	for id, count := range parts {
		c.Observed.Granted[id] = count == 4
	}
	return nil
}
