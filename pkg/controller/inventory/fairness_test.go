// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

var members = clustersetv1alpha1.SchemeGroupVersion.WithResource("members")

// world is a controller that runs in a bubble of synctest, with a server on which a write takes
// 10 milliseconds.
type world struct {
	*testing.T
	server *mcsfake.Clientset
	mu     sync.Mutex
	// writes are when profiles were written, by name.
	writes map[string][]time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{T: t, server: mcsfake.NewSimpleClientset(), writes: map[string][]time.Time{}}
	w.server.PrependReactor("*", "clusterprofiles", w.observe)
	own := mcsinformers.NewSharedInformerFactory(w.server, 0)
	host := kubernetesfake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})
	controller := New(host.CoreV1(), w.server, clock.RealClock{}, system, own, own)
	own.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		own.Shutdown()
		running.Wait()
	})
	synctest.Wait() // what a fake client is given between a list and a watch is lost
	w.show(local("fleet"))
	return w
}

func (w *world) observe(action clienttesting.Action) (handled bool, _ runtime.Object, _ error) {
	var name string
	switch action := action.(type) {
	case clienttesting.UpdateAction: // and CreateAction
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(action.GetObject())
		if err != nil {
			w.Error(err)
		}
		name = object["metadata"].(map[string]any)["name"].(string)
	case clienttesting.DeleteAction:
		name = action.GetName()
	default:
		return false, nil, nil
	}
	time.Sleep(10 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[name] = append(w.writes[name], time.Now())
	return false, nil, nil
}

// show makes the server show a Member.
func (w *world) show(entry *clustersetv1alpha1.Member) {
	w.Helper()
	err := w.server.Tracker().Update(members, entry, "")
	if apierrors.IsNotFound(err) {
		err = w.server.Tracker().Create(members, entry, "")
	}
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) hide(name string) {
	w.Helper()
	if err := w.server.Tracker().Delete(members, "", name); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, writes := range w.writes {
		count += len(writes)
	}
	return count
}

// R503: a member that changes whenever it is asked is written once in 10 seconds, and at last as
// it is.
func TestProfileThatKeepsChangingIsWrittenOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(time.Minute)
		before := w.count()
		const rounds = 60
		for i := range rounds {
			east := member("east", clustersetv1alpha1.MemberConnected, "fleet")
			east.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "round.example.com", Value: strconv.Itoa(i)}}
			w.show(east)
			if i == 0 {
				time.Sleep(100 * time.Millisecond)
				if w.count() == before {
					t.Error("first change is not written at once")
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(writeInterval)
		// The first write creates the profile, and then writes its status.
		if got, most := w.count()-before, rounds/10+3; got > most {
			t.Errorf("%d writes in %d seconds, want at most %d", got, rounds, most)
		}
		profile, err := w.server.MulticlusterXV1alpha1().ClusterProfiles(system).Get(t.Context(), "east", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := profile.Status.Properties[2].Value, strconv.Itoa(rounds-1); got != want {
			t.Errorf("property is %s, want the last one, %s", got, want)
		}
	})
}

// R503: a hub that relays other clusters whenever it is asked causes a limited number of writes,
// and does not delay the profiles of others.
func TestHubWithChangingClustersDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.show(member("hub", clustersetv1alpha1.MemberConnected, "fleet"))
		time.Sleep(time.Minute)
		before, begun := w.count(), time.Now()
		const clusters, rounds, probe = 300, 12, 5 * time.Second
		for round := range rounds {
			for i := range clusters {
				if round > 0 {
					w.hide(fmt.Sprintf("c%d-%d", round-1, i))
				}
				name := fmt.Sprintf("c%d-%d", round, i)
				w.show(member(name, clustersetv1alpha1.MemberConnected, "fleet", name, "hub"))
			}
			honest := fmt.Sprintf("honest-%d", round)
			w.show(member(honest, clustersetv1alpha1.MemberConnected, "fleet"))
			shown := time.Now()
			time.Sleep(probe)
			w.mu.Lock()
			if writes := w.writes[honest]; len(writes) == 0 || writes[0].Sub(shown) > 200*time.Millisecond {
				t.Errorf("round %d: profile of an honest member was written at %v, it was shown at %v", round, writes, shown)
			}
			w.mu.Unlock()
		}
		passed := int(time.Since(begun).Seconds())
		// A profile that is created has its status written as well.
		if got, most := w.count()-before, 2*(relayedBurst+passed*relayedRate+rounds); got > most {
			t.Errorf("%d writes in %d seconds, want at most %d", got, passed, most)
		}
	})
}
