// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// lifecycles are those of all imports that are shown. It is safe for concurrent
// use.
type lifecycles struct {
	mu sync.Mutex
	// byNamespace holds them by namespace and name.
	byNamespace map[string]map[string]*lifecycle
}

// lifecycle is that of an import.
type lifecycle struct {
	importidentity.Lifecycle
	// members are those that export it, or did so last. A hub counts for all clusters that
	// it relays.
	members []string
}

// exporters returns the members because of which exports exist, sorted.
func exporters(exports []member.Export) []string {
	members := make([]string, 0, len(exports))
	for _, export := range exports {
		member := export.Service.Spec.Cluster
		if path := export.Service.Spec.Path; len(path) > 0 {
			member = path[len(path)-1]
		}
		members = append(members, member)
	}
	slices.Sort(members)
	return slices.Compact(members)
}

// decide returns what to do about an import, see importidentity.Lifecycle, and the members
// that export it, or did so last. members are those that export it now.
func (l *lifecycles) decide(service types.NamespacedName, next *importidentity.Identity, ending, exported bool, members []string, now time.Time) (importidentity.Decision, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inNamespace := l.byNamespace[service.Namespace]
	held := inNamespace[service.Name]
	if held == nil {
		held = &lifecycle{}
	}
	if len(members) > 0 {
		held.members = members
	}
	decision := held.Decide(next, ending, exported, now)
	switch {
	case held.Shown() == nil:
		delete(inNamespace, service.Name)
		if len(inNamespace) == 0 {
			delete(l.byNamespace, service.Namespace)
		}
	case inNamespace == nil:
		l.byNamespace[service.Namespace] = map[string]*lifecycle{service.Name: held}
	default:
		inNamespace[service.Name] = held
	}
	return decision, held.members
}

// services returns the imports that are shown in a namespace.
func (l *lifecycles) services(namespace string) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	services := make([]types.NamespacedName, 0, len(l.byNamespace[namespace]))
	for name := range l.byNamespace[namespace] {
		services = append(services, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return services
}

// namespaces returns the namespaces in which imports are shown.
func (l *lifecycles) namespaces() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	namespaces := make([]string, 0, len(l.byNamespace))
	for namespace := range l.byNamespace {
		namespaces = append(namespaces, namespace)
	}
	return namespaces
}

// lives returns the lives of the imports that are shown in a namespace.
func (l *lifecycles) lives(namespace string, uid types.UID) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	lives := map[string]int64{}
	for name, lifecycle := range l.byNamespace[namespace] {
		if shown := lifecycle.Shown(); shown.Scope.NamespaceUID == uid {
			lives[name] = shown.Life
		}
	}
	return lives
}

// living returns the lives of the imports that exist in a namespace: those that are
// shown, and those of derived Services, which another replica may show.
func (p *Projection) living(namespace string, uid types.UID) map[string]int64 {
	lives := p.imports.lives(namespace, uid)
	derived, err := p.derivedServices(namespace)
	if err != nil {
		return lives // unreachable: the cache has synced
	}
	for service, found := range derived {
		if _, shown := lives[service.Name]; !shown {
			lives[service.Name] = importidentity.Marked(found.Annotations[multicluster.ImportLifeAnnotation], uid)
		}
	}
	return lives
}
