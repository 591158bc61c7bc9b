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

// outage is a member that exports a Service, and that fails until it is back.
type outage struct {
	*membertest.Server
	up atomic.Bool
	// failed and streamed count the requests for its exported Services.
	failed, streamed atomic.Int32
}

// startOutage runs a feed of a member that fails until attempts take seconds: each is a
// streaming list and then a list, and after four of them, the next begins at least four seconds
// later.
func startOutage(t *testing.T) (*outage, *testSink, *Feed) {
	t.Helper()
	member := &outage{Server: membertest.NewServer(t, "b")}
	member.Export("web")
	server := membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
		exported := strings.HasSuffix(r.URL.Path, "exportedservices")
		switch {
		case member.up.Load():
			if exported && r.URL.Query().Get("sendInitialEvents") == "true" {
				member.streamed.Add(1)
			}
			member.ServeHTTP(w, r)
			return
		case exported:
			member.failed.Add(1)
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
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	membertest.Eventually(t, "failed attempts", func() bool { return member.failed.Load() >= 8 })
	time.Sleep(100 * time.Millisecond) // the feed begins to wait
	return member, sink, f
}

// R312: when a member responds to a probe again, its exports are read at once, however long
// the feed would wait before its next attempt.
func TestFeedIsBackWhenAProbeSucceeds(t *testing.T) {
	member, sink, _ := startOutage(t)
	before := member.failed.Load()
	member.up.Store(true)
	begun := time.Now()
	sink.clock.Step(2 * ProbeInterval)
	membertest.Eventually(t, "the export is read", func() bool { return len(sink.objects()) == 1 })
	if took := time.Since(begun); took > 2*time.Second || member.failed.Load() != before {
		t.Errorf("the export was read after %s", took)
	}
}

// R443: once a member was read after an outage, the end of a watch delays nothing for as long as
// the failures did.
func TestOutageDoesNotDelayLaterLists(t *testing.T) {
	for name, end := range map[string]func(*outage, *Feed){
		"everything is read again": func(_ *outage, f *Feed) { f.Reread() },
		"resource version is expired": func(member *outage, _ *Feed) {
			time.Sleep(healthy)
			member.Expire()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			member, sink, f := startOutage(t)
			member.up.Store(true)
			sink.clock.Step(2 * ProbeInterval)
			membertest.Eventually(t, "the export is read", func() bool { return len(sink.objects()) == 1 })
			before := member.streamed.Load()
			end(member, f)
			begun := time.Now()
			membertest.Eventually(t, "the exports are listed again", func() bool { return member.streamed.Load() > before })
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("the exports were listed again after %s", took)
			}
		})
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
