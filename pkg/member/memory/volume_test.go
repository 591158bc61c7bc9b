// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// metered counts the bytes that are written to a store because of cluster b.
type metered struct {
	*recordtest.Store
	bytes atomic.Int64
}

func (m *metered) Update(ctx context.Context, name string, update func([]byte) ([]byte, error)) ([]byte, string, error) {
	data, version, err := m.Store.Update(ctx, name, update)
	if strings.HasSuffix(name, ".b") {
		m.bytes.Add(int64(len(data)))
	}
	return data, version, err
}

func (m *metered) written() int { return int(m.bytes.Load()) }

// noisyServices and noisySize are how many Services noisy records, and how large they are.
const noisyServices, noisySize = 100, 1000

// noisy records Services of cluster b that take much space.
func (r *replica) noisy(round int) {
	r.t.Helper()
	for number, name := range many(noisyServices) {
		ref, large := service(r.t, "b", name)
		large.Spec.ExportedAnnotations = noise(fmt.Sprint(number, round), noisySize)
		r.Record(r.Epoch("b"), "b", uidOf("b"), ref, large)
	}
}

// R446: of a member whose Services change all the time, no more bytes are written than the
// limit allows. Others are recorded as usual, also when a replica ends, and so is the last
// state.
func TestBytesRecordedOfAMemberAreLimited(t *testing.T) {
	const seconds, perSecond, atOnce = 60, 16 << 10, 256 << 10
	synctest.Test(t, func(t *testing.T) {
		store := &metered{Store: recordtest.New()}
		r, _ := newReplica(t, store)
		r.written = pace.New[string](clock.RealClock{}, time.Second/perSecond, atOnce)
		stop := run(r.Recorder)
		r.heard("b")
		r.heard("h")
		begin := time.Now()
		for second := range seconds {
			r.noisy(second)
			if second%10 == 5 {
				r.record("h", fmt.Sprintf("web-%d", second))
				time.Sleep(2 * writeDelay)
				if got := names(recalled(t, store)["h"]); !strings.Contains(got, fmt.Sprintf("web-%d", second)) {
					t.Errorf("of the other member, %q is recorded", got)
				}
			}
			time.Sleep(time.Second)
		}
		passed := int(time.Since(begin).Seconds())
		if wrote, want := store.written(), atOnce+passed*perSecond; wrote > want+maxServices*noisySize || wrote < want*9/10 {
			t.Errorf("%d bytes were written in %d s, want about %d", wrote, passed, want)
		}
		for _, name := range many(noisyServices)[1:] {
			ref, _ := service(t, "b", name)
			r.Record(0, "b", uidOf("b"), ref, nil)
		}
		time.Sleep(2 * writeDelay)
		if got := len(recalled(t, store)["b"].Services); got > noisyServices/2 {
			t.Errorf("%d Services are recorded, although all but one were withdrawn", got)
		}
		time.Sleep(time.Minute)
		if got := recalled(t, store)["b"]; names(got) != "web-0" || got.Incomplete {
			t.Errorf("in the end, %q is recorded, incomplete: %t", names(got), got.Incomplete)
		}
		for round := range 10 {
			r.noisy(seconds + round)
			time.Sleep(2 * writeDelay)
		}
		r.record("h", "last")
		r.noisy(seconds + 10)
		before := store.written()
		stop()
		if got := names(recalled(t, store)["h"]); !strings.Contains(got, "last") {
			t.Errorf("of the other member, %q is recorded in the end", got)
		}
		if wrote := store.written() - before; wrote > maxServices*noisySize {
			t.Errorf("%d bytes were written in the end", wrote)
		}
	})
}

// R446: a member that is removed does not have to wait until its records are deleted.
func TestRecordsOfAForgottenMemberAreDeletedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r, _ := newReplica(t, store)
		r.written = pace.New[string](clock.RealClock{}, time.Second, 1)
		stop := run(r.Recorder)
		defer stop()
		r.heard("b")
		for round := range 10 {
			r.noisy(round)
			time.Sleep(time.Second)
		}
		r.Forget("b")
		time.Sleep(3 * writeDelay)
		documents, _, err := store.List(t.Context())
		membertest.Must(t, err)
		if len(documents) > 0 {
			t.Errorf("%d documents are left", len(documents))
		}
	})
}

// R446: all that a member exports is recorded at once for the first time.
func TestFirstRecordIsNotLimited(t *testing.T) {
	store := &metered{Store: recordtest.New()}
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(5_000)...)
	w.flush()
	t.Logf("5,000 Services take %d KiB", store.written()>>10)
	if got := len(recalled(t, store)["b"].Services); got != 5_000 {
		t.Errorf("%d Services are recorded", got)
	}
}
