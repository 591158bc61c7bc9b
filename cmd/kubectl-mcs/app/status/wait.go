// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// view is what is known of a cluster while waiting.
type view struct {
	context string
	// answered is set once the cluster answered, and failure is why it did not since.
	answered bool
	failure  string
	members  []clustersetv1alpha1.Member
}

// unconnected returns what keeps clusters from being connected, and whether that is known of all of
// them: every cluster has to be in a ClusterSet, to be connected to all its members, and to have all the
// others as members.
func unconnected(views []view) (problems []string, known bool) {
	known = true
	ids := map[string]string{} // by context
	for _, each := range views {
		id, clusterSet := members.Identity(each.members)
		switch {
		case each.failure != "":
			known = false
			problems = append(problems, fmt.Sprintf("context %s: %s", each.context, each.failure))
		case !each.answered:
			known = false
			problems = append(problems, fmt.Sprintf("context %s: the cluster has not answered", each.context))
		case id == "" || clusterSet == "":
			problems = append(problems, fmt.Sprintf("context %s: cluster is not in a ClusterSet", each.context))
		default:
			ids[each.context] = id
		}
	}
	for _, each := range views {
		id, found := ids[each.context]
		if !found {
			continue
		}
		for i := range each.members {
			if status := &each.members[i].Status; status.State != clustersetv1alpha1.MemberLocal && status.State != clustersetv1alpha1.MemberConnected {
				problems = append(problems, fmt.Sprintf("cluster %s: member %s is %s", id, each.members[i].Name, status.State))
			}
		}
		for _, other := range views {
			wanted, found := ids[other.context]
			if found && !slices.ContainsFunc(each.members, func(member clustersetv1alpha1.Member) bool { return member.Status.ClusterID == wanted }) {
				problems = append(problems, fmt.Sprintf("cluster %s: cluster %s is missing among its members", id, wanted))
			}
		}
	}
	return problems, known
}

// waiting waits until clusters are connected.
type waiting struct {
	mu    sync.Mutex
	views []view
	done  context.CancelFunc
}

// update changes what is known of a cluster, and ends waiting if all of them are connected.
func (w *waiting) update(i int, change func(*view)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.views[i])
	if problems, _ := unconnected(w.views); len(problems) == 0 {
		w.done()
	}
}

// until follows the clusters until they are connected or the context ends. It returns what keeps them
// from being connected, and whether that is known of all of them.
func until(ctx context.Context, followers []*follower) (problems []string, known bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &waiting{views: make([]view, len(followers)), done: cancel}
	var group sync.WaitGroup
	for i, f := range followers {
		w.views[i].context = f.Context
		f.changed = func(all []clustersetv1alpha1.Member) {
			w.update(i, func(v *view) { v.answered, v.failure, v.members = true, "", all })
		}
		f.failed = func(err error) { w.update(i, func(v *view) { v.failure = err.Error() }) }
	}
	for _, f := range followers {
		group.Go(func() { f.follow(ctx) })
	}
	group.Wait()
	return unconnected(w.views)
}

// notInTime is the error of a wait that ended too early.
func notInTime(problems []string) error {
	return fmt.Errorf("clusters are not connected in time: %s", strings.Join(problems, "; "))
}
