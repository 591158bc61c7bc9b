// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/chaos"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// objects observes the imports and the imported EndpointSlices of attacked clusters.
type objects struct {
	mu sync.Mutex
	// ips are those of imports of honest clusters, by cluster, namespace and name.
	ips map[string][]string
	// violations are what must not happen, and how often it did.
	violations map[string]int
	// imported are the services of the attacker that were imported, and endpoints how many of
	// its endpoints were, by cluster and ID of the attacker.
	imported  map[[2]string]sets.Set[string]
	endpoints map[[2]string]int
}

// observeObjects observes objects until the test ends.
func observeObjects(t *testing.T, a *attacker) *objects {
	t.Helper()
	o := &objects{ips: map[string][]string{}, violations: map[string]int{}, imported: map[[2]string]sets.Set[string]{}, endpoints: map[[2]string]int{}}
	for i, cluster := range both() {
		client := expect.Must(dynamic.NewForConfig(expect.Must(cluster.Config())(t)))(t)
		for ns := range honestServices() {
			expect.NoError(t, chaos.Watch(t.Context(), client, multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceimports"), ns, chaos.Watcher{
				Exists: func(object *unstructured.Unstructured) { o.sawImport(cluster, object) },
				Gone:   func(object *unstructured.Unstructured) { o.lostImport(cluster, object) },
			}))
		}
		forbidden := slices.Concat(hostile.ForbiddenAddresses(), a.victims[i].own)
		expect.NoError(t, chaos.Watch(t.Context(), client, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), "", chaos.Watcher{
			Exists: func(object *unstructured.Unstructured) { o.sawSlice(cluster, object, forbidden) },
			Gone:   func(*unstructured.Unstructured) {},
		}))
	}
	return o
}

func (o *objects) violate(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations[fmt.Sprintf(format, args...)]++
}

// decode converts an object that was watched.
func decode[T any](object *unstructured.Unstructured) (decoded T) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &decoded); err != nil {
		panic(err) // the kube-apiserver sent it
	}
	return decoded
}

// sawImport checks an import. Those of honest clusters must keep their properties; in a namespace
// that it may export into, the attacker may export the same service.
func (o *objects) sawImport(cluster *localcluster.Cluster, object *unstructured.Unstructured) {
	found := decode[multiclusterxv1beta1.ServiceImport](object)
	o.count(cluster, &found)
	exporters, honest := honestServices()[found.Namespace][found.Name]
	switch {
	case honest:
		o.checkHonest(cluster, &found, exporters)
	case found.Namespace == bank:
		o.violate("%s: import %s/%s exists", cluster.Name, found.Namespace, found.Name)
	}
}

func (o *objects) count(cluster *localcluster.Cluster, found *multiclusterxv1beta1.ServiceImport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, exporter := range found.Status.Clusters {
		key := [2]string{cluster.Name, exporter.Cluster}
		if o.imported[key] == nil {
			o.imported[key] = sets.New[string]()
		}
		o.imported[key].Insert(found.Name)
	}
}

// hasImported reports whether a cluster has imported services of an attack that is to have effect.
func (o *objects) hasImported(cluster string, attack hostile.Attack) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return attack.Imported <= 0 || len(o.imported[[2]string{cluster, attack.Name}]) > 0
}

func (o *objects) checkHonest(cluster *localcluster.Cluster, found *multiclusterxv1beta1.ServiceImport, exporters []string) {
	var clusters []string
	for _, exporter := range found.Status.Clusters {
		if found.Namespace == bank || slices.Contains(exporters, exporter.Cluster) {
			clusters = append(clusters, exporter.Cluster)
		}
	}
	key := fmt.Sprintf("%s: import %s/%s", cluster.Name, found.Namespace, found.Name)
	o.mu.Lock()
	before, known := o.ips[key]
	if !known {
		o.ips[key] = found.Spec.IPs
	}
	o.mu.Unlock()
	port := slices.ContainsFunc(found.Spec.Ports, func(port multiclusterxv1beta1.ServicePort) bool { return port.Name == "http" && port.Port == 80 })
	switch {
	case found.Spec.Type != multiclusterxv1beta1.ClusterSetIP || !port || found.Namespace == bank && len(found.Spec.Ports) != 1:
		o.violate("%s became %s with ports %+v", key, found.Spec.Type, found.Spec.Ports)
	case len(found.Spec.IPs) == 0 || known && !slices.Equal(found.Spec.IPs, before):
		o.violate("%s has IPs %v, had %v", key, found.Spec.IPs, before)
	case !slices.Equal(clusters, exporters):
		o.violate("%s is exported by %v", key, clusters)
	}
}

func (o *objects) lostImport(cluster *localcluster.Cluster, object *unstructured.Unstructured) {
	if _, honest := honestServices()[object.GetNamespace()][object.GetName()]; honest {
		o.violate("%s: import %s/%s was deleted", cluster.Name, object.GetNamespace(), object.GetName())
	}
}

// sawSlice checks an EndpointSlice: if it was imported from the attacker, or leads to it.
func (o *objects) sawSlice(cluster *localcluster.Cluster, object *unstructured.Unstructured, forbidden []string) {
	slice := decode[discoveryv1.EndpointSlice](object)
	source := slice.Labels[multicluster.SourceClusterLabel]
	hostileSource := slices.Contains(hostileIDs(), source)
	if hostileSource && slice.Namespace != shop {
		o.violate("%s: EndpointSlice of %s in namespace %s", cluster.Name, source, slice.Namespace)
	}
	for _, endpoint := range slice.Endpoints {
		for _, address := range endpoint.Addresses {
			switch {
			case hostileSource && slices.Contains(forbidden, address):
				o.violate("%s: EndpointSlice of %s has address %s", cluster.Name, source, address)
			case !hostileSource && ofAttacker(address):
				o.violate("%s: EndpointSlice %s/%s has address %s of the attacker", cluster.Name, slice.Namespace, slice.Name, address)
			}
		}
	}
	if hostileSource {
		o.mu.Lock()
		o.endpoints[[2]string{cluster.Name, source}] += len(slice.Endpoints)
		o.mu.Unlock()
	}
}

func ofAttacker(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(hostile.PodCIDRs(), func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(parsed) })
}

// check fails if something happened that must not.
func (o *objects) check(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, violation := range slices.Sorted(maps.Keys(o.violations)) {
		t.Errorf("%s (%d times)", violation, o.violations[violation])
	}
	total := 0
	for _, attack := range hostile.Attacks() {
		for _, cluster := range both() {
			key := [2]string{cluster.Name, attack.Name}
			if len(o.imported[key]) > 0 {
				t.Logf("%s imported %d services and %d endpoints of %s", cluster.Name, len(o.imported[key]), o.endpoints[key], attack.Name)
			}
			total += o.endpoints[key]
		}
	}
	if total == 0 {
		t.Error("no endpoints of the attacker were imported: the attacks had no effect")
	}
}

// memory is the memory of the largest process of each program, by cluster and program.
type memory struct {
	mu   sync.Mutex
	peak map[string]int
}

var programs = []string{"mcs-apiserver", "mcs-controller"}

// watchMemory samples the memory of mcs-apiserver and mcs-controller until the test ends.
func watchMemory(t *testing.T) *memory {
	t.Helper()
	m := &memory{peak: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			m.sample()
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return m
}

func (m *memory) sample() {
	for _, cluster := range both() {
		for _, program := range programs {
			if size, err := cluster.LargestProcess(program); err == nil {
				m.mu.Lock()
				m.peak[cluster.Name+" "+program] = max(m.peak[cluster.Name+" "+program], size)
				m.mu.Unlock()
			}
		}
	}
}

// check fails if a program took more memory than its container may.
func (m *memory) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cluster := range both() {
		for _, program := range programs {
			limit := resource.MustParse(kubectl(t, cluster, "get", "deployment", "mcs-apiserver", "-n", "mcs-system", "-o",
				fmt.Sprintf("jsonpath={.spec.template.spec.containers[?(@.name==%q)].resources.limits.memory}", program)))
			peak := m.peak[cluster.Name+" "+program]
			t.Logf("%s in %s took %d MiB at most, its limit is %s", program, cluster.Name, peak>>20, strings.TrimSpace(limit.String()))
			if peak == 0 || int64(peak) > limit.Value() {
				t.Errorf("%s in %s took %d bytes, its limit is %s", program, cluster.Name, peak, limit.String())
			}
		}
	}
}
