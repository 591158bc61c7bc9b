// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package opener

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// place keeps a marker in memory.
type place struct{ held *marker.Marker }

func (p *place) Get(context.Context) (*marker.Marker, error) { return p.held, nil }
func (p *place) Put(_ context.Context, _ *marker.Marker, marker marker.Marker) error {
	p.held = &marker
	return nil
}

// fixture is storage and a cluster in memory.
type fixture struct {
	mu                 sync.Mutex
	gate               *gate.Gate
	stored, copied     *place
	missing, destroyed error
	hangs              bool
	attempts           int
	reports            []string
}

func newFixture() *fixture {
	return &fixture{gate: gate.New(), stored: &place{}, copied: &place{}}
}

func (f *fixture) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fixture) Gate() *gate.Gate { return f.gate }

func (f *fixture) Prepare(ctx context.Context) error {
	f.mu.Lock()
	f.attempts++
	hangs, err := f.hangs, f.missing
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fixture) Marker() marker.Place                { return f.stored }
func (f *fixture) Empty(context.Context) (bool, error) { return true, nil }

func (f *fixture) Open(context.Context) error {
	f.gate.Open()
	return nil
}

func (f *fixture) Confirm(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.destroyed != nil {
		f.gate.Close(f.destroyed)
	}
	return f.destroyed
}

// cluster is the part of a fixture that has a marker of its own.
type cluster struct{ *fixture }

func (cluster) UID(context.Context) (types.UID, error)   { return "here", nil }
func (c cluster) Marker() marker.Place                   { return c.copied }
func (cluster) Traces(context.Context) ([]string, error) { return nil, nil }

func (c cluster) Report(_ context.Context, reason error) error {
	c.set(func() { c.reports = append(c.reports, reason.Error()) })
	return nil
}

// run runs an Opener until the returned function is called.
func (f *fixture) run(t *testing.T, accept bool) (_ *Opener, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	opener := New(f, "cluster", cluster{f}, accept)
	ended := make(chan struct{})
	go func() {
		opener.Run(ctx)
		close(ended)
	}()
	return opener, func() {
		cancel()
		<-ended
	}
}

func (f *fixture) expectClosed(t *testing.T, reason string) {
	t.Helper()
	synctest.Wait()
	if err := f.gate.Usable(); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %v, want a closed gate because of %q", err, reason)
	}
}

func (f *fixture) expectOpen(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if err := f.gate.Usable(); err != nil {
		t.Errorf("gate is closed: %v", err)
	}
}

func TestStorageIsOpenedWhenItBecomesAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.missing = errors.New("namespace does not exist")
		opener, stop := f.run(t, false)
		defer stop()
		f.expectClosed(t, "does not exist")
		f.set(func() { f.missing = errors.New("forbidden") })
		time.Sleep(retryInterval)
		f.expectClosed(t, "forbidden")
		f.set(func() { f.missing = nil })
		opener.Recheck()
		f.expectOpen(t)
		if f.stored.held == nil || f.copied.held == nil || f.stored.held.StorageID != f.copied.held.StorageID || f.copied.held.Type != "cluster" {
			t.Errorf("markers are %+v and %+v", f.stored.held, f.copied.held)
		}
	})
}

// Storage that is not there yet at the first start is not reported to administrators, but
// a reason that persists is, once.
func TestReasonThatPersistsIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.missing = errors.New("namespace does not exist")
		_, stop := f.run(t, false)
		defer stop()
		time.Sleep((attemptsToReport-1)*retryInterval - 1)
		f.set(func() { f.missing = errors.New("marker is missing") })
		time.Sleep(time.Minute)
		f.set(func() {
			if got := strings.Join(f.reports, ", "); got != "marker is missing" {
				t.Errorf("reported %q", got)
			}
		})
	})
}

func TestAttemptsThatHangAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.hangs = true
		_, stop := f.run(t, false)
		defer stop()
		synctest.Wait()
		f.set(func() { f.hangs = false })
		time.Sleep(attemptTimeout + retryInterval)
		f.expectOpen(t)
	})
}

func TestOpenStorageIsNotPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		_, stop := f.run(t, false)
		defer stop()
		time.Sleep(time.Hour)
		if f.expectOpen(t); f.attempts != 1 {
			t.Errorf("%d attempts", f.attempts)
		}
	})
}

// expectAvailable checks the metric, after expectOpen or expectClosed.
func expectAvailable(t *testing.T, want float64) {
	t.Helper()
	if got, err := testutil.GetGaugeMetricValue(available.WithLabelValues("cluster")); err != nil || got != want {
		t.Errorf("metric is %v (%v), want %v", got, err, want)
	}
}

// R330: a namespace that is deleted under a running server, and made again without its
// content, is lost storage until its content and its marker are restored.
func TestLostStorageIsOpenedWhenItIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		opener, stop := f.run(t, false)
		defer stop()
		f.expectOpen(t)
		expectAvailable(t, 1)
		backup := f.stored.held
		f.set(func() { f.stored.held, f.destroyed = nil, errors.New("namespace is being deleted") })
		opener.Recheck()
		f.expectClosed(t, "was lost")
		expectAvailable(t, 0)
		f.set(func() { f.stored.held, f.destroyed = backup, nil })
		time.Sleep(retryInterval)
		f.expectOpen(t)
		expectAvailable(t, 1)
	})
}

func TestLostStorageIsOpenedIfItIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.copied.held = &marker.Marker{StorageID: "lost", ClusterUID: "here"}
		_, stop := f.run(t, false)
		f.expectClosed(t, "was lost")
		stop()
		_, stop = f.run(t, true)
		defer stop()
		f.expectOpen(t)
	})
}

func TestLossAfterStorageWasAcceptedIsNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.copied.held = &marker.Marker{StorageID: "lost", ClusterUID: "here"}
		_, stop := f.run(t, true)
		defer stop()
		f.expectOpen(t)
		f.set(func() { f.stored.held = nil })
		f.gate.Close(errors.New("namespace is being deleted"))
		f.expectClosed(t, "was lost")
	})
}
