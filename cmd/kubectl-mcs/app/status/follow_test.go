// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// member returns a member of the ClusterSet production.
func member(name string, state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) clustersetv1alpha1.Member {
	return *clustertest.NewMember(name, state, changes...)
}

// R567: what keeps clusters from being connected is told.
func TestUnconnected(t *testing.T) {
	local, connected := clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected
	answer := func(context string, members ...clustersetv1alpha1.Member) view {
		return view{context: context, answered: true, members: members}
	}
	unclaimed := member("west", local)
	unclaimed.Status.ClusterSet = ""
	for _, test := range []struct {
		name  string
		views []view
		want  []string
		known bool
	}{
		{"connected", []view{answer("e", member("east", local), member("west", connected)), answer("w", member("east", connected), member("west", local))}, nil, true},
		{"one cluster", []view{answer("e", member("east", local), member("west", connected))}, nil, true},
		{"stale", []view{answer("e", member("east", local), member("west", clustersetv1alpha1.MemberStale))}, []string{"cluster east: member west is Stale"}, true},
		{"API of a member unavailable", []view{answer("e", member("east", local), member("west", clustersetv1alpha1.MemberUnavailable))}, []string{"cluster east: member west is Unavailable"}, true},
		{"not members of each other", []view{answer("e", member("east", local)), answer("w", member("west", local), member("east", connected))}, []string{"cluster east: cluster west is missing among its members"}, true},
		{"no ClusterSet", []view{answer("e", member("east", local), member("west", connected)), answer("w", unclaimed)}, []string{"context w: cluster is not in a ClusterSet"}, true},
		{"silent", []view{answer("e", member("east", local)), {context: "w"}}, []string{"context w: the cluster has not answered"}, false},
		{"failed since", []view{{context: "e", answered: true, failure: "down", members: []clustersetv1alpha1.Member{member("east", local)}}}, []string{"context e: down"}, false},
	} {
		problems, known := unconnected(test.views)
		if diff := cmp.Diff(test.want, problems); diff != "" || known != test.known {
			t.Errorf("%s: known %t, unexpected problems (-want +got):\n%s", test.name, known, diff)
		}
	}
}

// newFollower returns a follower of a cluster with these members. Events are sent to the watcher.
func newFollower(members ...clustersetv1alpha1.Member) (*follower, *watch.FakeWatcher) {
	var objects []runtime.Object
	for i := range members {
		objects = append(objects, &members[i])
	}
	c := clustertest.NewCluster(objects...)
	c.Context = "e"
	watcher := watch.NewFake()
	clustertest.FakeOf(c).PrependWatchReactor("members", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watcher, nil })
	return &follower{Cluster: c}, watcher
}

// R567: waiting ends as soon as all are connected, by watches.
func TestWaitEndsWhenConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, watcher := newFollower(member("east", clustersetv1alpha1.MemberLocal), member("west", clustersetv1alpha1.MemberConnecting))
		start := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			connected := member("west", clustersetv1alpha1.MemberConnected)
			watcher.Modify(&connected)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		problems, known := until(ctx, []*follower{f})
		if len(problems) > 0 || !known || time.Since(start) != 3*time.Second {
			t.Errorf("got %v, known %t, after %s", problems, known, time.Since(start))
		}
		lists := 0
		for _, action := range clustertest.FakeOf(f.Cluster).Actions() {
			if action.GetVerb() == "list" {
				lists++
			}
		}
		if lists != 1 {
			t.Errorf("the members were listed %d times", lists)
		}
	})
}

// R567: the time to wait is limited, and what is wrong is told.
func TestWaitTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower(member("east", clustersetv1alpha1.MemberLocal), member("west", clustersetv1alpha1.MemberLost))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		problems, known := until(ctx, []*follower{f})
		if !slices.Equal(problems, []string{"cluster east: member west is Lost"}) || !known {
			t.Errorf("got %v, known %t", problems, known)
		}
	})
}

// R567, R568: a cluster that cannot be queried is asked again, with growing delays, and watches that end are replaced.
func TestFollowerPersists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, watcher := newFollower(member("east", clustersetv1alpha1.MemberLocal))
		failing := true
		var mu sync.Mutex
		clustertest.FakeOf(f.Cluster).PrependReactor("list", "members", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return failing, nil, errors.New("down")
		})
		var failures, changes int
		f.failed = func(error) { failures++ }
		f.changed = func([]clustersetv1alpha1.Member) { changes++ }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.follow(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if failures < 5 || failures > 8 || changes != 0 {
			t.Errorf("%d failures, %d changes", failures, changes)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if changes != 1 {
			t.Errorf("%d changes", changes)
		}
		watcher.Error(&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410})
		synctest.Wait()
		before := failures
		cancel()
		<-done
		if failures != before {
			t.Error("an expired watch is shown as a failure")
		}
	})
}

// R567, R568: of a cluster whose members may be listed but not watched, the state is known.
func TestMembersThatMayNotBeWatched(t *testing.T) {
	refused := func(f *follower) *follower {
		clustertest.FakeOf(f.Cluster).PrependWatchReactor("members", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewForbidden(clustersetv1alpha1.Resource("members"), "", errors.New("no watch"))
		})
		return f
	}
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower(member("east", clustersetv1alpha1.MemberLocal), member("west", clustersetv1alpha1.MemberLost))
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		problems, known := until(ctx, []*follower{refused(f)})
		if !slices.Equal(problems, []string{"cluster east: member west is Lost"}) || !known {
			t.Errorf("got %v, known %t", problems, known)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower(member("east", clustersetv1alpha1.MemberLocal))
		var out, errOut bytes.Buffer
		w := &watching{output: &printer.Output{Format: "json"}, out: &out, errOut: &errOut}
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		if err := w.watch(ctx, []*follower{refused(f)}); err != nil || errOut.Len() > 0 || strings.Count(out.String(), "Local") != 1 {
			t.Errorf("error %v, output %s, warnings %s", err, &out, &errOut)
		}
	})
}

// R568: changes are printed as they come; that a member was seen is none.
func TestWatchPrintsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, watcher := newFollower(member("east", clustersetv1alpha1.MemberLocal), member("west", clustersetv1alpha1.MemberConnected, clustertest.Counts(1, 2)))
		var out, errOut bytes.Buffer
		w := &watching{output: &printer.Output{}, out: &out, errOut: &errOut}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.watch(ctx, []*follower{f}) }()
		synctest.Wait()
		for _, next := range []clustersetv1alpha1.Member{
			member("west", clustersetv1alpha1.MemberConnected, clustertest.Counts(1, 2), clustertest.Seen(time.Second)),
			member("west", clustersetv1alpha1.MemberStale, clustertest.Counts(1, 2), clustertest.Condition("Reachable", metav1.ConditionFalse, "Timeout", "no response\x1b[2J\nx")),
			member("north-with-a-long-name", clustersetv1alpha1.MemberConnecting),
		} {
			watcher.Modify(&next)
			synctest.Wait()
		}
		gone := member("west", clustersetv1alpha1.MemberStale)
		watcher.Delete(&gone)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || errOut.Len() > 0 {
			t.Errorf("error %v, warnings %s", err, &errOut)
		}
		expect.Text(t, `
CONTEXT   MEMBER   STATE       EXPORTS   ENDPOINTS   REASON
e         east     Local       0         0
e         west     Connected   1         2
e         west     Stale       1         2           Timeout: no response\u001b[2J\nx
e         north-with-a-long-name   Connecting   0         0
e         west                     Removed      0         0
`, out.String())
	})
}

// R568: a cluster that cannot be queried is told once.
func TestWatchTellsFailuresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower()
		clustertest.FakeOf(f.Cluster).PrependReactor("list", "members", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
		var out, errOut bytes.Buffer
		w := &watching{output: &printer.Output{Format: "json"}, out: &out, errOut: &errOut}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.watch(ctx, []*follower{f}); err != nil {
			t.Error(err)
		}
		if strings.Count(errOut.String(), "Warning: context e: cannot query cluster: down\n") != 1 {
			t.Errorf("warnings %s", &errOut)
		}
	})
}

// broken is a file that nobody reads.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWatchEndsWhenNobodyReads(t *testing.T) {
	f, _ := newFollower(member("east", clustersetv1alpha1.MemberLocal))
	w := &watching{output: &printer.Output{Format: "json"}, out: broken{}, errOut: broken{}}
	if err := w.watch(t.Context(), []*follower{f}); err == nil {
		t.Error("no error")
	}
}
