// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight observes what decides whether clusters are ready to join. It only reads.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/dns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// observeTimeout limits how long the observation of a cluster may take, unless the user sets a
// timeout. To ask the Pods of CoreDNS takes longest.
const observeTimeout = time.Minute

var advice = cluster.Advice{
	Forbidden:   "join --check requires the permissions of join, to read everything",
	ServerError: cluster.KubernetesAdminAdvice.ServerError,
}

// Observe observes the clusters of several contexts in parallel. servers has the addresses at
// which other clusters reach them, by context. The error is for contexts that do not exist.
func Observe(ctx context.Context, f *cluster.Factory, contexts []string, servers map[string]string) ([]plan.Facts, error) {
	members, failures, err := membership.ObserveEach(ctx, f, contexts, servers)
	if err != nil {
		return nil, err
	}
	facts, errs := make([]plan.Facts, len(contexts)), make([]error, len(contexts))
	var group errgroup.Group
	for i, name := range contexts {
		c, err := f.ForContext(name)
		if err != nil {
			errs[i] = err
			continue
		}
		group.Go(func() error {
			facts[i], errs[i] = observe(ctx, f, c, servers[name], failures[i])
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, m := range members {
		if m == nil {
			continue
		}
		facts[i].Membership = &m.Observed
		if err := membership.ObserveSharedIPs(ctx, f, []*membership.Cluster{m}); err != nil {
			facts[i].Unobserved = append(facts[i].Unobserved, unobserved(m.Context, advice, plan.CheckMembership, "shared ClusterSet IPs", err))
		}
	}
	return facts, nil
}

// unobserved describes a part that could not be observed.
func unobserved(name string, advice cluster.Advice, check, what string, err error) plan.Finding {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		err = status // without what was added for another command
	}
	reason := strings.TrimPrefix(cluster.Diagnose(name, err, advice).Error(), fmt.Sprintf("context %q: ", name))
	return plan.Finding{Check: check, Result: plan.NotChecked, Contexts: []string{name}, Message: fmt.Sprintf("%s could not be read: %s", what, reason)}
}

// observer observes one cluster.
type observer struct {
	*cluster.Factory
	*cluster.Cluster
	facts plan.Facts
}

// ObserveHost observes only what does not depend on whether the cluster joins: the version and the clock
// of its kube-apiserver, and the registration of the API, and with traffic also kube-proxy and DNS. The
// user gets the advice if something may not be read.
func ObserveHost(ctx context.Context, f *cluster.Factory, c *cluster.Cluster, traffic bool, advice cluster.Advice) (plan.Facts, error) {
	ctx, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return plan.Facts{}, err
	}
	o := &observer{Factory: f, Cluster: c, facts: plan.Facts{Context: c.Context}}
	if err := o.observeVersion(ctx); err != nil {
		o.facts.Silent, o.facts.Failure = true, cluster.Diagnose(c.Context, err, advice).Error()
		return o.facts, nil
	}
	var group errgroup.Group
	parts := []part{{plan.CheckAPI, "the registration of the API", o.observeAPI}}
	if traffic {
		group.Go(func() error { // takes longest, and writes nothing else
			o.facts.DNS = o.dns(ctx)
			return nil
		})
		parts = append(parts, part{plan.CheckProxy, "the configuration of kube-proxy", o.observeProxy})
	}
	o.observeAll(ctx, advice, parts)
	_ = group.Wait()
	return o.facts, nil
}

// part is a part of what is observed.
type part struct {
	check, what string
	observe     func(context.Context) error
}

// observeAll observes some parts, one after another.
func (o *observer) observeAll(ctx context.Context, advice cluster.Advice, parts []part) {
	for _, part := range parts {
		if err := part.observe(ctx); err != nil && !o.consequence(part.check) {
			o.facts.Unobserved = append(o.facts.Unobserved, unobserved(o.Context, advice, part.check, part.what, err))
		}
	}
}

// observe observes a cluster whose membership may not have been observed, because of failure.
func observe(ctx context.Context, f *cluster.Factory, c *cluster.Cluster, server string, failure error) (plan.Facts, error) {
	ctx, cancel, err := f.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return plan.Facts{}, err
	}
	o := &observer{Factory: f, Cluster: c, facts: plan.Facts{Context: c.Context, Unverified: c.Config.Insecure}}
	if failure != nil {
		o.facts.Failure = failure.Error()
	}
	if o.facts.Access, err = membership.AccessTo(c.Config, server); err != nil {
		return plan.Facts{}, fmt.Errorf("context %q: %w", c.Context, err)
	}
	if err := o.observeVersion(ctx); err != nil {
		o.facts.Silent, o.facts.Failure = true, c.WrapError(err, advice).Error()
		return o.facts, nil
	}
	var group errgroup.Group
	group.Go(func() error { // takes longest, and writes nothing else
		o.facts.DNS = o.dns(ctx)
		return nil
	})
	group.Go(func() error {
		o.facts.Server = o.server(ctx)
		return nil
	})
	o.observeAll(ctx, advice, []part{
		{plan.CheckAPI, "the registration of the API", o.observeAPI},
		{plan.CheckNetworks, "Pod CIDRs of nodes", o.observePodCIDRs},
		{plan.CheckNetworks, "Pods", o.observePodIPs},
		{plan.CheckNetworks, "Service CIDRs", o.observeServiceCIDRs},
		{plan.CheckProxy, "the configuration of kube-proxy", o.observeProxy},
		{plan.CheckReachability, "members", o.observeMembers},
	})
	_ = group.Wait()
	return o.facts, nil
}

// consequence reports whether a part cannot be observed because the membership cannot, which is
// said already.
func (o *observer) consequence(check string) bool {
	return check == plan.CheckReachability && o.facts.Failure != ""
}

// observeAPI observes whether the API of mcs-apiserver is served.
func (o *observer) observeAPI(ctx context.Context) error {
	attached, err := attachment.Observe(ctx, o.Factory, o.Context)
	if err != nil {
		return err
	}
	api := plan.API{Observed: true, Detached: attached.Detached}
	if api.Conflicts, api.Hidden, err = attached.Conflicts(ctx); err != nil {
		return err
	}
	if err := attached.Unavailable(ctx); err != nil {
		api.Unavailable = err.Error()
	}
	o.facts.API = api
	return nil
}

// observeMembers observes what mcs-apiserver says about itself and its members.
func (o *observer) observeMembers(ctx context.Context) error {
	members, err := o.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	o.facts.Reachable = map[string]plan.Reachable{}
	for i := range members.Items {
		status := &members.Items[i].Status
		if status.State == clustersetv1alpha1.MemberLocal {
			o.facts.MCS = status.Version
			continue
		}
		condition := meta.FindStatusCondition(status.Conditions, clusterset.MemberReachable)
		if condition == nil || condition.Status == metav1.ConditionUnknown {
			continue
		}
		o.facts.Reachable[status.ClusterID] = plan.Reachable{
			Known: true, Answers: condition.Status == metav1.ConditionTrue, Reason: condition.Reason, Message: condition.Message,
		}
	}
	return nil
}

// dns observes the DNS of the cluster.
func (o *observer) dns(ctx context.Context) []plan.DNSFinding {
	findings, err := dns.Check(ctx, o.Factory, o.Cluster)
	if err != nil {
		message := strings.TrimPrefix(err.Error(), fmt.Sprintf("context %q: ", o.Context))
		return []plan.DNSFinding{{
			Unknown: true, Message: "DNS of the ClusterSet cannot be checked: " + message, Remedy: fmt.Sprintf("`kubectl mcs dns check --context %s` repeats this check, and has a flag --service", o.Context),
		}}
	}
	var results []plan.DNSFinding
	for _, finding := range findings {
		results = append(results, plan.DNSFinding{OK: finding.OK, Unknown: finding.Unknown(), Message: finding.Message, Remedy: finding.Remedy})
	}
	return results
}

// proxyConfigurations are the ConfigMaps with the configuration of kube-proxy: those of kubeadm
// and of the EKS add-on.
var proxyConfigurations = []struct{ name, key string }{{"kube-proxy", "config.conf"}, {"kube-proxy-config", "config"}}

// observeProxy reads the configuration of kube-proxy.
func (o *observer) observeProxy(ctx context.Context) error {
	for _, configuration := range proxyConfigurations {
		configMap, err := o.Kubernetes.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, configuration.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		mode, found, err := proxyMode(configMap.Data[configuration.key])
		if err != nil {
			return fmt.Errorf("key %s of ConfigMap kube-system/%s: %w", configuration.key, configuration.name, err)
		}
		if found {
			o.facts.Proxy = &plan.Proxy{Mode: mode, Source: metav1.NamespaceSystem + "/" + configuration.name}
			return nil
		}
	}
	o.facts.Proxy = &plan.Proxy{}
	return nil
}
