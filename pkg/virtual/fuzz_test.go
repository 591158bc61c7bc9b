// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// FuzzStore compares replicas with a model while objects change, clients list and watch
// in all ways, time passes, and replicas restart. The input decides what happens.
//
// R365: every read is the state at one version, every watch the difference between two,
// and a version is rejected only if it is old or of another replica.
func FuzzStore(f *testing.F) {
	f.Add([]byte("set, list and watch"))
	f.Fuzz(func(t *testing.T, input []byte) {
		const steps = 60
		synctest.Test(t, func(t *testing.T) {
			// After each consistent read the watch cache keeps a goroutine for three seconds.
			t.Cleanup(func() { time.Sleep(5 * time.Second) })
			time.Sleep(26 * 365 * 24 * time.Hour) // versions begin in 2024, the bubble in 2000
			w := &world{t: t, input: input}
			w.lives = []*life{w.begin(), w.begin()}
			for _, l := range w.lives {
				l.sync()
			}
			for range steps {
				if len(w.input) == 0 {
					break
				}
				w.step()
				w.settle()
			}
			for _, l := range w.lives {
				l.end()
				w.settle()
			}
		})
	})
}

// world is all replicas, and what clients know.
type world struct {
	t     *testing.T
	input []byte
	lives []*life
	// versions are those that a replica issued, in order.
	versions []issuedVersion
}

type issuedVersion struct {
	by      *life
	version uint64
	at      time.Time
}

// life is a replica from its start to its end.
type life struct {
	*model
	*virtual.Store
	storage  storage.Interface
	synced   bool
	watchers []*modelWatcher
	end      func()
}

// below returns a number below n that the input determines.
func (w *world) below(n int) int {
	if len(w.input) == 0 {
		return 0
	}
	next := int(w.input[0])
	w.input = w.input[1:]
	return next % n
}

func (w *world) pick(texts ...string) string { return texts[w.below(len(texts))] }

func (w *world) selection() selection {
	return selection{w.pick("", "a", "b"), w.pick("", "web", "db")}
}

func (w *world) object() object {
	namespace, name := w.pick("a", "b"), w.pick("x", "y", "z")
	return object{namespace: namespace, name: name, uid: w.pick("1", "1", "1", "2"), ip: w.pick("10.0.0.1", "10.0.0.2"), tier: w.pick("web", "db")}
}

// begin starts a replica that has computed nothing.
func (w *world) begin() *life {
	store, registry := newRegistry(w.t, clock.RealClock{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	l := &life{model: newModel(), Store: store, storage: registry.Storage.Storage}
	l.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		registry.Destroy()
	})
	w.t.Cleanup(l.end)
	return l
}

// step does one thing.
func (w *world) step() {
	at := w.below(len(w.lives))
	l := w.lives[at]
	switch w.below(12) {
	case 0, 1, 2:
		for range 1 + w.below(20) {
			l.set(w.t, l.Store, w.object())
		}
	case 3:
		l.remove(w.t, l.Store, w.pick("a", "b"), w.pick("x", "y", "z"), l.newest)
	case 4:
		l.sync()
	case 5:
		w.get(l)
	case 6, 7:
		w.list(l)
	case 8, 9:
		w.watch(l)
	case 10:
		time.Sleep([]time.Duration{time.Millisecond, time.Second, 30 * time.Second, promised + time.Second, remembered + time.Second}[w.below(5)])
	case 11:
		l.end()
		next := w.begin()
		for _, held := range l.objects { // what is computed is the same
			next.set(w.t, next.Store, held)
		}
		w.settle() // watches of the former life end
		if w.below(3) > 0 {
			next.sync()
		}
		w.lives[at] = next
	}
}

func (l *life) sync() {
	l.MarkSynced()
	l.synced = true
}

// newest returns the version that the replica issued last. Before everything is computed it
// is unknown, and does not matter: nobody can read the versions before.
func (l *life) newest() uint64 {
	version, err := l.storage.GetCurrentResourceVersion(context.Background())
	if err != nil && len(l.changes) > 0 {
		return l.changes[len(l.changes)-1].version
	}
	return version
}

// settle lets everything happen that is to happen, and checks all watches.
func (w *world) settle() {
	w.t.Helper()
	time.Sleep(200 * time.Millisecond)
	synctest.Wait()
	for _, l := range w.lives {
		if l.synced {
			if version := l.newest(); version > 0 {
				w.versions = append(w.versions, issuedVersion{l, version, time.Now()})
			}
		}
		for _, watcher := range l.watchers {
			watcher.check(w.t, l.model)
		}
	}
}

// asked is a version that a client asks for.
type asked struct {
	text string
	// version is 0 for any. mustFail and mayFail are whether it is expired.
	version           uint64
	mustFail, mayFail bool
	invalid           bool
}

// version returns a version that a client may ask a replica for.
func (w *world) version(l *life) asked {
	switch choice := w.below(8); {
	case choice == 0:
		return asked{}
	case choice == 1:
		return asked{text: "0"}
	case choice == 2:
		return asked{text: w.pick("x", "-1", "1.5", "99999999999999999999"), invalid: true}
	case choice == 3 && len(w.versions) > 0: // never issued
		unknown := w.versions[len(w.versions)-1].version + 1_000_000
		return asked{text: strconv.FormatUint(unknown, 10), version: unknown, mustFail: true}
	case len(w.versions) > 0:
		back := min(w.below(256), len(w.versions)-1)
		known := w.versions[len(w.versions)-1-back]
		age := time.Since(known.at)
		return asked{
			text: strconv.FormatUint(known.version, 10), version: known.version,
			mustFail: known.by != l || age > remembered, mayFail: age > promised,
		}
	}
	return asked{}
}

// failed checks the error of a read, and reports whether there is one.
func (w *world) failed(l *life, a asked, what string, err error) bool {
	w.t.Helper()
	switch {
	case !l.synced:
		if !apierrors.IsServiceUnavailable(err) {
			w.t.Fatalf("%s before everything is computed: %v", what, err)
		}
	case a.invalid:
		if !apierrors.IsBadRequest(err) {
			w.t.Fatalf("%s at invalid version %q: %v", what, a.text, err)
		}
	case a.mustFail && !apierrors.IsResourceExpired(err):
		w.t.Fatalf("%s at version %s, which this replica did not issue recently: %v", what, a.text, err)
	case err != nil && !a.mustFail && (!a.mayFail || !apierrors.IsResourceExpired(err)):
		w.t.Fatalf("%s at version %q: %v", what, a.text, err)
	}
	return err != nil
}

func (w *world) get(l *life) {
	namespace, name, a := w.pick("a", "b"), w.pick("x", "y", "z"), w.version(l)
	var read multicluster.ServiceImport
	err := l.storage.Get(w.t.Context(), prefix+"/"+namespace+"/"+name, storage.GetOptions{ResourceVersion: a.text}, &read)
	held, exists := l.objects[namespace+"/"+name]
	if l.synced && !a.invalid && !a.mustFail && storage.IsNotFound(err) && !exists {
		return
	}
	if !w.failed(l, a, "get", err) && (!exists || objectOf(w.t, &read) != held) {
		w.t.Fatalf("got %+v at version %q, want %+v", objectOf(w.t, &read), a.text, held)
	}
}

func (w *world) list(l *life) {
	s, a := w.selection(), w.version(l)
	match := metav1.ResourceVersionMatch(w.pick("", string(metav1.ResourceVersionMatchExact), string(metav1.ResourceVersionMatchNotOlderThan)))
	limit, token := int64(w.below(3)), w.pick("", "", "", "token")
	if a.text == "" || a.text == "0" && match == metav1.ResourceVersionMatchExact || token != "" {
		match = "" // the API does not allow it
	}
	read := newList()
	err := l.storage.GetList(w.t.Context(), s.key(), storage.ListOptions{
		Recursive: true, ResourceVersion: a.text, ResourceVersionMatch: match,
		Predicate: storage.SelectionPredicate{Label: s.labels(), Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr, Limit: limit, Continue: token},
	}, read)
	if l.synced && token != "" {
		if !apierrors.IsResourceExpired(err) {
			w.t.Fatalf("continue token of another list: %v", err)
		}
		return
	}
	if w.failed(l, a, "list", err) {
		return
	}
	version := parseVersion(w.t, read.ResourceVersion)
	exactly := a.version != 0 && (match == metav1.ResourceVersionMatchExact || match == "" && limit > 0)
	switch {
	case exactly && version != a.version, version < a.version, version > l.newest():
		w.t.Fatalf("a list at version %q, match %q, has version %d; the newest is %d", a.text, match, version, l.newest())
	case !exactly && len(l.changes) > 0 && version < l.changes[len(l.changes)-1].version:
		w.t.Fatalf("a list at version %q has version %d and lacks changes until %d", a.text, version, l.changes[len(l.changes)-1].version)
	}
	var got []object
	for i := range read.Items {
		got = append(got, objectOf(w.t, &read.Items[i]))
	}
	if want := l.at(version, s); !slices.Equal(got, want) {
		w.t.Fatalf("a list of %+v at version %q, match %q, limit %d, has\n%+v, want\n%+v", s, a.text, match, limit, got, want)
	}
}

func (w *world) watch(l *life) {
	a := w.version(l)
	watcher := &modelWatcher{selection: w.selection(), from: a.version, bookmarks: w.below(2) == 0, slow: w.below(3) == 0}
	options := storage.ListOptions{
		Recursive: true, ResourceVersion: a.text,
		Predicate: storage.SelectionPredicate{Label: watcher.labels(), Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr, AllowWatchBookmarks: watcher.bookmarks},
	}
	if watcher.bookmarks && w.below(2) == 0 {
		options.SendInitialEvents, options.ResourceVersionMatch = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan
		watcher.streams = true
	}
	incoming, err := l.storage.Watch(w.t.Context(), watcher.key(), options)
	if err == nil && l.synced && !a.invalid && (a.mustFail || a.mayFail) {
		// An expired version is an event.
		synctest.Wait()
		first := watch.Event{}
		select {
		case first = <-incoming.ResultChan():
		default:
		}
		if first.Type == watch.Error {
			incoming.Stop()
			err = apierrors.FromObject(first.Object)
		} else if first.Type != "" {
			watcher.take(w.t, first)
		}
	}
	if w.failed(l, a, "watch", err) {
		return
	}
	if a.version == 0 || watcher.streams {
		watcher.from = l.newest()
		watcher.initial = l.at(watcher.from, watcher.selection)
	}
	watcher.start(w.t, incoming)
	l.watchers = append(l.watchers, watcher)
}

// modelWatcher is a watch, and what is known of it.
type modelWatcher struct {
	selection
	bookmarks, streams bool
	// slow watchers receive an event only from time to time, and may be ended.
	slow bool
	// from is the version after which events are expected, after the initial objects.
	from    uint64
	initial []object

	mu       sync.Mutex
	got      []observed
	ended    bool
	complete bool // the bookmark that ends the initial events was received
	last     uint64
	bookmark []uint64 // versions, each followed by the number of events before it
	problem  string
}

func (m *modelWatcher) start(t *testing.T, incoming watch.Interface) {
	ctx := t.Context()
	go func() {
		defer incoming.Stop()
		for {
			if m.slow {
				select {
				case <-time.After(3 * time.Second):
				case <-ctx.Done():
				}
			}
			select {
			case event, more := <-incoming.ResultChan():
				m.mu.Lock()
				if !more {
					m.ended = true
					m.mu.Unlock()
					return
				}
				m.mu.Unlock()
				m.take(t, event)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// take records an event.
func (m *modelWatcher) take(t *testing.T, event watch.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read, ok := encoded.Unwrap(event.Object).(*multicluster.ServiceImport)
	if !ok {
		if m.problem == "" {
			m.problem = fmt.Sprintf("event %s with %+v", event.Type, event.Object)
		}
		return
	}
	version := parseVersion(t, read.ResourceVersion)
	initial := len(m.got) < len(m.initial) // ordered by key
	switch event.Type {
	case watch.Bookmark:
		m.complete = m.complete || read.Annotations[metav1.InitialEventsAnnotationKey] == "true"
		m.bookmark = append(m.bookmark, version, uint64(len(m.got)))
	default:
		m.got = append(m.got, observed{string(event.Type), objectOf(t, read)})
	}
	if !initial && version < m.last {
		m.problem = fmt.Sprintf("version %d after %d", version, m.last)
	}
	if !initial || event.Type == watch.Bookmark {
		m.last = version
	}
}

// check compares what was received with the model.
func (m *modelWatcher) check(t *testing.T, model *model) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problem != "" {
		t.Fatal(m.problem)
	}
	var want []observed
	for _, o := range m.initial {
		want = append(want, observed{"ADDED", o})
	}
	initial := len(want)
	want = append(want, model.since(m.from, m.selection)...)
	got := slices.Clone(m.got)
	sortInitial(got[:min(initial, len(got))])
	if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) && len(got) >= initial {
		t.Fatalf("a watch of %+v after %d received\n%+v, want\n%+v", m.selection, m.from, got, want)
	}
	if !m.slow && !m.ended && len(got) < len(want) {
		t.Fatalf("a watch of %+v after %d received only\n%+v, want\n%+v", m.selection, m.from, got, want)
	}
	if !m.slow && !m.ended && m.streams && !m.complete {
		t.Fatal("a streaming list has no end")
	}
	for i := 0; i < len(m.bookmark); i += 2 {
		if due := initial + len(model.before(m.bookmark[i], m.from, m.selection)); int(m.bookmark[i+1]) < due {
			t.Fatalf("a bookmark with version %d came after %d events, want %d", m.bookmark[i], m.bookmark[i+1], due)
		}
	}
}
