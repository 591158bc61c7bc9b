// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// pingTimeout limits how long it may take a cluster to answer.
const pingTimeout = 5 * time.Second

// view is the ClusterSet as one cluster sees it.
type view struct {
	*cluster.Cluster
	// namespace is empty for all namespaces.
	namespace                                       string
	members, exports, slices, imports, localExports *resource
	// ping asks mcs-apiserver for something that everybody may read, and returns the time of its clock,
	// zero if it is unknown.
	ping func(context.Context) (time.Time, error)

	mu        sync.Mutex
	lastEvent time.Time
	answer    answer
}

// answer is how long a cluster took to answer.
type answer struct {
	// At is when it last answered.
	At           *metav1.Time `json:"at,omitempty"`
	Milliseconds int64        `json:"milliseconds"`
	Failure      string       `json:"failure,omitempty"`
	// AheadSeconds is how far its clock is ahead of that of this machine, negative if it is behind.
	AheadSeconds int64 `json:"aheadSeconds"`
}

// viewStatus says how current a view is, and what is missing.
type viewStatus struct {
	Context    string `json:"context"`
	Namespace  string `json:"namespace,omitempty"`
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Node is the name of the cluster in the graph.
	Node string `json:"node"`
	// Primary is true for the cluster whose view the list of services is.
	Primary bool `json:"primary,omitempty"`
	// Synced is false until everything that can be read was read once.
	Synced     bool         `json:"synced"`
	Unreadable []unreadable `json:"unreadable,omitempty"`
	// LastEvent is when the cluster last reported a change.
	LastEvent *metav1.Time `json:"lastEvent,omitempty"`
	Answer    answer       `json:"answer"`
}

// observer is told what changed.
type observer interface {
	serviceChanged(key string)
	memberChanged(name string)
	// stateChanged is called if the state of a member changes, which its services depend on.
	stateChanged(name string)
	// everythingChanged is called if something changes that all services depend on, such as the cluster
	// ID of a cluster that is watched.
	everythingChanged()
	viewChanged()
}

// newView returns a view of a cluster that is not watched yet.
func newView(c *cluster.Cluster, namespace string, to observer) *view {
	v := &view{Cluster: c, namespace: namespace}
	v.ping = func(ctx context.Context) (time.Time, error) { return ping(ctx, c.Kubernetes.Discovery().RESTClient()) }
	clusterSet, multicluster := c.MCS.ClusterSetV1alpha1(), c.MCS.MulticlusterXV1beta1()
	exports := cache.Indexers{byService: func(object any) ([]string, error) {
		exported := object.(*clustersetv1alpha1.ExportedService)
		return []string{exported.Namespace + "/" + exported.Spec.Service}, nil
	}, byCluster: func(object any) ([]string, error) {
		return []string{object.(*clustersetv1alpha1.ExportedService).Spec.Cluster}, nil
	}}
	slices := cache.Indexers{byService: func(object any) ([]string, error) {
		slice := object.(*clustersetv1alpha1.ExportedEndpointSlice)
		return []string{slice.Namespace + "/" + slice.Spec.Service}, nil
	}}
	v.members = newResource(c, "members", &clustersetv1alpha1.Member{}, clusterSet.Members(), cache.Indexers{}, to.viewChanged)
	v.exports = newResource(c, "exportedservices", &clustersetv1alpha1.ExportedService{}, clusterSet.ExportedServices(namespace), exports, to.viewChanged)
	v.slices = newResource(c, "exportedendpointslices", &clustersetv1alpha1.ExportedEndpointSlice{}, clusterSet.ExportedEndpointSlices(namespace), slices, to.viewChanged)
	v.imports = newResource(c, "serviceimports", &multiclusterxv1beta1.ServiceImport{}, multicluster.ServiceImports(namespace), cache.Indexers{}, to.viewChanged)
	v.localExports = newResource(c, "serviceexports", &multiclusterxv1beta1.ServiceExport{}, multicluster.ServiceExports(namespace), cache.Indexers{}, to.viewChanged)
	v.follow(to)
	return v
}

// follow reports all changes.
func (v *view) follow(to observer) {
	handle(v.members, func(old, current *clustersetv1alpha1.Member) {
		v.noteEvent(to)
		name := cmp.Or(current, old).Name
		to.memberChanged(name)
		switch {
		case isLocal(old) != isLocal(current):
			to.everythingChanged()
		case old == nil || current == nil || standing(old) != standing(current):
			to.stateChanged(name)
		}
	})
	handle(v.exports, func(old, current *clustersetv1alpha1.ExportedService) {
		v.noteEvent(to)
		one := cmp.Or(current, old)
		to.serviceChanged(one.Namespace + "/" + one.Spec.Service)
	})
	handle(v.slices, func(old, current *clustersetv1alpha1.ExportedEndpointSlice) {
		v.noteEvent(to)
		one := cmp.Or(current, old)
		to.serviceChanged(one.Namespace + "/" + one.Spec.Service)
	})
	handle(v.imports, func(old, current *multiclusterxv1beta1.ServiceImport) {
		v.noteEvent(to)
		one := cmp.Or(current, old)
		to.serviceChanged(one.Namespace + "/" + one.Name)
	})
	handle(v.localExports, func(old, current *multiclusterxv1beta1.ServiceExport) {
		v.noteEvent(to)
		one := cmp.Or(current, old)
		to.serviceChanged(one.Namespace + "/" + one.Name)
	})
}

func isLocal(member *clustersetv1alpha1.Member) bool {
	return member != nil && member.Status.State == clustersetv1alpha1.MemberLocal
}

// standing is what services depend on.
func standing(member *clustersetv1alpha1.Member) any {
	status := &member.Status
	return [...]any{status.State, status.LostPolicy, status.Expired, status.ClusterID}
}

func (v *view) noteEvent(to observer) {
	v.mu.Lock()
	v.lastEvent = time.Now()
	v.mu.Unlock()
	to.viewChanged()
}

func (v *view) resources() []*resource {
	return []*resource{v.members, v.exports, v.slices, v.imports, v.localExports}
}

// measure measures how long the cluster takes to answer.
func (v *view) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	started := time.Now()
	clock, err := v.ping(ctx)
	took := time.Since(started)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.answer.Failure = truncate.Characters(cluster.Diagnose(v.Context, err, cluster.MCSUserAdvice).Error(), maxMessage)
		return
	}
	at := metav1.NewTime(started)
	v.answer = answer{At: &at, Milliseconds: took.Milliseconds()}
	if !clock.IsZero() { // it has whole seconds
		v.answer.AheadSeconds = int64(clock.Add(time.Second/2).Sub(started.Add(took/2)).Round(time.Second) / time.Second)
	}
}

// ping sends a request to mcs-apiserver, and returns the time of the answer.
func ping(ctx context.Context, client rest.Interface) (time.Time, error) {
	request := client.Get().AbsPath("/apis/" + clustersetv1alpha1.SchemeGroupVersion.String())
	concrete, ok := client.(*rest.RESTClient)
	if !ok || concrete.Client == nil {
		return time.Time{}, request.Do(ctx).Error()
	}
	// Results of client-go have no headers.
	plain, err := http.NewRequestWithContext(ctx, http.MethodGet, request.URL().String(), nil)
	if err != nil {
		return time.Time{}, err
	}
	response, err := concrete.Client.Do(plain)
	if err != nil {
		return time.Time{}, err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return time.Time{}, request.Do(ctx).Error() // which says why
	}
	clock, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // the cluster answers, whatever its clock says
	}
	return clock, nil
}

// status returns how current the view is.
func (v *view) status(entries []clustersetv1alpha1.Member) viewStatus {
	status := viewStatus{Context: v.Context, Namespace: v.namespace, Node: v.nameOf(entries), Synced: true}
	status.ClusterID, status.ClusterSet = members.Identity(entries)
	for _, r := range v.resources() {
		failed := r.failed()
		if failed != nil {
			status.Unreadable = append(status.Unreadable, *failed)
		}
		status.Synced = status.Synced && (r.synced() || failed != nil)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	status.Answer = v.answer
	if !v.lastEvent.IsZero() {
		at := metav1.NewTime(v.lastEvent)
		status.LastEvent = &at
	}
	return status
}

// entries returns the members that the cluster knows, sorted by name.
func (v *view) entries() []clustersetv1alpha1.Member {
	var entries []clustersetv1alpha1.Member
	for _, object := range v.members.informer.GetStore().List() {
		if member, ok := object.(*clustersetv1alpha1.Member); ok {
			entries = append(entries, *member)
		}
	}
	slices.SortFunc(entries, func(a, b clustersetv1alpha1.Member) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

// nameOf returns the name of the cluster of a view in the graph.
func (v *view) nameOf(entries []clustersetv1alpha1.Member) string {
	for i := range entries {
		if entries[i].Status.State == clustersetv1alpha1.MemberLocal {
			return entries[i].Name
		}
	}
	return "context " + v.Context // no cluster has such a name
}

// facts returns what the view knows about a service.
func (v *view) facts(key string, entries []clustersetv1alpha1.Member) serviceFacts {
	namespace, service, _ := strings.Cut(key, "/")
	return serviceFacts{
		cluster: v.nameOf(entries), importsKnown: v.imports.synced(), exportsKnown: v.exports.synced(), slicesKnown: v.slices.synced(),
		serviceExport: get[multiclusterxv1beta1.ServiceExport](v.localExports, key),
		Facts: explain.Facts{
			Context: v.Context, Namespace: namespace, Service: service, Now: time.Now(),
			Exports: indexed[clustersetv1alpha1.ExportedService](v.exports, byService, key), Slices: indexed[clustersetv1alpha1.ExportedEndpointSlice](v.slices, byService, key),
			Members: entries, MembersKnown: v.members.synced(), ServiceImport: get[multiclusterxv1beta1.ServiceImport](v.imports, key),
		},
	}
}

// readNamespace finds out whether the namespace is why a service, or what some clusters export, is not imported.
func (v *view) readNamespace(ctx context.Context, facts *serviceFacts) {
	if !facts.importsKnown {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	object, err := v.Kubernetes.CoreV1().Namespaces().Get(ctx, facts.Namespace, metav1.GetOptions{})
	if cluster.IsObjectNotFound(err) {
		object, err = (*corev1.Namespace)(nil), nil
	}
	facts.NamespaceObject, facts.NamespaceKnown = object, err == nil
}
