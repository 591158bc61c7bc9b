// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// waitForMembers watches the members of the cluster until it is connected to all
// given peers. With oneWay, these need not list this cluster.
func (c *Cluster) waitForMembers(ctx context.Context, peers []string, timeout time.Duration, oneWay bool) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	api := c.MCS.ClusterSetV1alpha1().Members()
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, options)
		},
		WatchFuncWithContext: api.Watch,
	}, c.MCS)
	var entries []clustersetv1alpha1.Member
	evaluate := func(current []clustersetv1alpha1.Member) bool {
		entries = current
		return len(unconnected(entries, peers, oneWay)) == 0
	}
	_, err := watchtools.UntilWithSync(waiting, source, &clustersetv1alpha1.Member{},
		func(store cache.Store) (bool, error) {
			var current []clustersetv1alpha1.Member
			for _, object := range store.List() {
				current = append(current, *object.(*clustersetv1alpha1.Member))
			}
			return evaluate(current), nil
		},
		func(event watch.Event) (bool, error) {
			member, ok := event.Object.(*clustersetv1alpha1.Member)
			if !ok {
				return false, nil
			}
			current := []clustersetv1alpha1.Member{}
			for i := range entries {
				if entries[i].Name != member.Name {
					current = append(current, entries[i])
				}
			}
			if event.Type != watch.Deleted {
				current = append(current, *member)
			}
			return evaluate(current), nil
		},
	)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return fmt.Errorf("not connected after %s: %s", timeout, strings.Join(unconnected(entries, peers, oneWay), "; "))
}

// unconnected describes the peers that the cluster is not connected to yet, and why.
func unconnected(entries []clustersetv1alpha1.Member, peers []string, oneWay bool) []string {
	var descriptions []string
	for _, peer := range peers {
		entry := members.Find(entries, peer)
		switch {
		case entry == nil:
			descriptions = append(descriptions, peer+" (not a member yet)")
		case !isConnected(entry, oneWay):
			descriptions = append(descriptions, fmt.Sprintf("%s (%s)", peer, printer.Escape(obstacles(entry))))
		}
	}
	return descriptions
}

// obstacles describes why the cluster is not connected to a member: the state, and all
// conditions that have to be True for that and are not.
func obstacles(entry *clustersetv1alpha1.Member) string {
	texts := []string{string(entry.Status.State)}
	for _, conditionType := range []string{clusterset.MemberAccepted, clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberMutual} {
		condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType)
		if condition != nil && condition.Status != metav1.ConditionTrue && condition.Reason != clusterset.ReasonListsOthers {
			texts = append(texts, fmt.Sprintf("%s is %s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
	return strings.Join(texts, "; ")
}

// isConnected reports whether all exports of a member are known and the member
// lists this cluster, unless oneWay is enough. The member may list additional clusters.
func isConnected(entry *clustersetv1alpha1.Member, oneWay bool) bool {
	mutual := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberMutual)
	return entry.Status.State == clustersetv1alpha1.MemberConnected &&
		meta.IsStatusConditionTrue(entry.Status.Conditions, clusterset.MemberSynced) &&
		(oneWay || mutual != nil && (mutual.Status == metav1.ConditionTrue || mutual.Reason == clusterset.ReasonListsOthers))
}
