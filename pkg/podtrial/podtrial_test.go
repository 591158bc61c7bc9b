// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podtrial

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server, and returns its address.
func serve(t *testing.T, key string, identity Identity) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, address, key, identity) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("server ended with %v", err)
		}
	})
	for { // it listens over UDP before
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
			return address
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

// call runs a client, and returns its output.
func call(t *testing.T, client *Client, plan Plan) Results {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("I1118 a line of a log\n{not JSON\n")
	if err := client.Run(t.Context(), plan, &out); err != nil {
		t.Fatal(err)
	}
	results, err := Parse(&out)
	if err != nil || !results.Done {
		t.Fatalf("done is %t, error %v", results.Done, err)
	}
	return results
}

// R561: requests over TCP and UDP are answered with the cluster, and their times are measured.
func TestServerAnswersWithItsCluster(t *testing.T) {
	address := serve(t, "x", Identity{Cluster: "east", Pod: "server"})
	results := call(t, NewClient(), Plan{Key: "x", Patience: 20 * time.Second, Timeout: 5 * time.Second, Targets: []Target{
		{Network: TCP, Address: address, Requests: 3}, {Network: UDP, Address: address, Requests: 3},
	}})
	for _, contact := range results.Contacts {
		if contact.Outcome != podprobe.Succeeded || contact.Sent != 4 || contact.Failed != 0 || contact.RoundTrip <= 0 {
			t.Errorf("got %+v", contact)
		}
		if diff := cmp.Diff(map[string]int{"east": 4}, contact.Clusters); diff != "" {
			t.Error(diff)
		}
	}
}

// R561: a server answers only requests of its run, so that it cannot be used against others.
func TestServerIgnoresOtherRequests(t *testing.T) {
	identity := Identity{Cluster: "east"}
	signed := sign("x", "request 1")
	for _, text := range []string{"", "1", "x 1", "1 x", "1 " + sign("y", "request 1"), "2 " + signed, "1 " + signed + " 2", "GET / HTTP/1.1", strings.Repeat("x", 2000)} {
		if got := answerTo(text, "x", identity); got != nil {
			t.Errorf("%q is answered with %q", text, got)
		}
	}
	if got, err := parseAnswer(string(answerTo(request("x", 1), "x", identity)), "x", 1); err != nil || got != identity {
		t.Errorf("got %+v, error %v", got, err)
	}
}

// R561: an answer of something else, such as a Pod of another cluster with the same address, is a failure.
func TestStrangersAreNotTakenForTheService(t *testing.T) {
	address := serve(t, "other", Identity{Cluster: "west"})
	liar, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			connection, err := liar.Accept()
			if err != nil {
				return
			}
			// It knows the cluster and everything that is sent, but not the key.
			if line, err := bufio.NewReader(connection).ReadString('\n'); err == nil {
				number, signature, _ := strings.Cut(strings.TrimSpace(line), " ")
				fmt.Fprintf(connection, `{"run":"x","cluster":"east","number":%s,"signature":%q}`+"\n", number, signature)
			}
			connection.Close()
		}
	})
	defer group.Wait()
	defer liar.Close()
	client := NewClient()
	client.Retry = time.Millisecond
	results := call(t, client, Plan{Key: "x", Patience: time.Millisecond, Timeout: 5 * time.Second, Targets: []Target{
		{Network: TCP, Address: address, Requests: 3}, {Network: TCP, Address: liar.Addr().String(), Requests: 3},
	}})
	for _, contact := range results.Contacts {
		if contact.Outcome != podprobe.Failed || contact.Sent != 1 || contact.Failed != 1 || len(contact.Clusters) != 0 || !strings.Contains(contact.Error, "something else") {
			t.Errorf("got %+v", contact)
		}
	}
}

// R561: how attempts fail is told.
func TestFailuresAreTold(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	client := NewClient()
	client.Retry = time.Millisecond
	var got []podprobe.Outcome
	for _, each := range []struct {
		target  Target
		timeout time.Duration
	}{{Target{Network: TCP, Address: closed.Addr().String()}, time.Minute}, {Target{Network: UDP, Address: silent.LocalAddr().String()}, 100 * time.Millisecond}} {
		got = append(got, call(t, client, Plan{Key: "x", Patience: time.Millisecond, Timeout: each.timeout, Targets: []Target{each.target}}).Contacts[0].Outcome)
	}
	if !slices.Equal(got, []podprobe.Outcome{podprobe.Refused, podprobe.TimedOut}) {
		t.Errorf("got %v", got)
	}
}

// resolver answers like a DNS server that lags.
type resolver struct {
	mu      sync.Mutex
	lookups int
}

func (r *resolver) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups++
	switch {
	case host == "slow.example." && r.lookups < 3:
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	case host == "silent.example.":
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	case host == "missing.example.":
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	case network == "ip6":
		return []netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")}, nil
}

func (r *resolver) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" {
		return "", nil, errors.New("unexpected name")
	}
	return "", []*net.SRV{{Target: strings.TrimPrefix(name, "_tcp._tcp."), Port: 8080}}, nil
}

// R561: names are looked up until they have what is wanted, or the time is over.
func TestLookups(t *testing.T) {
	client := &Client{Resolver: &resolver{}, Retry: time.Millisecond}
	results := call(t, client, Plan{Key: "x", Patience: 200 * time.Millisecond, Timeout: time.Second, Queries: []Query{
		{Name: "slow.example", Type: A, Want: []string{"10.0.0.1"}}, {Name: "a.example", Type: AAAA, Want: []string{"fd00::1", "fd00::2"}},
		{Name: "a.example", Type: A, Want: []string{"10.0.0.9"}}, {Name: "silent.example", Type: A}, {Name: "missing.example", Type: A},
		{Name: "_tcp._tcp.a.example", Type: SRV, Want: []string{"a.example:8080"}},
	}})
	var got []string
	for _, lookup := range results.Lookups {
		got = append(got, fmt.Sprintf("%s %s %s %v", lookup.Name, lookup.Type, lookup.Outcome, lookup.Got))
	}
	for _, lookup := range results.Lookups {
		if works := lookup.Failed == 0; works != (lookup.Sent == lookups && lookup.Took > 0) || !works && lookup.Sent != 1 {
			t.Errorf("got %+v", lookup)
		}
	}
	want := []string{
		"slow.example A Succeeded [10.0.0.1]", "a.example AAAA Succeeded [fd00::1 fd00::2]", "a.example A Succeeded [10.0.0.1]", "silent.example A TimedOut []",
		"missing.example A NotFound []", "_tcp._tcp.a.example SRV Succeeded [a.example:8080]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected lookups (-want +got):\n%s", diff)
	}
}

// several are DNS servers of which one does not know the name, for some lookups.
type several struct {
	resolver
	broken int
}

func (s *several) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	s.broken--
	wrong := s.broken >= 0 && s.broken%3 == 0
	s.mu.Unlock()
	if wrong {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	return s.resolver.LookupNetIP(ctx, network, host)
}

// R561: a name that one of several DNS servers does not know is a failure, unless that server only lags.
func TestLookupsOfSeveralServers(t *testing.T) {
	for broken, want := range map[int]podprobe.Outcome{15: podprobe.Succeeded, 1_000_000: podprobe.NotFound} {
		synctest.Test(t, func(t *testing.T) {
			client := &Client{Resolver: &several{broken: broken}, Retry: retryInterval}
			results := call(t, client, Plan{Key: "x", Patience: time.Minute, Timeout: time.Second, Queries: []Query{{Name: "a.example", Type: A, Want: []string{"10.0.0.1"}}}})
			if got := results.Lookups[0]; got.Outcome != want || (got.Failed == 0) != (want == podprobe.Succeeded) || got.Failed == 0 && got.Sent != lookups {
				t.Errorf("%d lookups of a broken server: got %+v", broken, got)
			}
		})
	}
}

// R561: an address is tried until all clusters behind it have answered.
func TestAllClustersAnswer(t *testing.T) {
	east, west := serve(t, "x", Identity{Cluster: "east"}), serve(t, "x", Identity{Cluster: "west"})
	var dialer net.Dialer
	dials := 0
	client := &Client{Retry: time.Millisecond, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dials++; dials > 10 && dials%2 == 0 {
			return dialer.DialContext(ctx, network, west)
		}
		return dialer.DialContext(ctx, network, east)
	}}
	plan := Plan{Key: "x", Patience: 20 * time.Second, Timeout: 5 * time.Second, Targets: []Target{{Network: TCP, Address: "10.9.0.1:8080", Requests: 4, Clusters: []string{"east", "west"}}}}
	if contact := call(t, client, plan).Contacts[0]; contact.Failed != 0 || contact.Clusters["east"] == 0 || contact.Clusters["west"] == 0 {
		t.Errorf("got %+v", contact)
	}
	dials = -1000
	plan.Patience = 10 * time.Millisecond
	if contact := call(t, client, plan).Contacts[0]; contact.Failed != 0 || contact.Clusters["east"] == 0 || contact.Clusters["west"] != 0 {
		t.Errorf("got %+v", contact)
	}
}

// R561: requests that fail after the first was answered are counted.
func TestRequestsThatFailLaterAreCounted(t *testing.T) {
	address := serve(t, "x", Identity{Cluster: "east"})
	var dialer net.Dialer
	dials := 0
	client := &Client{Retry: time.Millisecond, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if dials++; dials%2 == 0 {
			connection.Close()
			return nil, errors.New("lost")
		}
		return connection, nil
	}}
	results := call(t, client, Plan{Key: "x", Patience: 20 * time.Second, Timeout: 5 * time.Second, Targets: []Target{{Network: TCP, Address: address, Requests: 4}}})
	contact := results.Contacts[0]
	if contact.Outcome != podprobe.Failed || contact.Error != "lost" || contact.Sent != 5 || contact.Failed != 2 || contact.Clusters["east"] != 3 {
		t.Errorf("got %+v", contact)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	plan := Plan{Key: "x", Patience: time.Second, Timeout: time.Second, Targets: []Target{{Network: TCP, Address: "127.0.0.1:1"}}}
	if err := NewClient().Run(ctx, plan, &out); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if results, err := Parse(&out); err != nil || results.Done {
		t.Errorf("done is %t, error %v", results.Done, err)
	}
}
