// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// attempts are the requests of one reflector. While a member is silent, a reflector waits
// longer and longer between them, and one of them may wait for a connection that is dead. So
// they are repeated at once when a probe succeeds.
type attempts struct {
	mu sync.Mutex
	// waiting is how many requests wait for a response, and failed whether the last one
	// failed.
	waiting int
	failed  bool
	// responded is when the last response arrived.
	responded time.Time
	// reread is closed if the present watch ends because everything is read again.
	reread <-chan struct{}
	// cancel ends the present attempts.
	cancel context.CancelFunc

	// lists has an element during a list.
	lists chan struct{}
}

type attemptsKey struct{}

// healthy is how long a watch has to last to be taken for the end of earlier failures.
const healthy = time.Second

// run lists and watches with a reflector until the context ends. It begins again when attempts
// are repeated. Reflectors that run by themselves delay lists because of all failures in two
// minutes, even if everything was read since: a member that had been away would be read late
// when its next watch ends.
func (f *Feed) run(ctx context.Context, reflector *cache.Reflector) {
	a := &attempts{lists: make(chan struct{}, 1)}
	f.mu.Lock()
	f.attempts = append(f.attempts, a)
	f.mu.Unlock()
	delays := backoff()
	for ctx.Err() == nil {
		attempt, cancel := context.WithCancel(context.WithValue(ctx, attemptsKey{}, a))
		a.begin(cancel)
		if err := reflector.ListAndWatchWithContext(attempt); err != nil && attempt.Err() == nil {
			cache.DefaultWatchErrorHandler(attempt, reflector, err)
		}
		if a.succeeded() {
			delays = backoff()
		}
		select {
		case <-attempt.Done():
		case <-time.After(delays.Step()):
		}
		cancel()
		a.lists <- struct{}{} // the reflector does not wait for a list that is canceled
		<-a.lists
	}
}

// begin begins new attempts, which cancel ends.
func (a *attempts) begin(cancel context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel, a.failed, a.reread = cancel, false, nil
}

// watching notes what ends the watch that begins.
func (a *attempts) watching(reread <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reread = reread
}

// succeeded reports whether the attempts that have ended were successful.
func (a *attempts) succeeded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.reread: // the member is not to blame
		return true
	default:
	}
	return !a.failed && !a.responded.IsZero() && time.Since(a.responded) >= healthy
}

// awaited lists nothing for attempts that have ended, so that nothing is reported after them.
func awaited(list cache.ListWithContextFunc) cache.ListWithContextFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if a, ok := ctx.Value(attemptsKey{}).(*attempts); ok {
			a.lists <- struct{}{}
			defer func() { <-a.lists }()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return list(ctx, options)
	}
}

// retry repeats the attempts that failed, or have no response. Others continue.
func (f *Feed) retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.attempts {
		a.mu.Lock()
		if a.cancel != nil && (a.failed || a.waiting > 0) {
			a.cancel()
		}
		a.mu.Unlock()
	}
}

// watched performs a request, and notes its outcome if it is that of a reflector.
func watched(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	a, ok := request.Context().Value(attemptsKey{}).(*attempts)
	if !ok {
		return next.RoundTrip(request)
	}
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	response, err := next.RoundTrip(request)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	a.responded = time.Now()
	a.failed = err != nil || response.StatusCode >= http.StatusBadRequest && response.StatusCode != http.StatusGone
	return response, err
}
