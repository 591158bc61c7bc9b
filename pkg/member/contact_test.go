// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"sync"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// R165: a contact says that all Services of a member are recorded. So it is not recorded
// before they are, in whatever order they arrive: until then, what was recorded before
// stays.
func TestContactIsNotRecordedBeforeTheServices(t *testing.T) {
	for name, test := range map[string]func(w *fixture, b *receiver, contact func()){
		"while the member is accepted": func(w *fixture, b *receiver, contact func()) {
			w.probe(b, ownEntry("b", withExports(1)))
			w.replace(t, b, exports.Services, exported("b", "web"))
			claims := identityOf("b")
			after := w.locked(func() {
				b.peer.claims, b.peer.claimedAt = &claims, claims.ClaimedAt
				w.evaluateLocked()
			})
			contact()
			after()
		},
		"while recording waits for an update": func(w *fixture, b *receiver, contact func()) {
			w.probe(b, ownEntry("b", withExports(1)))
			w.replace(t, b, exports.Services, exported("b", "web"))
			b.peer.updates.Lock() // a long list of endpoints is compared
			var running sync.WaitGroup
			running.Go(func() { b.ClaimsRead(identityOf("b")) })
			eventually(t, "it is accepted", func() bool { return w.Entry("b").Status.State == connected })
			contact()
			b.peer.updates.Unlock()
			running.Wait()
		},
		"while the Services are updated": func(w *fixture, b *receiver, contact func()) {
			b.ClaimsRead(identityOf("b"))
			w.probe(b, ownEntry("b", withExports(1)))
			read := []exports.Arrival{w.arrival(t, b, exported("b", "web"))}
			b.update(func(store *exports.Store, _ exports.Policy) exports.Update {
				return store.Replace("b", exports.Services, read)
			}, func(exports.Update) {
				b.peer.listed[exports.Services] = true
				w.mu.Unlock() // the update is not recorded before
				contact()
				w.mu.Lock()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			before, same := exporting(t, recorded)
			before.upsert(t, same, exported("b", "former"))
			before.persist(t)

			w := newFixture(t, recorded) // which leaves the documents until it hears from b
			b := w.add("b")
			test(w, b, func() {
				t.Helper()
				w.recordContact(b.peer)
				w.persist(t)
				if got := loaded(t, recorded)["b"]; names(got) != "former.b,web.b" || got.Incomplete {
					t.Errorf("recorded are %q meanwhile; incomplete: %t", names(got), got.Incomplete)
				}
			})
			w.probe(b, ownEntry("b", withExports(1)))
			w.persist(t)
			if got := loaded(t, recorded)["b"]; names(got) != "web.b" || got.Incomplete {
				t.Errorf("recorded are %q in the end; incomplete: %t", names(got), got.Incomplete)
			}
		})
	}
}
