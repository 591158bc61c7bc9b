// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// overLimitPause is how long a member that exports too much is not read.
const overLimitPause = 5 * time.Minute

// maxObjects is how many objects of a kind are read from one member. Beyond
// that the objects read before are kept, and the member's entry reports it: one
// member must not be able to use up the memory of the others.
var maxObjects = [exports.Kinds]int{exports.Services: 10_000, exports.EndpointSlices: 50_000}

// maxPages is how many pages a list may have: twice as many as are needed for the most
// objects. Pages may be empty, and a list without an end would keep this process busy.
const maxPages = 200

// LimitError reports that a member exports more than is read.
type LimitError struct {
	Kind exports.Kind
	// Memory is the memory limit of the member, in bytes.
	Memory int64
}

// Error implements error.
func (e LimitError) Error() string {
	return fmt.Sprintf("member exports more than %d %s, the limit per member, in more than %d pages, or more than fits into its memory limit of %s: objects read before are kept, and the feed is read again every %s",
		maxObjects[e.Kind], e.Kind, maxPages, resource.NewQuantity(e.Memory, resource.BinarySI), overLimitPause)
}

// exceeded begins a pause.
func (f *Feed) exceeded(kind exports.Kind) error {
	f.mu.Lock()
	f.overLimitUntil[kind] = f.config.Clock.Now().Add(overLimitPause)
	f.mu.Unlock()
	err := LimitError{kind, f.config.MemoryLimit}
	f.config.Sink.ReadFailed(kind, err)
	return err
}

// overLimit returns an error during a pause.
func (f *Feed) overLimit(kind exports.Kind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.Clock.Now().Before(f.overLimitUntil[kind]) {
		return LimitError{kind, f.config.MemoryLimit}
	}
	return nil
}

// limits are what a watch has read so far.
type limits struct {
	feed *Feed
	kind exports.Kind
	// keys are those of all objects, however they arrived.
	keys sets.Set[exports.Key]
	// initial is set until all objects are known. The reflector keeps them until
	// then, so that bytes counts how much memory they take.
	initial bool
	bytes   int64
}

// check counts an object. It fails for one too many, and returns a stand-in for
// an object that does not fit into the memory that the member may take.
func (l *limits) check(event watch.Event) (watch.Event, error) {
	switch event.Type {
	case watch.Error:
		_ = l.feed.failed(l.kind, apierrors.FromObject(event.Object)) // the reflector ends the watch
		return event, nil
	}
	key, ok := exports.KeyOf(event.Object)
	if !ok || key.Kind != l.kind || !isEvent(event.Type) {
		return event, l.feed.failed(l.kind, unexpected(event))
	}
	switch event.Type {
	case watch.Bookmark:
		l.initial = l.initial && !endsList(event.Object)
		return event, nil
	case watch.Deleted:
		l.keys.Delete(key)
		return event, nil
	}
	if l.keys.Insert(key); len(l.keys) > maxObjects[l.kind] {
		return event, l.feed.exceeded(l.kind)
	}
	if l.initial {
		if bytes := exports.Footprint(event.Object); l.bytes+bytes <= l.feed.config.MemoryLimit {
			l.bytes += bytes
		} else {
			event.Object = standIn(event.Object)
		}
	}
	return event, nil
}

// isEvent reports whether an event has one of the types that have an object of the member.
func isEvent(eventType watch.EventType) bool {
	switch eventType {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return true
	}
	return false
}

// unexpected returns the error that ends a watch with an event of another type or object. The
// reflector would log and ignore it, as often as the member sends it, and if it seemed to end
// the list, what the reflector keeps would not be counted any more.
func unexpected(event watch.Event) error {
	return fmt.Errorf("member sent an unexpected event %.20q with an object %T", event.Type, event.Object)
}

// endsList reports whether a bookmark ends the list that a watch begins with.
func endsList(bookmark runtime.Object) bool {
	metadata, err := meta.Accessor(bookmark)
	return err == nil && metadata.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// overLimitAnnotation marks the stand-in of an object that does not fit. Its value is
// the number of endpoints, which the member counts.
const overLimitAnnotation = "clusterset.mcs-apiserver.io/over-memory-limit"

// standIn returns what identifies an object, without its content, and without more text than
// an identifier has.
func standIn(object runtime.Object) runtime.Object {
	mark := func(metadata metav1.ObjectMeta, endpoints int) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: exports.Identifier(metadata.Namespace), Name: exports.Identifier(metadata.Name), ResourceVersion: exports.Identifier(metadata.ResourceVersion),
			Annotations: map[string]string{overLimitAnnotation: strconv.Itoa(endpoints)},
		}
	}
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		return &clustersetv1alpha1.ExportedService{
			ObjectMeta: mark(object.ObjectMeta, 0), Spec: clustersetv1alpha1.ExportedServiceSpec{Cluster: exports.Identifier(object.Spec.Cluster), Service: exports.Identifier(object.Spec.Service)},
		}
	case *clustersetv1alpha1.ExportedEndpointSlice:
		return &clustersetv1alpha1.ExportedEndpointSlice{
			ObjectMeta: mark(object.ObjectMeta, len(object.Spec.Endpoints)),
			Spec:       clustersetv1alpha1.ExportedEndpointSliceSpec{Cluster: exports.Identifier(object.Spec.Cluster), Service: exports.Identifier(object.Spec.Service)},
		}
	}
	return object
}

// limitedWatch passes events on until one is refused, or everything is to be read
// again. watch.Filter could not, and blocks forever if the reader is gone.
type limitedWatch struct {
	incoming watch.Interface
	result   chan watch.Event
	stopped  chan struct{}
	once     sync.Once
}

// newLimitedWatch returns a watch that passes on what check returns. It ends with
// an expired resource version when expired is closed.
func newLimitedWatch(incoming watch.Interface, check func(watch.Event) (watch.Event, error), expired <-chan struct{}) watch.Interface {
	limited := &limitedWatch{incoming: incoming, result: make(chan watch.Event), stopped: make(chan struct{})}
	go limited.run(check, expired)
	return limited
}

// ResultChan implements watch.Interface.
func (w *limitedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.incoming.Stop()
}

func (w *limitedWatch) run(check func(watch.Event) (watch.Event, error), expired <-chan struct{}) {
	defer close(w.result)
	defer w.incoming.Stop()
	for {
		var event watch.Event
		var err error
		select {
		case <-w.stopped:
			return
		case <-expired:
			err = apierrors.NewResourceExpired("everything is read again")
		case incoming, more := <-w.incoming.ResultChan():
			if !more {
				return
			}
			if incoming.Type == watch.Error {
				incoming.Object = statusOf(shortened(apierrors.FromObject(incoming.Object)))
			}
			event, err = check(incoming)
		}
		if err != nil {
			event = watch.Event{Type: watch.Error, Object: statusOf(err)}
		}
		select {
		case <-w.stopped:
			return
		case w.result <- event:
		}
		if err != nil {
			return
		}
	}
}

// maxError limits the text of an error, in characters: it is logged, and parts of it
// come from the member.
const maxError = 1000

// shortened returns an error with the same reason, but not more text than maxError.
func shortened(err error) error {
	if err == nil || len(err.Error()) <= maxError {
		return err
	}
	message := truncate.Characters(err.Error(), maxError)
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		return errors.New(message)
	}
	status := known.Status()
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: status.Code, Reason: status.Reason, Message: message}}
}

// statusOf returns an error as an event of a watch has it.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status := known.Status()
		return &status
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge,
		Reason: metav1.StatusReasonRequestEntityTooLarge, Message: err.Error(),
	}
}

// Reason is the reason of the condition that reports the error.
func (e LimitError) Reason() string { return clusterset.ReasonTooManyExports }
