// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

const (
	// retryPeriod is the delay before the records are read again after a failure.
	retryPeriod = time.Second
	// flushDelay is how long the end of a life waits for others of its shard, to be
	// recorded with them. Clients see the withdrawal later by that.
	flushDelay = time.Millisecond
	// A document is written once per writeInterval, after writeBurst times at once: exports
	// that come and go all the time cost one write per second, and others do not wait for them.
	writeInterval = time.Second
	writeBurst    = 10
	// retryDelay is the initial delay before a failed write is retried.
	retryDelay    = 100 * time.Millisecond
	maxRetryDelay = 10 * time.Second
	// timeout limits reads of namespaces; the store limits its own calls.
	timeout = 10 * time.Second
	// recorders is the number of documents that are written concurrently.
	recorders = 4
	// bytesPerSecond is how many bytes of documents are written per second because of one
	// member, and bytesAtOnce how many at once: the storage keeps all of them for minutes, and
	// a document is written as a whole. The ends of 5,000 imports, all in different documents,
	// take less than that.
	bytesPerSecond = 256 << 10
	bytesAtOnce    = 8 << 20
)

// Store keeps the documents of all namespaces. All replicas share it.
type Store interface {
	// List returns all documents, and the version to watch from.
	List(ctx context.Context) (documents map[string][]byte, version string, err error)
	// Update replaces a document by what update returns for the current one, which is
	// nil if absent. Returning nil deletes the document, and returning the same bytes
	// writes nothing. Update returns what is stored afterwards.
	Update(ctx context.Context, name string, update func(current []byte) ([]byte, error)) (stored []byte, version string, err error)
	// Watch calls observe for every change after a version, with nil for a deleted
	// document. It returns nil when the context ends, and an error if the watch
	// breaks.
	Watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error
}

// Config is what Lives needs.
type Config struct {
	Store Store
	Clock clock.PassiveClock
	// Namespaces are those of this cluster. GetNamespace reads one without a cache. What it
	// returns must be certain: the lives of a namespace that is not found are forgotten.
	Namespaces   corev1listers.NamespaceLister
	GetNamespace func(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Namespace, error)
}

// Callbacks connect Lives with the imports of this replica.
type Callbacks struct {
	// Changed is called with names in a namespace whose lives changed; without names,
	// those of all imports in it may have changed. It MUST NOT BLOCK.
	Changed func(namespace string, names []string)
	// Living returns the lives of the imports that exist in a namespace.
	Living func(namespace string, uid types.UID) map[string]int64
}

// Lives knows the present life of every name, and records when a life is over. It
// is safe for concurrent use.
type Lives struct {
	config Config

	mu sync.Mutex
	// queue holds the documents that may have to be written or deleted. It is nil
	// before Run.
	queue workqueue.TypedRateLimitingInterface[shard]
	// known are the documents as far as they have been heard of.
	known map[shard]document
	// ends are the lives whose end is being recorded.
	ends map[shard]ends
	// pace is how often a document is written.
	pace *pace.Limiter[shard]
	// turns are those of documents, within the limits of members.
	turns *pace.Turns[shard]
	// damaged are the documents that have to be replaced.
	damaged sets.Set[shard]
	// loadError is why the records have not been loaded yet.
	loadError error
}

// ends are lives that are over, by name.
type ends struct {
	namespace string
	lives     map[string]int64
	// members are those because of which they are over, by name.
	members map[string][]string
}

// causes returns the members because of which a document has to be written. Nobody is one,
// too: exports may have vanished while no replica was running.
func (e ends) causes() []string {
	var causes []string
	for name := range e.lives {
		if len(e.members[name]) == 0 {
			causes = append(causes, "")
		}
		causes = append(causes, e.members[name]...)
	}
	slices.Sort(causes)
	return slices.Compact(causes)
}

// New returns Lives. It starts nothing.
func New(config Config) *Lives {
	registerMetrics()
	return &Lives{
		config: config, known: map[shard]document{}, ends: map[shard]ends{}, damaged: sets.New[shard](),
		pace:  pace.New[shard](config.Clock, writeInterval, writeBurst),
		turns: pace.NewTurns[shard](config.Clock, bytesPerSecond, bytesAtOnce),
	}
}

// enqueueLocked enqueues a document. Run enqueues all that are known before.
func (l *Lives) enqueueLocked(id shard, delay time.Duration) {
	if l.queue != nil {
		l.queue.AddAfter(id, delay)
	}
}

// newQueue returns a queue of all documents that are known.
func (l *Lives) newQueue() workqueue.TypedRateLimitingInterface[shard] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[shard](retryDelay, maxRetryDelay),
		workqueue.TypedRateLimitingQueueConfig[shard]{Name: "importidentity"}) // in metrics
	for id := range l.known {
		l.queue.Add(id)
	}
	for id := range l.ends {
		l.queue.Add(id)
	}
	for id := range l.damaged {
		l.queue.Add(id)
	}
	return l.queue
}

// Life returns the present life of a name in a namespace, and whether its end is
// being recorded. The number is at least that of a life that is known to have
// begun.
func (l *Lives) Life(namespace string, uid types.UID, name string, begun int64) (life Life, ending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := shardOf(uid, name)
	life = l.known[id].life(name)
	if begun > life.Number {
		life.Number = begun
		known := merge(l.known[id], document{Namespace: namespace})
		known.set(name, life)
		l.known[id] = known
	}
	number, found := l.ends[id].lives[name]
	return life, found && number >= life.Number
}

// End records that a life is over, and calls Changed when that is recorded. It
// does not block. members are those that exported the import last; what is written
// because of them is limited.
func (l *Lives) End(namespace string, uid types.UID, name string, number int64, members []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := shardOf(uid, name)
	held, ok := l.ends[id]
	if !ok {
		held = ends{namespace, map[string]int64{}, map[string][]string{}}
		l.ends[id] = held
	}
	if before, found := held.lives[name]; !found || before < number {
		held.lives[name], held.members[name] = number, members
		l.enqueueLocked(id, flushDelay)
	}
}

// NamespaceChanged handles a namespace that may have been deleted. It does not
// block.
func (l *Lives) NamespaceChanged(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number := range uint32(shards) {
		id := shard{uid, number}
		if _, ok := l.known[id]; ok {
			l.enqueueLocked(id, 0)
		}
	}
}

// Load reads all records, retrying until it succeeds or the context ends. It
// returns the version to pass to Run. The cache of namespaces must have synced.
func (l *Lives) Load(ctx context.Context) (version string, err error) {
	for {
		version, err = l.load(ctx)
		l.setLoadError(err)
		if err == nil || ctx.Err() != nil {
			return version, err
		}
		klog.FromContext(ctx).Error(err, "Failed to load the lives of ServiceImports, retrying")
		if wait(ctx, retryPeriod) != nil {
			return "", ctx.Err()
		}
	}
}

func (l *Lives) setLoadError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loadError = err
}

// LoadError returns why the last attempt to load the records failed; nil unless Load
// is about to retry.
func (l *Lives) LoadError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loadError
}

// load reads all records, and replaces those that are damaged: nothing may be shown
// while it is unknown which lives are over.
func (l *Lives) load(ctx context.Context) (version string, err error) {
	callbacks := Callbacks{
		Changed: func(string, []string) {},
		Living:  func(string, types.UID) map[string]int64 { return nil },
	}
	if version, err = l.list(ctx, callbacks.Changed); err != nil {
		return "", err
	}
	l.mu.Lock()
	damaged := l.damaged.UnsortedList()
	l.mu.Unlock()
	for _, id := range damaged {
		if err := l.reconcile(ctx, id, callbacks); err != nil {
			return "", err
		}
	}
	return version, nil
}

func wait(ctx context.Context, period time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(period):
		return nil
	}
}

// Run follows what other replicas record from a version that Load returned, and
// records what End is called with, until the context ends.
func (l *Lives) Run(ctx context.Context, version string, callbacks Callbacks) {
	queue := l.newQueue()
	var running sync.WaitGroup
	defer running.Wait()
	defer queue.ShutDown()
	for range recorders {
		running.Go(func() { l.work(ctx, queue, callbacks) })
	}
	for ctx.Err() == nil {
		err := l.config.Store.Watch(ctx, version, func(name string, data []byte, _ string) {
			l.observe(ctx, name, data, callbacks.Changed)
		})
		for err != nil && wait(ctx, retryPeriod) == nil {
			version, err = l.list(ctx, callbacks.Changed)
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to reload the lives of ServiceImports, retrying")
			}
		}
	}
}

// list reads all records.
func (l *Lives) list(ctx context.Context, changed func(string, []string)) (version string, err error) {
	documents, version, err := l.config.Store.List(ctx)
	if err != nil {
		return "", fmt.Errorf("list the lives of ServiceImports: %w", err)
	}
	for name, data := range documents {
		l.observe(ctx, name, data, changed)
	}
	return version, nil
}

// observe takes what is stored in a document. One that was deleted stays known until
// its namespace is gone, so that no life is used again.
func (l *Lives) observe(ctx context.Context, name string, data []byte, changed func(string, []string)) {
	if data == nil {
		return
	}
	id, err := parseShard(name)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Ignoring an unknown record")
		return
	}
	heard, err := decode(data)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.damaged.Insert(id)
		l.enqueueLocked(id, 0)
		return
	}
	l.mu.Lock()
	before := l.known[id]
	after := merge(before, heard)
	l.known[id] = after
	if !l.exists(after.Namespace, id.namespace) {
		l.enqueueLocked(id, 0)
	}
	l.mu.Unlock()
	if names, all := changes(before, after); all || len(names) > 0 {
		changed(after.Namespace, names)
	}
}
