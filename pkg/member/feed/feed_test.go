// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/clockoffset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

func TestMain(m *testing.M) {
	// klog starts it once per process and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// testSink records what a feed reads.
type testSink struct {
	clock *testingclock.FakeClock

	mu       sync.Mutex
	arrivals []exports.Arrival
	removed  []exports.Object
	failures [exports.Kinds]error
	claims   identity.Claims
	members  map[string]*clusterset.Member
}

// newTestFeed returns a feed of member b that is not connected.
func newTestFeed(t *testing.T) (*testSink, *Feed) {
	t.Helper()
	sink := &testSink{clock: testingclock.NewFakeClock(membertest.Epoch)}
	return sink, New(Config{Name: "b", ClusterID: "b", Self: "a", Clock: sink.clock, MemoryLimit: exports.DefaultMemoryLimit, Budget: NewBudget(exports.DefaultMemoryLimit), Admit: exports.Policy{Self: "a", Member: "b"}.Admit, Sink: sink})
}

func (s *testSink) Replace(_ exports.Kind, arrivals []exports.Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, arrivals...)
}

func (s *testSink) Upsert(arrival exports.Arrival) {
	s.Replace(arrival.Object.Kind, []exports.Arrival{arrival})
}

func (s *testSink) Remove(object exports.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = append(s.removed, object)
}

func (s *testSink) ReadFailed(kind exports.Kind, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[kind] = err
}

func (s *testSink) ClaimsRead(claims identity.Claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = claims
}

func (s *testSink) ClaimsFailed(error) {}

func (s *testSink) Probed(entries *response.Entries, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members = nil; entries != nil {
		s.members = entries.Members
	}
}

func (s *testSink) objects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, arrival := range s.arrivals {
		if arrival.Admitted {
			names = append(names, arrival.Object.Name)
		}
	}
	return names
}

// expectFailure checks how reading Services failed, if it did.
func (s *testSink) expectFailure(t *testing.T, message string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failures[exports.Services]
	if (err != nil) != (message != "") || err != nil && !strings.Contains(err.Error(), message) {
		t.Errorf("got failure %v, want %q", err, message)
	}
}

func TestFeedReadsAMember(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	config, err := access.ClientConfig([]byte(server.Kubeconfig("")))
	membertest.Must(t, err)
	sink, f := newTestFeed(t)
	f.config.Client = config
	f.SetTokens([]string{"token-1"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	membertest.Eventually(t, "the initial list is read", func() bool { return len(sink.objects()) == 1 })
	server.Export("api")
	membertest.Eventually(t, "a new export is read", func() bool { return len(sink.objects()) == 2 })
	membertest.Eventually(t, "claims and members list are read", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return sink.claims.ID == "b" && sink.claims.ClusterSet == "set" && sink.members["b"] != nil
	})
}

func TestProbePendingUntilAProbeBegins(t *testing.T) {
	_, f := newTestFeed(t)
	if f.ProbePending() {
		t.Error("a probe is pending that was not requested")
	}
	f.ProbeNow()
	f.ProbeNow()
	if !f.ProbePending() {
		t.Error("the requested probe is not pending")
	}
}

func TestObjectsAreCountedByKey(t *testing.T) {
	_, f := newTestFeed(t)
	store := &objectStore{feed: f, kind: exports.Services}
	membertest.Must(t, store.Replace([]any{membertest.ExportedService("b", "web"), membertest.ExportedService("c", "rejected")}, ""))
	membertest.Must(t, store.Update(membertest.ExportedService("b", "web")))
	membertest.Must(t, store.Add(membertest.ExportedService("b", "api")))
	membertest.Must(t, store.Delete(membertest.ExportedService("b", "web")))
	if got := len(store.known()); got != 2 {
		t.Errorf("%d objects are counted, want 2", got)
	}
}

// tokenServer is a member that records the tokens of requests.
type tokenServer struct {
	*membertest.Server
	mu     sync.Mutex
	tokens []string
}

func newTokenServer(t *testing.T, id string) *tokenServer {
	t.Helper()
	inner, b := membertest.NewServer(t, id), &tokenServer{}
	b.Server = membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.tokens = append(b.tokens, r.Header.Get("Authorization"))
		b.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	return b
}

// last returns the Authorization header of the last request.
func (b *tokenServer) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokens[len(b.tokens)-1]
}

func TestRequestsUseTheCurrentToken(t *testing.T) {
	server := newTokenServer(t, "b")
	config, err := access.ClientConfig([]byte(server.Kubeconfig("")))
	membertest.Must(t, err)
	f := New(Config{ClusterID: "b", Self: "a", Client: config, Budget: NewBudget(0), Clock: clock.RealClock{}})
	membertest.Must(t, f.connect())
	for _, test := range []struct {
		tokens []string
		want   string
	}{
		{[]string{"token-1"}, "Bearer token-1"},
		{[]string{"token-2"}, "Bearer token-2"},
		{[]string{"token-1", "token-2"}, "Bearer token-1"},
		{nil, ""}, // a client certificate may do
	} {
		f.SetTokens(test.tokens)
		_, err := f.client.ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{})
		if (err == nil) != (test.tokens != nil) {
			t.Errorf("with tokens %q: %v", test.tokens, err)
		}
		if got := server.last(); got != test.want {
			t.Errorf("with tokens %q the header is %q, want %q", test.tokens, got, test.want)
		}
	}
}

// R388: it is told apart whether a rejected credential has expired.
func TestExpiredCredentialIsReported(t *testing.T) {
	server := newTokenServer(t, "b")
	config, err := access.ClientConfig([]byte(server.Kubeconfig("")))
	membertest.Must(t, err)
	f := New(Config{ClusterID: "b", Self: "a", Client: config, Budget: NewBudget(0), Clock: testingclock.NewFakeClock(membertest.Epoch.Add(2 * time.Hour))})
	membertest.Must(t, f.connect())
	old, valid := membertest.Token(t, membertest.Epoch, time.Hour), membertest.Token(t, membertest.Epoch, 3*time.Hour)
	for _, test := range []struct {
		tokens []string
		want   string
	}{
		{[]string{old}, "peer credential expired at " + membertest.Epoch.Add(time.Hour).Format(time.RFC3339)},
		{[]string{valid, old}, "member rejects the credential"},
		{[]string{"password"}, "member rejects the credential"},
	} {
		f.SetTokens(test.tokens)
		_, err := f.probe(t.Context(), metav1.ListOptions{})
		if reason, message := response.Explain(err); reason != "Unauthorized" || !strings.Contains(message, test.want) {
			t.Errorf("got %s: %s, want %q", reason, message, test.want)
		}
	}
}

// R281: a member that asks to wait for a week is asked again soon, and what it answers is
// reported at once.
func TestFeedDoesNotWaitAsLongAsTheMemberAsks(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "exportedservices") {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		w.Header().Set("Retry-After", "604800")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	config, err := access.ClientConfig([]byte(server.Kubeconfig("token-1")))
	membertest.Must(t, err)
	sink, f := newTestFeed(t)
	f.config.Client = config
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for range 3 {
		select {
		case <-asked:
		case <-time.After(30 * time.Second):
			t.Fatal("the feed waits")
		}
	}
	sink.expectFailure(t, "too many requests")
}

// R522: a feed compares the clock of the member with that of this cluster with every response.
func TestClockOfAMemberIsCompared(t *testing.T) {
	const ahead = 10 * time.Minute
	b := membertest.NewHandlerServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "MemberList", "apiVersion": "clusterset.mcs-apiserver.io/v1alpha1"}`))
	})
	config, err := access.ClientConfig([]byte(b.Kubeconfig("")))
	membertest.Must(t, err)
	f := New(Config{ClusterID: "b", Self: "a", Client: config, Budget: NewBudget(0), Clock: clock.RealClock{}})
	membertest.Must(t, f.connect())
	membertest.Eventually(t, "the offset is known", func() bool {
		_, err := f.probe(t.Context(), metav1.ListOptions{})
		membertest.Must(t, err)
		offset, ok := f.ClockOffset()
		return ok && (offset-ahead).Abs() <= clockoffset.MaxError
	})
}

// R523: the time of a change is converted to the clock of this cluster. It is left out if that of
// the member is unknown.
func TestTimesOfChangesAreThoseOfThisCluster(t *testing.T) {
	sink, f := newTestFeed(t)
	store := &objectStore{feed: f, kind: exports.EndpointSlices}
	changed := membertest.Epoch.Add(-time.Minute)
	slice := membertest.ExportedSlice("b", "web", "web-1")
	slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(changed.Add(time.Hour)))
	arrived := func() *metav1.MicroTime {
		membertest.Must(t, store.Update(slice))
		return sink.arrivals[len(sink.arrivals)-1].Object.Object.(*clusterset.ExportedEndpointSlice).Spec.ChangedAt
	}
	if got := arrived(); got != nil {
		t.Errorf("endpoints changed at %s, by a clock of which nothing is known", got)
	}
	for _, sent := range []time.Duration{0, 500 * time.Millisecond} { // the clock is ahead by an hour and between 0 and 500 ms
		at := membertest.Epoch.Add(sent)
		f.offset.Observe(membertest.Epoch.Add(time.Hour+sent).Add(250*time.Millisecond).UTC().Format(http.TimeFormat), at, at)
	}
	if got := arrived(); got == nil || got.Sub(changed).Abs() > clockoffset.MaxError {
		t.Errorf("endpoints changed at %v, want %s within %s", got, changed, clockoffset.MaxError)
	}
}

// R366, R523: a time that cannot be right is left out, whatever the clock of a member is. Clients
// could not read any endpoints with one that can be decoded, but not encoded.
func TestImplausibleTimesOfChangesAreLeftOut(t *testing.T) {
	zone := time.FixedZone("", -3600)
	for name, test := range map[string]struct{ date, changed time.Time }{
		"no year in UTC":           {membertest.Epoch, time.Date(9999, 12, 31, 23, 59, 59, 0, zone)},
		"no year after conversion": {membertest.Epoch.AddDate(-200, 0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
		"before the year 0":        {membertest.Epoch.AddDate(200, 0, 0), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
		"later than now":           {membertest.Epoch, membertest.Epoch.Add(time.Hour)},
		"long ago":                 {membertest.Epoch, membertest.Epoch.AddDate(0, 0, -2)},
	} {
		sink, f := newTestFeed(t)
		for _, sent := range []time.Duration{0, 500 * time.Millisecond} {
			at := membertest.Epoch.Add(sent)
			f.offset.Observe(test.date.Add(sent).Add(250*time.Millisecond).UTC().Format(http.TimeFormat), at, at)
		}
		if _, known := f.ClockOffset(); !known {
			t.Errorf("%s: the clock is unknown", name)
		}
		slice := membertest.ExportedSlice("b", "web", "web-1")
		slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(test.changed))
		membertest.Must(t, (&objectStore{feed: f, kind: exports.EndpointSlices}).Update(slice))
		arrival := sink.arrivals[len(sink.arrivals)-1]
		if got := arrival.Object.Object.(*clusterset.ExportedEndpointSlice).Spec.ChangedAt; got != nil || !arrival.Admitted {
			t.Errorf("%s: endpoints changed at %s", name, got)
		}
	}
}
