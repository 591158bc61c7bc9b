// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R312: when a member responds to a probe again, its exports are read at once, however long
// the feed would wait before its next attempt.
func TestFeedIsBackWhenAProbeSucceeds(t *testing.T) {
	inner := membertest.NewServer(t, "b")
	inner.Export("web")
	var up atomic.Bool
	var failed atomic.Int32
	server := membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
		if up.Load() {
			inner.ServeHTTP(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, "exportedservices") {
			failed.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	config, err := access.ClientConfig([]byte(server.Kubeconfig("")))
	membertest.Must(t, err)
	sink, f := newTestFeed(t)
	f.config.Client = config
	f.SetTokens([]string{"token-1"})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer cancel()
	// Each attempt is a streaming list and then a list. After four of them, the next begins
	// at least four seconds later.
	membertest.Eventually(t, "failed attempts", func() bool { return failed.Load() >= 8 })
	time.Sleep(100 * time.Millisecond) // the reflector begins to wait
	before := failed.Load()
	up.Store(true)
	begun := time.Now()
	sink.clock.Step(2 * ProbeInterval)
	membertest.Eventually(t, "the export is read", func() bool { return len(sink.objects()) == 1 })
	if took := time.Since(begun); took > 2*time.Second || failed.Load() != before {
		t.Errorf("the export was read after %s", took)
	}
}

// R312: what is read without problems is not interrupted.
func TestProbeDoesNotInterruptAWatch(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	config, err := access.ClientConfig([]byte(server.Kubeconfig("")))
	membertest.Must(t, err)
	sink, f := newTestFeed(t)
	f.config.Client = config
	f.SetTokens([]string{"token-1"})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer cancel()
	membertest.Eventually(t, "the export is read", func() bool { return len(sink.objects()) == 1 })
	f.retry()
	server.Export("api")
	membertest.Eventually(t, "a new export is read", func() bool { return len(sink.objects()) >= 2 })
	if got := sink.objects(); len(got) != 2 {
		t.Errorf("read %v, want each once", got)
	}
}

// R312: attempts that have ended report nothing, so that they are not taken for the failure of
// those that follow.
func TestFeedAwaitsListsThatAreCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := access.ClientConfig([]byte(fuzzedKubeconfig))
		membertest.Must(t, err)
		var running atomic.Int32
		config.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
			query := request.URL.Query()
			if !query.Has("limit") || query.Get("watch") == "true" { // not a list
				return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Request: request}, nil
			}
			running.Add(1)
			defer running.Add(-1)
			<-request.Context().Done()
			time.Sleep(time.Second)
			return nil, request.Context().Err()
		})
		_, f := newTestFeed(t)
		f.config.Client, f.config.Clock = config, clock.RealClock{}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		f.Run(ctx)
		if time.Since(begun) < 6*time.Second {
			t.Fatal("nothing was listed")
		}
		if left := running.Load(); left != 0 {
			t.Errorf("%d requests after Run", left)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// R368: a member that rejects all tokens is not asked more often because there are several.
func TestRequestsWithEveryTokenAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := newTestFeed(t)
		f.tokens.Set("token-1", "token-2")
		sent := 0
		rejecting := transport{next: roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody}, nil
		}), feed: f}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://b.example", nil)
			membertest.Must(t, err)
			response, err := rejecting.RoundTrip(request)
			if err != nil {
				break
			}
			_ = response.Body.Close()
		}
		if want := requestBurst + 10*requestRate; sent > want || sent < requestBurst {
			t.Errorf("%d requests were sent, at most %d are allowed", sent, want)
		}
	})
}
