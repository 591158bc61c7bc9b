// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// The facts of a world that replicas hear of, by name. The other facts are the
// exports, which have the name of the import, and the derived Services.
const (
	namespaceFact  = "/namespace"  // the UID of the namespace, or ""
	membershipFact = "/membership" // the UID of the claim, or ""
	derivedFact    = "/derived/"   // the mark of the derived Service, or "" if there is none
)

// fact is one of the things that replicas hear of. Its value is "" if it does not
// exist. Sequence counts the changes.
type fact struct {
	value    string
	sequence int
}

// world is a cluster with replicas that hear of what happens in any order, and a
// controller that creates derived Services for what one of the replicas shows.
type world struct {
	t        *testing.T
	seed     int64
	maxDelay time.Duration
	store    *recordtest.Store
	names    []string
	replicas []*replica
	began    time.Time
	// changed holds a value while the controller has not seen what is shown.
	changed chan struct{}

	mu    sync.Mutex
	facts map[string]fact
	// births counts, for each name, how often its import began to exist.
	births map[string]int
	// uids are all UIDs that any replica ever showed, by name.
	uids map[string]map[types.UID]bool
}

func newWorld(t *testing.T, seed int64, maxDelay time.Duration, names ...string) *world {
	w := &world{
		t: t, seed: seed, maxDelay: maxDelay, store: recordtest.New(), names: names, began: time.Now(), changed: make(chan struct{}, 1),
		facts:  map[string]fact{namespaceFact: {"ns-1", 1}, membershipFact: {"claim-1", 1}},
		births: map[string]int{}, uids: map[string]map[types.UID]bool{},
	}
	for _, name := range names {
		w.uids[name] = map[types.UID]bool{}
	}
	for i := range 2 {
		w.replicas = append(w.replicas, &replica{world: w, id: i, apart: map[string]bool{}})
	}
	return w
}

// delay returns a delay that depends on the seed and on what is delayed only, so
// that a history can be repeated.
func (w *world) delay(what ...any) time.Duration {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, w.seed, what)
	return time.Duration(hash.Sum64()%uint64(w.maxDelay/2)) + 1
}

// exists reports whether an import should exist.
func (w *world) exists(name string) bool {
	return w.facts[namespaceFact].value != "" && w.facts[membershipFact].value != "" && w.facts[name].value != ""
}

// change changes a fact, which all replicas hear of some time later.
func (w *world) change(name, value string) {
	w.mu.Lock()
	existed := map[string]bool{}
	for _, imported := range w.names {
		existed[imported] = w.exists(imported)
	}
	changed := fact{value, w.facts[name].sequence + 1}
	w.facts[name] = changed
	for _, imported := range w.names {
		if w.exists(imported) && !existed[imported] {
			w.births[imported]++
		}
	}
	w.mu.Unlock()
	for _, r := range w.replicas {
		time.AfterFunc(w.delay("hear", r.id, name, changed), func() { r.hear(name, changed) })
	}
}

func (w *world) value(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.facts[name].value
}

// control creates and deletes derived Services, as mcs-controller does, until the
// context ends. It asks the first replica that is running.
func (w *world) control(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		if wait(ctx, w.maxDelay/10) != nil {
			return
		}
		leader := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.running() })
		if leader < 0 {
			continue
		}
		shown := w.replicas[leader].shows()
		for _, name := range w.names {
			wanted := ""
			if identity, ok := shown[name]; ok {
				wanted = cmp.Or(identity.Mark(), "unmarked")
			}
			if w.value(derivedFact+name) != wanted {
				w.change(derivedFact+name, wanted)
			}
		}
	}
}

// showsOtherwise tells the controller that something else is shown.
func (w *world) showsOtherwise() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// replica is a server.
type replica struct {
	world *world
	id    int

	mu sync.Mutex
	// apart are the facts that the replica does not hear of at present.
	apart map[string]bool
	// cut is set while the replica cannot reach the store.
	cut bool
	run *process

	// gone are the UIDs that the replica showed and withdrew, at any time.
	gone sync.Map
}

// process is a replica from its start to its end.
type process struct {
	replica    *replica
	lives      *Lives
	namespaces cache.Indexer
	ctx        context.Context
	stop       func()

	mu   sync.Mutex
	view map[string]fact
	// unverified are the marks of the derived Services that were found at the start,
	// while exports are unknown, by import.
	unverified map[string]string
	lifecycles map[string]*Lifecycle
	shown      map[string]Identity
}

func (r *replica) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run != nil
}

// shows returns what the replica shows; nothing if it does not run.
func (r *replica) shows() map[string]Identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil
	}
	r.run.mu.Lock()
	defer r.run.mu.Unlock()
	return maps.Clone(r.run.shown)
}

// hear delivers a fact, unless a later value has arrived.
func (r *replica) hear(name string, heard fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil && !r.apart[name] {
		r.run.hear(name, heard)
	}
}

// part separates the replica from a fact, or joins the two again.
func (r *replica) part(name string, apart bool) {
	r.world.mu.Lock()
	current := r.world.facts[name]
	r.world.mu.Unlock()
	r.mu.Lock()
	r.apart[name] = apart
	r.mu.Unlock()
	if !apart {
		time.AfterFunc(r.world.delay("rejoin", r.id, name, current), func() {
			r.hear(name, current)
			r.mu.Lock()
			p := r.run
			r.mu.Unlock()
			r.release(p)
		})
	}
}

// setCut cuts the replica off from the store, or connects the two again.
func (r *replica) setCut(cut bool) {
	r.mu.Lock()
	r.cut = cut
	r.mu.Unlock()
	r.world.store.BreakWatches()
}

// start starts the replica. It knows everything that happened until then, except
// for what it does not hear of at present.
func (r *replica) start() {
	w := r.world
	ctx, cancel := context.WithCancel(klog.NewContext(w.t.Context(), logr.Discard()))
	p := &process{
		replica: r, ctx: ctx, namespaces: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		view: map[string]fact{}, lifecycles: map[string]*Lifecycle{}, shown: map[string]Identity{},
	}
	p.lives = New(Config{
		Store: link{r}, Clock: clock.RealClock{}, Namespaces: corev1listers.NewNamespaceLister(p.namespaces), GetNamespace: w.getNamespace,
	})
	version, err := p.lives.Load(ctx)
	if err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	facts := maps.Clone(w.facts)
	w.mu.Unlock()
	r.mu.Lock()
	maps.DeleteFunc(facts, func(name string, _ fact) bool { return r.apart[name] })
	r.mu.Unlock()
	for name, known := range facts {
		p.hear(name, known)
	}
	var running sync.WaitGroup
	running.Go(func() { p.lives.Run(ctx, version, Callbacks{Changed: p.changed, Living: p.shownLives}) })
	p.stop = func() {
		cancel()
		running.Wait()
	}
	p.unverified = map[string]string{}
	for _, name := range w.names {
		if mark := facts[derivedFact+name].value; mark != "" {
			p.unverified[name] = mark
		}
	}
	for _, name := range w.names {
		p.process(name)
	}
	r.release(p)
	r.mu.Lock()
	r.run = p
	r.mu.Unlock()
	w.showsOtherwise()
}

func (r *replica) kill() {
	r.mu.Lock()
	p := r.run
	r.run = nil
	r.mu.Unlock()
	if p != nil {
		p.stop()
		r.world.showsOtherwise()
	}
}

// release ends the retention of imports of a process, if all exports are known.
func (r *replica) release(p *process) {
	r.mu.Lock()
	settled := !slices.ContainsFunc(r.world.names, func(name string) bool { return r.apart[name] })
	r.mu.Unlock()
	if !settled || p == nil {
		return
	}
	p.mu.Lock()
	p.unverified = nil
	p.mu.Unlock()
	p.changed("ns", nil)
}

func (p *process) shownLives(string, types.UID) map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	lives := map[string]int64{}
	for name, shown := range p.shown {
		lives[name] = shown.Life
	}
	return lives
}

// changed processes names a moment later, as a work queue does.
func (p *process) changed(_ string, names []string) {
	if len(names) == 0 {
		names = p.replica.world.names
	}
	for _, name := range names {
		p.mu.Lock()
		sequence := p.view[name].sequence
		p.mu.Unlock()
		time.AfterFunc(p.replica.world.delay("work", p.replica.id, name, sequence, time.Since(p.replica.world.began)), func() { p.process(name) })
	}
}

func (p *process) hear(name string, heard fact) {
	p.mu.Lock()
	if p.view[name].sequence >= heard.sequence {
		p.mu.Unlock()
		return
	}
	before := p.view[name].value
	p.view[name] = heard
	p.mu.Unlock()
	if name == namespaceFact {
		_ = p.namespaces.Replace(nil, "")
		if heard.value != "" {
			_ = p.namespaces.Add(namespaceWith(heard.value))
		}
		p.lives.NamespaceChanged(types.UID(before))
	}
	p.changed("ns", nil)
}

// process does what the projection does about one import.
func (p *process) process(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	namespace, membership := p.view[namespaceFact].value, p.view[membershipFact].value
	var next *Identity
	ending := false
	if namespace != "" && membership != "" {
		var life Life
		life, ending = p.lives.Life("ns", types.UID(namespace), name, Marked(p.view[derivedFact+name].value, types.UID(namespace)))
		identity := Scope{NamespaceUID: types.UID(namespace), MembershipUID: types.UID(membership), Since: p.replica.world.began}.Identity(name, life)
		next = &identity
	}
	if p.lifecycles[name] == nil {
		p.lifecycles[name] = &Lifecycle{}
	}
	exported := p.view[name].value != ""
	mark, retained := p.unverified[name]
	if retained && (exported || next == nil || Marked(mark, types.UID(namespace)) != next.Life) {
		delete(p.unverified, name)
		retained = false
	}
	decision := p.lifecycles[name].Decide(next, ending, exported || retained, time.Now())
	if decision.End != nil {
		p.lives.End("ns", types.UID(namespace), name, *decision.End, nil)
	}
	if decision.Again > 0 {
		time.AfterFunc(decision.Again, func() { p.process(name) })
	}
	switch {
	case decision.Show != nil:
		p.show(name, *decision.Show)
	case decision.Delete:
		p.withdraw(name)
	}
}

func (p *process) show(name string, identity Identity) {
	w := p.replica.world
	if p.shown[name].UID != identity.UID {
		p.withdraw(name)
		if _, gone := p.replica.gone.Load(identity.UID); gone {
			w.t.Errorf("seed %d: replica %d shows life %d of %s again", w.seed, p.replica.id, identity.Life, name)
		}
	}
	p.shown[name] = identity
	w.showsOtherwise()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids[name][identity.UID] = true
}

func (p *process) withdraw(name string) {
	if shown, ok := p.shown[name]; ok {
		p.replica.gone.Store(shown.UID, true)
		delete(p.shown, name)
		p.replica.world.showsOtherwise()
	}
}

func namespaceWith(uid string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: types.UID(uid)}}
}

func (w *world) getNamespace(context.Context, string, metav1.GetOptions) (*corev1.Namespace, error) {
	if uid := w.value(namespaceFact); uid != "" {
		return namespaceWith(uid), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "ns")
}

// link is the connection of a replica to the store.
type link struct{ *replica }

var errCut = errors.New("the store is unreachable")

func (l link) reach() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errCut
	}
	return nil
}

func (l link) List(ctx context.Context) (map[string][]byte, string, error) {
	if err := l.reach(); err != nil {
		return nil, "", err
	}
	return l.world.store.List(ctx)
}

func (l link) Update(ctx context.Context, name string, update func([]byte) ([]byte, error)) ([]byte, string, error) {
	if err := l.reach(); err != nil {
		return nil, "", err
	}
	return l.world.store.Update(ctx, name, update)
}

func (l link) Watch(ctx context.Context, from string, observe func(string, []byte, string)) error {
	if err := l.reach(); err != nil {
		return err
	}
	return l.world.store.Watch(ctx, from, func(name string, data []byte, version string) {
		if wait(ctx, l.world.delay("watch", l.id, version)) == nil {
			observe(name, data, version)
		}
	})
}
