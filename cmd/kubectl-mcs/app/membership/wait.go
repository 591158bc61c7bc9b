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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
)

// await watches the entries of a cluster until it is in touch with these.
func (s *Cluster) await(ctx context.Context, peers []string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	api := s.MCS.ClusterSetV1alpha1().Members()
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, options)
		},
		WatchFuncWithContext: api.Watch,
	}, s.MCS)
	var entries []clustersetv1alpha1.Member
	look := func(seen []clustersetv1alpha1.Member) bool {
		entries = seen
		return len(missing(entries, peers)) == 0
	}
	_, err := watchtools.UntilWithSync(waiting, source, &clustersetv1alpha1.Member{},
		func(store cache.Store) (bool, error) {
			var seen []clustersetv1alpha1.Member
			for _, object := range store.List() {
				seen = append(seen, *object.(*clustersetv1alpha1.Member))
			}
			return look(seen), nil
		},
		func(event watch.Event) (bool, error) {
			member, ok := event.Object.(*clustersetv1alpha1.Member)
			if !ok {
				return false, nil
			}
			seen := []clustersetv1alpha1.Member{}
			for i := range entries {
				if entries[i].Name != member.Name {
					seen = append(seen, entries[i])
				}
			}
			if event.Type != watch.Deleted {
				seen = append(seen, *member)
			}
			return look(seen), nil
		},
	)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return fmt.Errorf("not in touch after %s with %s", timeout, strings.Join(missing(entries, peers), "; "))
}

// missing says which clusters are not in touch yet, and why.
func missing(entries []clustersetv1alpha1.Member, peers []string) []string {
	var missing []string
	for _, peer := range peers {
		entry := members.Find(entries, peer)
		switch {
		case entry == nil:
			missing = append(missing, peer+" (no member yet)")
		case !inTouch(entry):
			missing = append(missing, fmt.Sprintf("%s (%s: %s)", peer, entry.Status.State, strings.Join(conditions.Problems(entry.Status.Conditions), ", ")))
		}
	}
	return missing
}

// inTouch is true when everything of the member is known here, and the member
// knows this cluster. That it also knows others is not waited for.
func inTouch(entry *clustersetv1alpha1.Member) bool {
	mutual := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberMutual)
	return entry.Status.State == clustersetv1alpha1.MemberConnected &&
		meta.IsStatusConditionTrue(entry.Status.Conditions, clusterset.MemberSynced) &&
		mutual != nil && (mutual.Status == metav1.ConditionTrue || mutual.Reason == clusterset.ReasonListsOthers)
}
