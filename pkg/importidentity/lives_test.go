// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// recording runs Lives of a cluster.
type recording struct {
	*Lives
	t     *testing.T
	store *recordtest.Store
	// cached are the namespaces that the cache knows.
	cached cache.Indexer
	stop   func()

	mu sync.Mutex
	// existing are the namespaces that exist, shown the imports in namespace a.
	existing map[string]types.UID
	shown    map[string]int64
	changed  []string
}

// newRecording returns Lives that have been loaded and run. The namespaces a and b
// exist, and others that the cache does not know yet.
func newRecording(t *testing.T, store *recordtest.Store, uncached ...string) *recording {
	t.Helper()
	r := &recording{
		t: t, store: store, cached: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		existing: map[string]types.UID{"a": "uid-a", "b": "uid-b"}, shown: map[string]int64{},
	}
	for name, uid := range r.existing {
		r.cache(name, uid)
	}
	for _, name := range uncached {
		r.exist(name, types.UID("uid-"+name))
	}
	r.Lives = New(Config{
		Store: store, Clock: clock.RealClock{}, Namespaces: corev1listers.NewNamespaceLister(r.cached),
		GetNamespace: func(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a namespace is read without a deadline")
			}
			if uid := r.uid(name); uid != "" {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}, nil
			}
			return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
		},
	})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	version, err := r.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, version, Callbacks{Changed: r.note, Living: r.lives}) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	synctest.Wait()
	return r
}

func (r *recording) cache(name string, uid types.UID) {
	if err := r.cached.Update(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}); err != nil {
		r.t.Error(err)
	}
}

// exist makes a namespace exist, or not if the UID is empty, without the cache.
func (r *recording) exist(name string, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.existing[name] = uid
}

func (r *recording) uid(namespace string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.existing[namespace]
}

func (r *recording) lives(namespace string, uid types.UID) map[string]int64 {
	if r.uid(namespace) != uid {
		r.t.Errorf("asked for namespace %s with UID %s", namespace, uid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

func (r *recording) note(namespace string, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = append(r.changed, fmt.Sprint(namespace, names))
}

// expectChanged compares what was reported with what is expected.
func (r *recording) expectChanged(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.changed)
	if got := slices.Compact(r.changed); !slices.Equal(got, want) {
		r.t.Errorf("%v changed, want %v", got, want)
	}
	r.changed = nil
}

// number returns the present life of a name in namespace a.
func (r *recording) number(name string) int64 {
	life, _ := r.Life("a", "uid-a", name, 0)
	return life.Number
}

// documentOf returns the name of the document with the life of a name.
func documentOf(namespace types.UID, name string) string { return shardOf(namespace, name).String() }

// neighbors returns names with lives in the same document.
func neighbors(count int) []string {
	var found []string
	for i := 0; len(found) < count; i++ {
		if name := fmt.Sprintf("service-%d", i); shardOf("", name) == shardOf("", "service-0") {
			found = append(found, name)
		}
	}
	return found
}

func (r *recording) expectDocuments(want ...string) {
	r.t.Helper()
	documents, _, err := r.store.List(r.t.Context())
	if got := slices.Sorted(maps.Keys(documents)); err != nil || !slices.Equal(got, want) {
		r.t.Errorf("documents are %v (%v), want %v", got, err, want)
	}
}

// R163: ends in one document are recorded in one write, and reported afterwards.
func TestEndsAreRecordedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r := newRecording(t, store)
		names := neighbors(100)
		for _, name := range names {
			r.End("a", "uid-a", name, 0, nil)
			time.Sleep(flushDelay / 200)
		}
		r.End("b", "uid-b", "web", 7, nil)
		if life, ending := r.Life("b", "uid-b", "web", 7); life.Number != 7 || !ending {
			t.Errorf("before it is recorded the life is %v, ending: %t", life, ending)
		}
		time.Sleep(time.Second)
		if life, ending := r.Life("b", "uid-b", "web", 0); life.Number != 8 || ending || r.number(names[99]) != 1 {
			t.Errorf("the lives are %v, ending: %t, and %d", life, ending, r.number(names[99]))
		}
		if got := store.Version(); got != 2 {
			t.Errorf("%d writes, want one per document", got)
		}
		r.End("a", "uid-a", names[1], 0, nil)
		time.Sleep(time.Second)
		if got := store.Version(); got != 2 {
			t.Error("a recorded end was recorded again")
		}
		r.stop()
		again := newRecording(t, store)
		if again.number(names[99]) != 1 {
			t.Error("the record was not loaded")
		}
		again.stop()
	})
}

// R164, R657: exports that come and go cost at most one write per second, after ten at once. What ends
// once in a while does not wait for others in the same document.
func TestWritesOfADocumentAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r := newRecording(t, store)
		for _, name := range append(neighbors(9), "web") {
			r.End("a", "uid-a", name, 0, nil)
			time.Sleep(2 * flushDelay)
			if got := r.number(name); got != 1 {
				t.Errorf("the life is %d, want 1", got)
			}
		}
		time.Sleep(time.Minute)
		before := store.Version()
		for range 2000 { // a minute
			r.End("a", "uid-a", "web", r.number("web"), nil)
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if writes, life := store.Version()-before, r.number("web"); writes > 62+10 || int(life) != writes+1 || life < 50 {
			t.Errorf("%d writes in a minute, and the life is %d", writes, life)
		}
		r.stop()
	})
}

// R163: a write that fails is retried, less and less often; one that hangs does not
// delay other namespaces.
func TestFailedWritesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r := newRecording(t, store)
		var attempts atomic.Int32
		hang := make(chan struct{})
		store.Before(func(_ context.Context, call recordtest.Call) error {
			switch call {
			case recordtest.Call{Method: "Update", Name: documentOf("uid-a", "web")}:
				attempts.Add(1)
				return errors.New("the storage is full")
			case recordtest.Call{Method: "Update", Name: documentOf("uid-b", "web")}:
				<-hang
			}
			return nil
		})
		r.End("b", "uid-b", "web", 0, nil)
		r.End("a", "uid-a", "web", 0, nil)
		time.Sleep(time.Minute)
		r.expectChanged()
		if _, ending := r.Life("a", "uid-a", "web", 0); !ending || attempts.Load() < 10 || attempts.Load() > 20 {
			t.Errorf("ending: %t, after %d attempts", ending, attempts.Load())
		}
		store.Before(nil)
		time.Sleep(maxRetryDelay)
		r.expectChanged("a[web]")
		close(hang)
		time.Sleep(time.Second)
		r.expectChanged("b[web]")
		r.stop()
	})
}

// R161: what another replica records is heard of, also if the watch breaks.
func TestRecordsOfOtherReplicasAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		one, other := newRecording(t, store), newRecording(t, store)
		one.End("a", "uid-a", "web", 0, nil)
		time.Sleep(time.Second)
		other.expectChanged("a[web]")
		store.Before(func(_ context.Context, call recordtest.Call) error {
			if call.Method == "Update" {
				return nil
			}
			return errors.New("the storage is unreachable")
		})
		store.BreakWatches()
		time.Sleep(time.Second)
		one.End("a", "uid-a", "api", 0, nil)
		time.Sleep(10 * retryPeriod)
		other.expectChanged()
		store.Before(nil)
		time.Sleep(10 * retryPeriod)
		other.expectChanged("a[api]")
		one.End("a", "uid-a", "db", 0, nil)
		time.Sleep(time.Second)
		other.expectChanged("a[db]")
		if other.number("web") != 1 || other.number("api") != 1 || other.number("db") != 1 {
			t.Error("the other replica has other lives")
		}
		one.stop()
		other.stop()
	})
}

// R164: the record of a namespace is deleted with the namespace. The next namespace
// of that name has a record of its own.
func TestRecordsAreDeletedWithTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r := newRecording(t, store)
		r.End("a", "uid-a", "web", 0, nil)
		r.End("b", "uid-b", "web", 0, nil)
		time.Sleep(time.Second)
		r.expectDocuments(documentOf("uid-a", "web"), documentOf("uid-b", "web"))
		r.exist("a", "uid-of-the-next")
		r.cache("a", "uid-of-the-next")
		r.NamespaceChanged("uid-a")
		time.Sleep(time.Second)
		r.expectDocuments(documentOf("uid-b", "web"))
		if life, _ := r.Life("a", "uid-of-the-next", "web", 0); life.Number != 0 {
			t.Errorf("the next namespace of the name has life %d", life.Number)
		}
		// Nothing is recorded for a namespace that is gone.
		r.expectChanged("a[web]", "b[web]")
		r.exist("b", "")
		if err := r.cached.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}}); err != nil {
			t.Error(err)
		}
		r.NamespaceChanged("uid-b")
		r.End("b", "uid-b", "api", 0, nil)
		time.Sleep(time.Second)
		r.expectDocuments()
		r.expectChanged("b[api]")
		r.stop()
	})
}

// R164: records that are found at startup without their namespace are deleted,
// unless only the cache does not know the namespace yet.
func TestRecordsWithoutANamespaceAreDeletedAtStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		for name, data := range map[string]string{
			"uid-a.0": `{"namespace":"a"}`, "uid-a.15": `{"namespace":"a"}`, "uid-of-the-former.0": `{"namespace":"b"}`, "uid-c.0": `{"namespace":"c"}`, "uid-d.0": `{"namespace":"d"}`,
		} {
			put(t, store, name, data)
		}
		r := newRecording(t, store, "d")
		time.Sleep(time.Second)
		r.expectDocuments("uid-a.0", "uid-a.15", "uid-d.0")
		r.stop()
	})
}

func put(t *testing.T, store Store, name, data string) {
	t.Helper()
	_, _, err := store.Update(t.Context(), name, func([]byte) ([]byte, error) { return []byte(data), nil })
	if err != nil {
		t.Error(err)
	}
}

// R160: which lives were used is unknown without a record, so that a damaged one is
// replaced by later lives before anything is shown, and while a server runs.
func TestDamagedRecordIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		web := documentOf("uid-a", "web")
		put(t, store, web, "{")
		put(t, store, "uid-of-the-former.1", "{")
		put(t, store, "unknown", "{")
		counted := replaced(t)
		one, other := newRecording(t, store), newRecording(t, store)
		first := one.number("web")
		if first < time.Now().Add(-time.Minute).UnixMilli() || other.number("web") != first || replaced(t) != counted+1 {
			t.Errorf("the lives are %d and %d; %v records were replaced, want one", first, other.number("web"), replaced(t)-counted)
		}
		one.expectDocuments(web, "unknown")
		one.End("a", "uid-a", "web", first, nil)
		time.Sleep(2 * time.Second)
		one.expectChanged("a[web]")
		other.expectChanged("a[web]")

		put(t, store, web, "")
		time.Sleep(2 * time.Second)
		one.expectChanged("a[]")
		other.expectChanged("a[]")
		if got := one.number("web"); got <= first+1 || other.number("web") != got || replaced(t) != counted+2 {
			t.Errorf("the lives are %d and %d, were %d; %v records were replaced, want two", got, other.number("web"), first+1, replaced(t)-counted)
		}
		one.stop()
		other.stop()
	})
}

// replaced returns how many records have been replaced.
func replaced(t *testing.T) float64 {
	t.Helper()
	registerMetrics()
	value, err := testutil.GetCounterMetricValue(damagedRecords)
	if err != nil {
		t.Error(err)
	}
	return value
}

// A record that is lost while a server runs is restored with the next end.
func TestLostRecordIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r := newRecording(t, store)
		names := neighbors(3)
		r.End("a", "uid-a", names[0], 4, nil)
		time.Sleep(time.Second)
		_, _, err := store.Update(t.Context(), documentOf("uid-a", names[0]), func([]byte) ([]byte, error) { return nil, nil })
		if err != nil {
			t.Error(err)
		}
		if life, _ := r.Life("a", "uid-a", names[2], 7); life.Number != 7 {
			t.Errorf("a derived Service has life 7, got %d", life.Number)
		}
		r.End("a", "uid-a", names[1], 0, nil)
		time.Sleep(time.Second)
		again := newRecording(t, store)
		if again.number(names[0]) != 5 || again.number(names[1]) != 1 || again.number(names[2]) != 7 {
			t.Errorf("the lives are %d, %d and %d", again.number(names[0]), again.number(names[1]), again.number(names[2]))
		}
		r.stop()
		again.stop()
	})
}

// R164: a record is compacted once more than maxEnded names are not in use. Imports
// that exist keep their life, and all others of the namespace are reported.
func TestRecordIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		one, other := newRecording(t, store), newRecording(t, store)
		names := neighbors(maxEnded + 4)
		living, livingAgain, added, oneMore, ended := names[0], names[1], names[2], names[3], names[4:]
		one.mu.Lock()
		one.shown = map[string]int64{living: 0, livingAgain: 1, "in-another-document": 0}
		one.mu.Unlock()
		for _, name := range ended {
			one.End("a", "uid-a", name, 2, nil)
		}
		one.End("a", "uid-a", livingAgain, 0, nil)
		time.Sleep(time.Second)
		if got := one.number(added); got != 0 {
			t.Errorf("a new import has life %d before the compaction", got)
		}
		other.mu.Lock()
		other.changed = nil
		other.mu.Unlock()
		one.End("a", "uid-a", oneMore, 0, nil)
		time.Sleep(time.Second)
		other.expectChanged("a[]")
		for _, replica := range []*recording{one, other} {
			for name, want := range map[string]int64{living: 0, livingAgain: 1, ended[0]: 4, oneMore: 4, added: 4} {
				if got := replica.number(name); got != want {
					t.Errorf("%s has life %d, want %d", name, got, want)
				}
			}
		}
		documents, _, err := store.List(t.Context())
		if got := len(documents[documentOf("uid-a", living)]); err != nil || got > 200 {
			t.Errorf("the document has %d bytes, %v", got, err)
		}
		one.stop()
		other.stop()
	})
}

func TestLoadRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		put(t, store, documentOf("uid-a", "web"), `{"namespace":"a","lives":{"web":[3,0]}}`)
		attempts := 0
		store.Before(func(context.Context, recordtest.Call) error {
			if attempts++; attempts < 5 {
				return errors.New("the storage is unreachable")
			}
			return nil
		})
		r := newRecording(t, store)
		if got := r.number("web"); got != 3 || r.LoadError() != nil {
			t.Errorf("the life is %d after %d attempts, %v", got, attempts, r.LoadError())
		}
		r.stop()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		cancel()
		if _, err := r.Load(ctx); err == nil || !errors.Is(r.LoadError(), err) {
			t.Errorf("the records were loaded after the end of the context; the error is %v", r.LoadError())
		}
	})
}
