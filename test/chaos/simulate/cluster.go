// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// cluster exports its own services, and imports those of all clusters.
type cluster struct {
	*simulation
	name   string
	number int

	namespaces        map[string]bool
	sources           map[history.Service]source
	busy              map[history.Service]bool
	busyNamespace     map[string]bool
	visibleNamespaces map[string]bool
	known             map[string]map[history.Service]source
	withdrawn         map[string]bool
	lives             map[history.Service]int
	resources         map[string]*resource
}

// resource is the objects of one kind, and what happened to them.
type resource struct {
	name    string
	version int
	objects map[string]history.Object
	events  []history.Watch
	clients []*client
}

func newCluster(s *simulation, name string, number int) *cluster {
	c := &cluster{
		simulation: s, name: name, number: number, namespaces: map[string]bool{}, sources: map[history.Service]source{},
		busy: map[history.Service]bool{}, busyNamespace: map[string]bool{}, visibleNamespaces: map[string]bool{},
		known: map[string]map[history.Service]source{}, withdrawn: map[string]bool{}, lives: map[history.Service]int{}, resources: map[string]*resource{},
	}
	for _, kind := range []string{history.Imports, history.Slices} {
		r := &resource{name: kind, version: 1000, objects: map[string]history.Object{}}
		c.resources[kind] = r
		for _, name := range []string{"1", "2"} {
			r.clients = append(r.clients, &client{cluster: c, resource: r, name: name})
		}
	}
	return c
}

// start starts everything that happens in the cluster.
func (c *cluster) start() {
	for _, name := range []string{"bank", "shop"} {
		c.change(history.Change{Operation: history.CreateNamespace, Service: history.Service{Namespace: name}}, false)
	}
	for _, kind := range []string{history.Imports, history.Slices} {
		for _, client := range c.resources[kind].clients {
			client.list()
		}
		c.every(2*time.Second, 4*time.Second, func() { c.readAll(c.resources[kind]) })
	}
	for _, of := range services() {
		c.work(of)
	}
	c.every(30*time.Second, time.Minute, func() { c.recreateNamespace("bank") })
	c.every(500*time.Millisecond, time.Second, c.call)
}

// read reads what another cluster exports, and which namespaces this one has.
func (c *cluster) read(from string) {
	if c.disturbed(c.name, from) {
		return
	}
	if from == c.name {
		c.visibleNamespaces = maps.Clone(c.namespaces)
	}
	c.known[from] = maps.Clone(c.clusters[from].sources)
	c.withdrawn[from] = false
	c.recomputeAll()
}

// ask finds out whether endpoints of another cluster that were withdrawn answer again.
func (c *cluster) ask(of string) {
	cut := func(fault history.Fault) bool {
		return fault.Cut && slices.Contains(fault.Clusters, c.name) && slices.Contains(fault.Clusters, of)
	}
	if c.withdrawn[of] && !c.disturbed(c.name, c.name) && !slices.ContainsFunc(slices.Collect(maps.Values(c.faults)), cut) {
		c.withdrawn[of] = false
		c.recomputeAll()
	}
}

func (c *cluster) recomputeAll() {
	for _, of := range services() {
		c.recompute(of)
	}
}

// recompute computes the import and the slices of a service.
func (c *cluster) recompute(of history.Service) {
	var exports []model.Export
	for _, from := range times.Clusters {
		s := c.known[from][of]
		slice := history.Slice{Service: of.Name, Cluster: from}
		if s.contributes() && c.visibleNamespaces[of.Namespace] {
			exports = append(exports, model.Export{Cluster: from, Created: s.exported, Spec: *s.spec})
			if !c.withdrawn[from] {
				slice.Addresses = s.endpoints
			}
		}
		c.set(c.resources[history.Slices], history.Object{
			Namespace: of.Namespace, Name: of.Name + "-" + from, UID: "slice-" + c.name + "-" + of.Name + "-" + from, Slice: &slice,
		}, len(slice.Addresses) > 0)
	}
	object := history.Object{Namespace: of.Namespace, Name: of.Name, UID: fmt.Sprintf("%s-%s-%d", c.name, of, c.lives[of])}
	if len(exports) == 0 {
		if _, existed := c.resources[history.Imports].objects[of.String()]; existed {
			c.lives[of]++
		}
		c.set(c.resources[history.Imports], object, false)
		return
	}
	merged := model.Merge(exports)
	if !merged.Headless {
		merged.IPs = []string{fmt.Sprintf("10.%d.%d.%d", 150+c.number, slices.Index(services(), of), c.lives[of])}
	}
	object.Import = &merged
	c.set(c.resources[history.Imports], object, true)
}

// set changes an object if it differs, and tells the clients.
func (c *cluster) set(r *resource, object history.Object, exists bool) {
	key := object.Namespace + "/" + object.Name
	old, existed := r.objects[key]
	watch := history.Watch{Cluster: c.name, Resource: r.name, Object: &object}
	switch {
	case exists && existed && reflect.DeepEqual(old, object), !exists && !existed:
		return
	case exists && existed:
		watch.Type = history.Modified
	case exists:
		watch.Type = history.Added
	default:
		watch.Type, watch.Object = history.Deleted, &old
	}
	if r.objects[key] = object; !exists {
		delete(r.objects, key)
	}
	r.version += 10
	watch.ResourceVersion = strconv.Itoa(r.version)
	r.events = append(r.events, watch)
	for _, client := range r.clients {
		client.deliver()
	}
}

// readAll is a client that lists all objects once.
func (c *cluster) readAll(r *resource) {
	c.record(history.Entry{Watch: r.listed(c.name, "reader")})
	c.record(history.Entry{Watch: &history.Watch{Cluster: c.name, Resource: r.name, Client: "reader", Type: history.Closed}})
}

func (r *resource) listed(cluster, client string) *history.Watch {
	list := history.Watch{Cluster: cluster, Resource: r.name, Client: client, Type: history.Listed, ResourceVersion: strconv.Itoa(r.version)}
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		list.Items = append(list.Items, r.objects[key])
	}
	return &list
}

// breakWatches ends all watches; they begin again later.
func (c *cluster) breakWatches() {
	for _, kind := range []string{history.Imports, history.Slices} {
		for _, client := range c.resources[kind].clients {
			client.close()
		}
	}
}

// call looks up a service, and connects to it.
func (c *cluster) call() {
	of := services()[c.random.IntN(3)]
	object, exists := c.resources[history.Imports].objects[of.String()]
	lookup := history.Lookup{Cluster: c.name, Service: of, NotFound: !exists}
	var backends []history.Slice
	for _, from := range times.Clusters {
		if slice, ok := c.resources[history.Slices].objects[of.Namespace+"/"+of.Name+"-"+from]; ok {
			backends = append(backends, *slice.Slice)
		}
	}
	if exists {
		lookup.Answers = object.Import.IPs
		if object.Import.Headless {
			for _, backend := range backends {
				lookup.Answers = append(lookup.Answers, backend.Addresses...)
			}
		}
	}
	c.record(history.Entry{Lookup: &lookup})
	if !exists {
		return
	}
	connection := history.Connection{Cluster: c.name, Service: of, Began: c.now}
	switch {
	case len(backends) == 0:
		connection.Refused, connection.Error = true, "connection refused"
	default:
		backend := backends[c.random.IntN(len(backends))]
		if c.disturbed(c.name, backend.Cluster) {
			connection.Error = "timeout"
		} else {
			connection.BackendCluster, connection.BackendAddress = backend.Cluster, backend.Addresses[c.random.IntN(len(backend.Addresses))]
		}
	}
	c.record(history.Entry{Connection: &connection})
}
