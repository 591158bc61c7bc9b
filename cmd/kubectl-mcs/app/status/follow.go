// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

const (
	// minRetry and maxRetry are the time after which a cluster is asked again: the first after a watch
	// that ended, the second at most after several failures.
	minRetry = time.Second
	maxRetry = 15 * time.Second
)

// follower follows the members of one cluster.
type follower struct {
	*cluster.Cluster
	// timeout limits how long a list may take.
	timeout time.Duration
	// changed is called with all members whenever one of them may have changed, and failed when the
	// cluster cannot be asked. It is asked again then.
	changed func([]clustersetv1alpha1.Member)
	failed  func(error)
}

// follow watches the members until the context ends.
func (f *follower) follow(ctx context.Context) {
	retry := minRetry
	for ctx.Err() == nil {
		listed, err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case listed: // a watch that is refused, or ends, is no failure: the state is known, and listed again
			retry = minRetry
		case err != nil:
			f.failed(cluster.Diagnose(f.Context, err, cluster.MCSUserAdvice))
		}
		timer := time.NewTimer(retry)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		retry = min(2*retry, maxRetry)
	}
}

// once lists the members and watches them until the watch ends. It reports whether they were listed. The
// error may be that of the watch.
func (f *follower) once(ctx context.Context) (bool, error) {
	listing, cancel := context.WithCancel(ctx)
	if f.timeout > 0 {
		listing, cancel = context.WithTimeout(ctx, f.timeout)
	}
	list, err := f.MCS.ClusterSetV1alpha1().Members().List(listing, metav1.ListOptions{})
	cancel()
	if err != nil {
		return false, err
	}
	members := map[string]clustersetv1alpha1.Member{}
	for i := range list.Items {
		members[list.Items[i].Name] = list.Items[i]
	}
	report := func() {
		var all []clustersetv1alpha1.Member
		for _, name := range slices.Sorted(maps.Keys(members)) {
			all = append(all, members[name])
		}
		f.changed(all)
	}
	report()
	watcher, err := f.MCS.ClusterSetV1alpha1().Members().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return true, err
	}
	defer context.AfterFunc(ctx, watcher.Stop)() // ends what follows
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return true, apierrors.FromObject(event.Object)
		}
		member, ok := event.Object.(*clustersetv1alpha1.Member)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		if event.Type == watch.Deleted {
			delete(members, member.Name)
		} else {
			members[member.Name] = *member
		}
		report()
	}
	return true, nil
}
