// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
)

// grants decide what peer-west may do, and remember which clusters were observed.
type grants struct {
	mu           sync.Mutex
	watch, relay bool
	err          error
	account      types.UID
	unsynced     bool
	observed     []string
}

func (g *grants) change(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// Authorize implements authorizer.Authorizer.
func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	allowed := g.watch
	if a.GetVerb() == "relay" {
		allowed = g.relay && a.GetResource() == "members" && a.GetName() == ""
	}
	if g.err != nil || !allowed {
		return authorizer.DecisionNoOpinion, "no binding", g.err
	}
	return authorizer.DecisionAllow, "", nil
}

// handle returns the requests of peers that the grants decide about.
func (g *grants) handle() *peerRequests {
	return &peerRequests{
		namespace: "mcs-system", self: func() string { return "east" }, authorizer: g, clock: clock.RealClock{}, views: map[string]knownView{}, watches: map[string][]*peerWatch{},
		account: func(name string) (types.UID, bool) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if name != "peer-west" {
				return "", true
			}
			return g.account, !g.unsynced
		},
		observe: func(id string) { g.change(func() { g.observed = append(g.observed, id) }) },
	}
}

const peerWest = "system:serviceaccount:mcs-system:peer-west"

// send sends a request of a user to a handler behind the filter.
func send(t *testing.T, peers *peerRequests, from user.Info, target string, handler http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(request.WithUser(t.Context(), from), http.MethodGet, target, nil)
	r.Header.Set("User-Agent", "mcs-apiserver cluster/north")
	_, answer := serve(t, func(http.Handler) http.Handler { return withPeers(handler, peers) }, r)
	return answer
}

// R250: a peer is recognized by its service account, whatever the request says.
func TestPeersAreRecognizedByTheirAccounts(t *testing.T) {
	for name, want := range map[string]*peerview.View{
		peerWest:                                 {Self: "east", Peer: "west"},
		"system:serviceaccount:mcs-system:peer-": nil,
		"system:serviceaccount:mcs-system:mcs-apiserver": nil,
		"system:serviceaccount:default:peer-west":        nil,
		"peer-west": nil,
		"admin":     nil,
	} {
		g := &grants{watch: true, account: "uid"}
		var access peerview.Access
		peer := false
		send(t, g.handle(), &user.DefaultInfo{Name: name}, clusterSet+"exportedservices", func(_ http.ResponseWriter, r *http.Request) {
			access, peer = peerview.AccessFrom(r.Context())
		})
		switch {
		case want == nil && (peer || len(g.observed) > 0):
			t.Errorf("%s is taken for a peer: %+v, %v", name, access.View, g.observed)
		case want != nil && (!peer || access.View != *want || !slices.Equal(g.observed, []string{"west"})):
			t.Errorf("%s has %+v, %v; want %+v", name, access.View, g.observed, want)
		}
	}
}

// R1: clusters that read exports are reported, not those that only ask for members.
func TestOnlyReadersOfExportsAreObserved(t *testing.T) {
	g := &grants{}
	for _, path := range []string{"members", "members/east", "exportedservices", "namespaces/shop/exportedendpointslices"} {
		send(t, g.handle(), &user.DefaultInfo{Name: peerWest}, clusterSet+path, func(http.ResponseWriter, *http.Request) {})
	}
	if want := []string{"west", "west"}; !slices.Equal(g.observed, want) {
		t.Errorf("observed %v, want %v", g.observed, want)
	}
}

// R251: what is relayed depends on the verb relay. If that cannot be decided, the peer
// has to retry: a list without what is relayed to it would mean that it is gone.
func TestRelayingIsDecidedByTheVerb(t *testing.T) {
	g := &grants{relay: true}
	peers := g.handle()
	var access peerview.Access
	read := func() *httptest.ResponseRecorder {
		access = peerview.Access{}
		return send(t, peers, &user.DefaultInfo{Name: peerWest}, clusterSet+"exportedservices", func(_ http.ResponseWriter, r *http.Request) {
			access, _ = peerview.AccessFrom(r.Context())
		})
	}
	if read(); !access.View.Relayed || !access.Since.IsZero() {
		t.Errorf("with the verb: %+v", access)
	}
	begin := time.Now()
	g.relay = false
	if read(); access.View.Relayed || access.Since.Before(begin) {
		t.Errorf("without the verb: %+v", access)
	}
	since := access.Since
	if read(); access.Since != since {
		t.Errorf("the view did not change at %s", access.Since)
	}
	g.err = errors.New("kube-apiserver is gone")
	if answer := read(); answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || !strings.Contains(answer.Body.String(), "kube-apiserver is gone") || access.View.Peer != "" {
		t.Errorf("while it is unknown: %d %v %s", answer.Code, answer.Header(), answer.Body)
	}
}

// R254: an open watch of a peer ends when its access is revoked, and is told when its
// view changes, at the next review. It goes on if the access cannot be reviewed.
func TestWatchesOfPeersAreReviewed(t *testing.T) {
	const goesOn, ends, changes = "goes on", "ends", "changes"
	for _, test := range []struct {
		name   string
		uid    string
		change func(*grants)
		want   string
	}{
		{"nothing happens", "uid", func(*grants) {}, goesOn},
		{"account is deleted", "uid", func(g *grants) { g.account = "" }, ends},
		{"account is deleted, and the UID of the user is unknown", "", func(g *grants) { g.account = "" }, ends},
		{"account is replaced", "uid", func(g *grants) { g.account = "another" }, ends},
		{"account is replaced, but the UID of the user is unknown", "", func(g *grants) { g.account = "another" }, goesOn},
		{"accounts are unknown", "uid", func(g *grants) { g.account, g.unsynced = "", true }, goesOn},
		{"binding is deleted", "uid", func(g *grants) { g.watch = false }, ends},
		{"binding cannot be reviewed", "uid", func(g *grants) { g.watch, g.err = false, errors.New("unreachable") }, goesOn},
		{"relaying is granted", "uid", func(g *grants) { g.relay = true }, changes},
		{"relaying is granted, and the binding deleted", "uid", func(g *grants) { g.relay, g.watch = true, false }, ends},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &grants{watch: true, account: "uid"}
				got := goesOn
				send(t, g.handle(), &user.DefaultInfo{Name: peerWest, UID: test.uid}, clusterSet+"exportedservices?watch=true", func(_ http.ResponseWriter, r *http.Request) {
					access, _ := peerview.AccessFrom(r.Context())
					review := func() {
						select {
						case <-r.Context().Done():
							got = ends
						case <-access.Changed:
							got = changes
						case <-time.After(reviewInterval + time.Second):
						}
					}
					if review(); got != goesOn {
						t.Fatalf("the watch %s before anything changed", got)
					}
					g.change(func() { test.change(g) })
					review()
				})
				if got != test.want {
					t.Errorf("the watch %s, but should %s", got, test.want)
				}
				if !slices.Equal(g.observed[:2], []string{"west", "west"}) { // at the beginning and with each review
					t.Errorf("observed %v", g.observed)
				}
			})
		})
	}
}

// R508: a peer has a limited number of watches: if there are more, the oldest ends. Neither are
// those of others limited, nor what else it reads.
func TestWatchesOfAPeerAreLimited(t *testing.T) {
	peers := (&grants{watch: true, account: "uid"}).handle()
	read := func(name, target string, handler http.HandlerFunc) {
		if got := send(t, peers, &user.DefaultInfo{Name: name}, clusterSet+target, handler).Code; got != http.StatusOK {
			t.Errorf("%s reads %s: got %d", name, target, got)
		}
	}
	ignore := func(http.ResponseWriter, *http.Request) {}
	var open func(outer ...context.Context)
	open = func(outer ...context.Context) {
		ended := func() (number int) {
			for number < len(outer) && outer[number].Err() != nil {
				number++
			}
			return number
		}
		if len(outer) < maxPeerWatches {
			read(peerWest, "exportedservices?watch=true", func(_ http.ResponseWriter, r *http.Request) { open(append(outer, r.Context())...) })
			return
		}
		read(peerWest, "members", ignore)
		read("system:serviceaccount:mcs-system:peer-north", "members?watch=true", ignore)
		read("admin", "members?watch=true", ignore)
		if ended() != 0 {
			t.Error("a watch ended because of what others read, or is no watch")
		}
		check := func(r *http.Request, want int) {
			if r.Context().Err() != nil || ended() != want || outer[want].Err() != nil {
				t.Errorf("%d watches ended when %d were too many", ended(), want)
			}
		}
		read(peerWest, "members?watch=true", func(_ http.ResponseWriter, first *http.Request) {
			check(first, 1)
			read(peerWest, "members?watch=true", func(_ http.ResponseWriter, second *http.Request) {
				check(first, 2)
				check(second, 2)
			})
			read(peerWest, "members?watch=true", func(_ http.ResponseWriter, third *http.Request) { check(third, 2) }) // there is room for it
		})
	}
	open()
	if len(peers.watches) > 0 {
		t.Errorf("watches of %v are counted", peers.watches)
	}
}

// R283: if a view changes, watches are told at the next review, whether relaying was
// granted or revoked. A watch that goes on, because it does not depend on the view, still
// ends when the access is revoked.
func TestWatchIsReviewedAfterItsViewChanged(t *testing.T) {
	for _, relayed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := &grants{watch: true, account: "uid", relay: relayed}
			send(t, g.handle(), &user.DefaultInfo{Name: peerWest, UID: "uid"}, "/apis/multicluster.k8s.io/v1/clusterclaims?watch=true", func(_ http.ResponseWriter, r *http.Request) {
				access, _ := peerview.AccessFrom(r.Context())
				next := func(what string, signal <-chan struct{}) {
					select {
					case <-signal:
					case <-time.After(reviewInterval + time.Second):
						t.Errorf("relayed before: %v: the watch was not told that %s", relayed, what)
					}
				}
				g.change(func() { g.relay = !relayed })
				next("the view changed", access.Changed)
				g.change(func() { g.relay = relayed }) // and back
				time.Sleep(2 * reviewInterval)
				g.change(func() { g.watch = false })
				next("access was revoked", r.Context().Done())
			})
		})
	}
}
