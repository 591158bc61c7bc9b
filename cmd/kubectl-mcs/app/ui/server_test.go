// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

const patience = 30 * time.Second

// page is a page that is connected to a server.
type page struct {
	t       *testing.T
	lines   *bufio.Scanner
	entries map[entryKind]map[string]json.RawMessage
	kinds   map[entryKind]int
}

// started is a server that watches clusters.
type started struct {
	*httptest.Server
	*server
	asked atomic.Pointer[doctor.Question]
}

// start starts a server for clusters, until the test ends.
func start(t *testing.T, clusters ...*cluster.Cluster) *started {
	t.Helper()
	s := &started{}
	b := newBoard(clusters, "")
	for _, v := range b.views {
		v.ping = func(context.Context) (time.Time, error) { return time.Now(), nil }
	}
	s.server = newServer(b, func(_ context.Context, question doctor.Question) (diagnosis.Report, error) {
		s.asked.Store(&question)
		if question.Service == "silent" {
			return diagnosis.Report{}, errors.New("the kube-apiserver does not answer")
		}
		return diagnosis.Report{Context: question.Context, Service: question.Service, Verdict: diagnosis.VerdictOK, Checks: []diagnosis.Check{}}, nil
	})
	s.Server = httptest.NewUnstartedServer(nil)
	s.Config.Handler = newGuard(testToken, []string{s.Listener.Addr().String()}, s.handler())
	s.Start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.run(ctx) }()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		cancel()
		<-done
	})
	return s
}

// request returns a request with the token.
func (s *started) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request
}

// send sends a request with the token, and returns the answer.
func (s *started) send(t *testing.T, method, path, body string) (code int, answer string) {
	t.Helper()
	response, err := s.Client().Do(s.request(t, method, path, body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// open opens a page, and reads what there is.
func (s *started) open(t *testing.T) *page {
	t.Helper()
	response, err := s.Client().Do(s.request(t, http.MethodGet, "/api/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got status %d", response.StatusCode)
	}
	p := &page{t: t, lines: bufio.NewScanner(response.Body), kinds: map[entryKind]int{}}
	p.lines.Buffer(nil, 1<<20)
	p.entries = map[entryKind]map[string]json.RawMessage{viewEntry: {}, clusterEntry: {}, serviceEntry: {}}
	p.until(func() bool { return p.kinds["snapshot"] > 0 })
	return p
}

// until reads until a condition holds.
func (p *page) until(holds func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) || !p.lines.Scan() {
			p.t.Fatalf("the condition does not hold: %v; have %.10000s", p.lines.Err(), fmt.Sprintf("%s", p.entries))
		}
		var one change
		if err := json.Unmarshal(p.lines.Bytes(), &one); err != nil {
			p.t.Fatalf("%s: %v", p.lines.Text(), err)
		}
		p.kinds[one.Kind]++
		switch entries := p.entries[one.Kind]; {
		case entries == nil:
		case string(one.Value) == "null":
			delete(entries, one.Key)
		default:
			entries[one.Key] = one.Value
		}
	}
}

// has reports whether an entry has a text.
func (p *page) has(kind entryKind, key, text string) func() bool {
	return func() bool { return strings.Contains(string(p.entries[kind][key]), text) }
}

func exporting(more ...runtime.Object) *cluster.Cluster {
	return clustertest.NewCluster(append([]runtime.Object{
		clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), clustertest.NewImport(),
		clustertest.NewExported("west", time.Minute), clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1"),
	}, more...)...)
}

// R582: a page shows what there is, and follows changes of services and members.
func TestPageFollowsChanges(t *testing.T) {
	east := exporting()
	p := start(t, east).open(t)
	p.until(p.has(serviceEntry, "shop/web", `"summary":"1 ready endpoints in 1 clusters"`))
	p.until(p.has(clusterEntry, "west", `"state":"Connected"`))
	p.until(p.has(viewEntry, "east", `"synced":true`))

	client := clustertest.FakeOf(east).ClusterSetV1alpha1()
	tracker := clustertest.FakeOf(east).Tracker()
	clusterSet := func(resource string) func(runtime.Object) error {
		return func(object runtime.Object) error {
			return tracker.Update(clustersetv1alpha1.SchemeGroupVersion.WithResource(resource), object, namespaceOf(object))
		}
	}
	stale := clustertest.NewMember("west", clustersetv1alpha1.MemberStale)
	stale.ResourceVersion = "2"
	if err := clusterSet("members")(stale); err != nil {
		t.Fatal(err)
	}
	p.until(p.has(clusterEntry, "west", `"state":"Stale"`))
	p.until(p.has(serviceEntry, "shop/web", `"summary":"west is Stale"`))

	headless := clustertest.NewExported("east", time.Hour, clustertest.Headless)
	if err := tracker.Add(headless); err != nil {
		t.Fatal(err)
	}
	p.until(p.has(serviceEntry, "shop/web", `"conflicts":["TypeConflict"]`))
	for _, name := range []string{"web.east", "web.west"} {
		if err := tracker.Delete(clustersetv1alpha1.SchemeGroupVersion.WithResource("exportedservices"), "shop", name); err != nil {
			t.Fatal(err)
		}
	}
	p.until(p.has(serviceEntry, "shop/web", `not exported`))
	if err := clustertest.FakeOf(east).Tracker().Delete(multiclusterResource("serviceimports"), "shop", "web"); err != nil {
		t.Fatal(err)
	}
	p.until(func() bool { return p.entries[serviceEntry]["shop/web"] == nil })
	if _, err := client.Members().Get(t.Context(), "west", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// R586: what the user may not read is said by resource, and the rest is shown.
func TestWhatMayNotBeReadIsSaid(t *testing.T) {
	east := clustertest.WithoutMembers(exporting())
	clustertest.FakeOf(east).PrependWatchReactor("members", func(clienttesting.Action) (bool, watchInterface, error) { return true, nil, clustertest.Forbidden })
	p := start(t, east).open(t)
	p.until(p.has(viewEntry, "east", `"resource":"members"`))
	p.until(p.has(viewEntry, "east", `permission denied`))
	p.until(p.has(viewEntry, "east", `"synced":true`))
	p.until(p.has(serviceEntry, "shop/web", `"summary":"1 ready endpoints in 1 clusters"`))
	if strings.Contains(string(p.entries[viewEntry]["east"]), "serviceimports") {
		t.Errorf("got %s", p.entries[viewEntry]["east"])
	}
}

// R586: what depends on something that the user may not read is unknown, and no problem.
func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	for resource, want := range map[string]string{"exportedendpointslices": "endpoints have not been read", "exportedservices": "exports have not been read"} {
		t.Run(resource, func(t *testing.T) {
			east := exporting()
			clustertest.FakeOf(east).PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, clustertest.Forbidden })
			clustertest.FakeOf(east).PrependWatchReactor(resource, func(clienttesting.Action) (bool, watchInterface, error) { return true, nil, clustertest.Forbidden })
			p := start(t, east).open(t)
			p.until(p.has(viewEntry, "east", `"synced":true`))
			p.until(p.has(serviceEntry, "shop/web", `"condition":"Unknown","summary":"`+want+`"`))
		})
	}
}

// R585: a page that does not read is disconnected, and delays no other one.
func TestSlowPagesAreDisconnected(t *testing.T) {
	east := exporting()
	s := start(t, east)
	s.timeout = 3 * time.Second
	slow, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.(*net.TCPConn).SetReadBuffer(1024); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(slow, "GET /api/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.Listener.Addr(), testToken)
	if _, err := slow.Read(make([]byte, 1)); err != nil { // and nothing after that
		t.Fatal(err)
	}
	s.timeout = patience // a busy machine may take long to read
	p := s.open(t)
	text := strings.Repeat("x", 500_000)
	disconnected := false
	for i := 0; i < 300 && !disconnected; i++ {
		key := fmt.Sprintf("big-%d", i%5)
		s.board.store.set(viewEntry, key, fmt.Sprintf("%d %s", i, text))
		p.until(p.has(viewEntry, key, fmt.Sprintf(`"%d x`, i)))
		disconnected = s.board.store.open() < 2
	}
	if !disconnected {
		t.Error("the slow page is connected")
	}
	s.board.store.set(viewEntry, "last", "seen")
	p.until(p.has(viewEntry, "last", "seen"))
}

// R585: there are at most so many pages, and the next one is told why.
func TestTooManyPagesAreRefused(t *testing.T) {
	s := start(t, exporting())
	for range maxReaders {
		s.open(t)
	}
	if code, body := s.send(t, http.MethodGet, "/api/events", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "close one of them") {
		t.Errorf("got status %d: %s", code, body)
	}
	// Browsers have six connections to a server. One is for this answer, and one for a diagnosis.
	if maxReaders > 4 {
		t.Errorf("%d pages leave no connection for other requests", maxReaders)
	}
}

// R585: connections beyond the limit are closed at once.
func TestConnectionsAreLimited(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := newLimitedListener(inner, make(chan struct{}, 1))
	defer limited.Close()
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			connection, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	dial := func() net.Conn {
		connection, err := net.Dial("tcp4", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return connection
	}
	dial()
	first := <-accepted
	second := dial()
	_ = second.SetReadDeadline(time.Now().Add(patience))
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("the second connection is not closed: %v", err)
	}
	first.Close()
	first.Close() // makes room once
	dial()
	select {
	case <-accepted:
	case <-time.After(patience):
		t.Error("there is no room after a connection was closed")
	}
}

// R587: the page has the findings of the doctor, by default without a Pod.
func TestDoctorIsAsked(t *testing.T) {
	west := exporting()
	west.Context = "west"
	s := start(t, exporting(), west)
	for _, test := range []struct {
		method, path, body string
		code               int
		want               *doctor.Question
	}{
		{"GET", "/api/doctor", "", http.StatusOK, &doctor.Question{}},
		{"GET", "/api/doctor?namespace=shop&service=web", "", http.StatusOK, &doctor.Question{Namespace: "shop", Service: "web"}},
		{"POST", "/api/doctor", `{"namespace":"shop","service":"web"}`, http.StatusOK, &doctor.Question{Namespace: "shop", Service: "web", Probe: true}},
		{"GET", "/api/doctor?namespace=shop&service=silent", "", http.StatusBadGateway, &doctor.Question{Namespace: "shop", Service: "silent"}},
		{"GET", "/api/doctor?namespace=shop", "", http.StatusBadRequest, nil},
		{"GET", "/api/doctor?namespace=shop&service=../x", "", http.StatusBadRequest, nil},
		{"POST", "/api/doctor", `{}`, http.StatusBadRequest, nil},
		{"POST", "/api/doctor", `{"namespace":`, http.StatusBadRequest, nil},
		{"POST", "/api/doctor", `{"namespace":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusBadRequest, nil},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			s.asked.Store(nil)
			if code, answer := s.send(t, test.method, test.path, test.body); code != test.code {
				t.Errorf("got status %d, want %d: %s", code, test.code, answer)
			}
			asked := s.asked.Load()
			if (asked == nil) != (test.want == nil) {
				t.Fatalf("asked %+v, want %+v", asked, test.want)
			}
			if asked != nil && (asked.Namespace != test.want.Namespace || asked.Service != test.want.Service || asked.Probe != test.want.Probe || asked.Context != "east" || len(asked.Others) != 1) {
				t.Errorf("asked %+v, want %+v", asked, test.want)
			}
		})
	}
}

// R585: few diagnoses run at a time.
func TestDiagnosesAreLimited(t *testing.T) {
	s := start(t, exporting())
	for range maxDiagnoses {
		s.diagnoses <- struct{}{}
	}
	if code, answer := s.send(t, http.MethodGet, "/api/doctor", ""); code != http.StatusTooManyRequests {
		t.Errorf("got status %d: %s", code, answer)
	}
}

// R546: an interrupt waits for the doctor, which deletes its Pod.
func TestInterruptWaitsForDiagnoses(t *testing.T) {
	begun, deleted := make(chan struct{}), atomic.Bool{}
	s := newServer(newBoard([]*cluster.Cluster{exporting()}, ""), func(ctx context.Context, _ doctor.Question) (diagnosis.Report, error) {
		close(begun)
		<-ctx.Done()
		time.Sleep(time.Second) // as a request does that deletes the Pod
		deleted.Store(true)
		return diagnosis.Report{}, ctx.Err()
	})
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended, waited := make(chan error, 1), atomic.Bool{}
	go func() {
		ended <- s.serve(ctx, []net.Listener{listener}, newGuard(testToken, []string{listener.Addr().String()}, s.handler()), func() { waited.Store(true) })
	}()
	connection, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	body := `{"namespace":"shop","service":"web"}`
	fmt.Fprintf(connection, "POST /api/doctor HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", listener.Addr(), testToken, len(body), body)
	<-begun
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the command failed: %v", err)
	}
	if !deleted.Load() || !waited.Load() {
		t.Errorf("the command ended: Pod deleted %t, said that it waits %t", deleted.Load(), waited.Load())
	}
}

// R581: details of a service are what `kubectl mcs explain` prints, and more.
func TestDetailsOfService(t *testing.T) {
	s := start(t, exporting(clustertest.NewExported("east", time.Hour)))
	p := s.open(t)
	p.until(p.has(serviceEntry, "shop/web", `"cluster":"east"`))
	p.until(p.has(serviceEntry, "shop/web", `"state":"Imported"`))
	code, answer := s.send(t, http.MethodGet, "/api/service?namespace=shop&service=web", "")
	var details serviceDetails
	if err := json.Unmarshal([]byte(answer), &details); err != nil || code != http.StatusOK {
		t.Fatalf("got status %d, %v: %s", code, err, answer)
	}
	if details.Winner != "east" || details.Explanation == nil || len(details.Explanation.Exports) != 2 || len(details.Views) != 1 {
		t.Errorf("got %+v", details)
	}
	for path, want := range map[string]int{"?namespace=shop&service=none": http.StatusNotFound, "?namespace=shop": http.StatusBadRequest, "?namespace=a/b&service=c": http.StatusBadRequest} {
		if code, answer := s.send(t, http.MethodGet, "/api/service"+path, ""); code != want {
			t.Errorf("%s: got status %d, want %d: %s", path, code, want, answer)
		}
	}
}

// R581: it is said that the namespace is why a service is not imported.
func TestDetailsSayThatNamespaceIsMissing(t *testing.T) {
	s := start(t, clustertest.NewCluster(clustertest.Local(), clustertest.NewExported("west", time.Hour)))
	p := s.open(t)
	p.until(p.has(serviceEntry, "shop/web", `not imported in this cluster`))
	if _, answer := s.send(t, http.MethodGet, "/api/service?namespace=shop&service=web", ""); !strings.Contains(answer, `namespace \"shop\" does not exist in this cluster`) {
		t.Errorf("got %s", answer)
	}
}

// R580: how long clusters take to answer is measured while a page is open.
func TestAnswersAreMeasured(t *testing.T) {
	s := start(t, exporting())
	v := s.board.views[0]
	v.measure(t.Context())
	if status := v.status(nil); status.Answer.At == nil || status.Answer.Failure != "" {
		t.Errorf("got %+v", status.Answer)
	}
	v.ping = func(context.Context) (time.Time, error) { return time.Now().Add(-10 * time.Minute), nil }
	v.measure(t.Context())
	if ahead := v.status(nil).Answer.AheadSeconds; ahead < -601 || ahead > -598 {
		t.Errorf("the clock is 10 minutes behind, got %d s", ahead)
	}
	v.ping = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("connection refused") }
	v.measure(t.Context())
	if status := v.status(nil); status.Answer.At == nil || status.Answer.Failure != "connection refused" || status.Answer.AheadSeconds == 0 {
		t.Errorf("got %+v", status.Answer)
	}
}

// R580: the time of a cluster is that of the answer, and an answer that is an error is one.
func TestPingReturnsTheClock(t *testing.T) {
	code := http.StatusOK
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", clustertest.Noon.Format(http.TimeFormat))
		w.WriteHeader(code)
	}))
	defer remote.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: remote.URL})
	if err != nil {
		t.Fatal(err)
	}
	if clock, err := ping(t.Context(), client.Discovery().RESTClient()); err != nil || !clock.Equal(clustertest.Noon) {
		t.Errorf("got %s, %v", clock, err)
	}
	code = http.StatusServiceUnavailable
	if _, err := ping(t.Context(), client.Discovery().RESTClient()); err == nil {
		t.Error("an error is no error")
	}
}

// R582: a failure that is over is not shown any more.
func TestFailuresAreForgotten(t *testing.T) {
	r := &resource{name: "members"}
	if !r.note("east", "list", clustertest.Forbidden) || r.failed() == nil || !strings.Contains(r.failed().Reason, "permission denied") {
		t.Errorf("got %+v", r.failed())
	}
	since := r.failed().Since
	if r.note("east", "list", clustertest.Forbidden) || r.failed().Since != since {
		t.Error("the same failure is another one")
	}
	if r.note("east", "list", context.Canceled) || r.failed() == nil {
		t.Error("the end of the command is a failure")
	}
	if !r.note("east", "list", nil) || r.failed() != nil || r.note("east", "list", nil) {
		t.Error("the failure is not over")
	}
	r.note("east", "watch", clustertest.Forbidden)
	since = r.failed().Since
	if r.note("east", "list", nil) || r.failed() == nil || r.note("east", "watch", clustertest.Forbidden) || r.failed().Since != since {
		t.Error("who may list, but not watch, is told about another failure with every attempt")
	}
	if !r.note("east", "watch", nil) || r.failed() != nil {
		t.Error("the failure is not over")
	}
	// A watch that lists as well is all that a client asks for when the server is back.
	r.note("east", "watch", clustertest.Forbidden)
	r.note("east", "list", clustertest.Forbidden)
	if !r.note("east", "watch", nil) || r.failed() != nil {
		t.Errorf("a failure is left: %+v", r.failed())
	}
}
