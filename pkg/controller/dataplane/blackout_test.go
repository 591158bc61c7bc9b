// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// strictClient refuses updates of EndpointSlices that are outdated, as a kube-apiserver does, takes
// some time for each, and calls a function after it.
type strictClient struct {
	kubernetes.Interface
	*strict
}

type strict struct {
	mu      sync.Mutex
	version int
	random  *rand.Rand
	written func()
}

func (c strictClient) DiscoveryV1() discoveryv1client.DiscoveryV1Interface {
	return strictDiscovery{c.Interface.DiscoveryV1(), c.strict}
}

type strictDiscovery struct {
	discoveryv1client.DiscoveryV1Interface
	*strict
}

func (c strictDiscovery) EndpointSlices(namespace string) discoveryv1client.EndpointSliceInterface {
	return strictSlices{c.DiscoveryV1Interface.EndpointSlices(namespace), c.strict}
}

type strictSlices struct {
	discoveryv1client.EndpointSliceInterface
	*strict
}

func (c strictSlices) pause() {
	c.mu.Lock()
	pause := time.Duration(c.random.IntN(30)) * time.Millisecond
	c.mu.Unlock()
	time.Sleep(pause) // in the bubble
}

func (c strictSlices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	c.pause()
	defer c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	slice = slice.DeepCopy()
	slice.ResourceVersion = strconv.Itoa(c.version)
	created, err := c.EndpointSliceInterface.Create(ctx, slice, options)
	c.written()
	return created, err
}

func (c strictSlices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	c.pause()
	defer c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := c.Get(ctx, slice.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if held.ResourceVersion != slice.ResourceVersion {
		return nil, apierrors.NewConflict(discoveryv1.Resource("endpointslices"), slice.Name, errors.New("outdated"))
	}
	c.version++
	slice = slice.DeepCopy()
	slice.ResourceVersion = strconv.Itoa(c.version)
	updated, err := c.EndpointSliceInterface.Update(ctx, slice, options)
	c.written()
	return updated, err
}

// R610: whatever comes and goes at the same time, kube-proxy always uses a ready endpoint if any
// imported one is ready.
func TestThereIsAlwaysAnEndpointIfAnyIsReady(t *testing.T) {
	for seed := range *rounds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { flap(t, seed) })
	}
}

// flap lets the endpoints of three clusters come and go for a while, of which one at least is ready.
func flap(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	watched := &strict{random: rand.New(rand.NewPCG(seed, 1))}
	detached := 0
	prepare := func(c *Controller) {
		c.method = preference.Detach
		plain := c.client
		watched.written = func() {
			list, err := plain.DiscoveryV1().EndpointSlices(web.Namespace).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			used, ignored := 0, 0
			for _, slice := range list.Items {
				_, headless := slice.Labels[corev1.IsHeadlessService]
				for _, endpoint := range slice.Endpoints {
					switch {
					case !preference.IsReady(endpoint):
					case headless:
						ignored++
					default:
						used++
					}
				}
			}
			detached += ignored
			if used == 0 && ignored > 0 {
				t.Errorf("at %s, kube-proxy ignores all of %d ready endpoints", time.Now().Format("05.000"), ignored)
			}
		}
		c.client = strictClient{plain, watched}
	}
	runWith(t, 0, prepare, func(t *testing.T, h *host) {
		clusters := []string{"here", "near", "far"}
		h.serveMembers(t)
		synctest.Wait()
		count := map[string]int{}
		change := func(cluster string, ready int) {
			count[cluster] = ready
			var endpoints []discoveryv1.Endpoint
			for i := range 2 {
				conditions := discoveryv1.EndpointConditions{}
				if i >= ready {
					conditions = unready("")[0].Conditions
				}
				endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.0.%d", len(cluster), i+1)}, Conditions: conditions})
			}
			h.serve(t, "serviceimports", newImport(preferring("cluster,property:region", "1")))
			now := random.IntN(2) // they may move to another slice
			h.serveExport(t, cluster, fmt.Sprintf("web-%d", now), endpoints)
			h.serveExport(t, cluster, fmt.Sprintf("web-%d", 1-now), nil)
		}
		for _, cluster := range clusters {
			change(cluster, 2)
		}
		for range 60 {
			time.Sleep(time.Duration(random.IntN(4)) * time.Duration(random.IntN(1000)) * time.Millisecond)
			if random.IntN(3) == 0 && count["near"]+count["far"] > 0 { // fails while it takes over
				change("here", 0)
				time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
				change("here", 2)
				time.Sleep(preference.TakeoverDelay + time.Duration(random.IntN(150))*time.Millisecond)
				change("here", 0)
				continue
			}
			cluster, ready := clusters[random.IntN(len(clusters))], random.IntN(3)
			if others := count["here"] + count["near"] + count["far"] - count[cluster]; ready > 0 || others > 0 {
				change(cluster, ready)
			}
		}
		time.Sleep(time.Minute)
		watched.mu.Lock()
		defer watched.mu.Unlock()
		if detached == 0 {
			t.Error("nothing was detached")
		}
	})
}
