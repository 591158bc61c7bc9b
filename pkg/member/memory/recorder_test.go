// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

func TestRecordedMembersAreRecalled(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.record("b", "web", "api")
	w.record("b", "web") // replaced
	ref, relayed := service(t, "x", "web")
	w.Record(0, "h", "uid-h", ref, relayed)
	w.heard("b")
	w.heard("h")
	w.flush()
	got := recalled(t, store)
	if names(got["b"]) != "api,web" || names(got["h"]) != "web" || got["h"].Services[0].Cluster != "x" {
		t.Errorf("recalled are %q of b and %q of h", names(got["b"]), names(got["h"]))
	}
	if diff := cmp.Diff(contactOf("b"), got["b"].Contact); diff != "" || got["b"].UID != "uid-b" {
		t.Errorf("recalled is UID %s; want (-), got (+): %s", got["b"].UID, diff)
	}
	if object := got["h"].Services[0]; object.Object == nil || object.Name != relayed.Name || object.Kind != exports.Services {
		t.Errorf("recalled is %+v", object)
	}
}

// R165: one change is one write of one small document, however much a member exports.
func TestOneChangeIsOneSmallWrite(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(4_000)...)
	w.flush()
	documents, _, err := store.List(t.Context())
	membertest.Must(t, err)
	largest := 0
	for _, data := range documents {
		largest = max(largest, len(data))
	}
	t.Logf("4000 Services: %d documents, the largest has %d bytes", len(documents), largest)
	if largest > 16<<10 {
		t.Errorf("a document has %d bytes", largest)
	}
	before := store.Version()
	for range 10 {
		w.record("b", "web-77") // another object
	}
	changed, service := service(t, "b", "web-78")
	service.Spec.ExportedLabels = map[string]string{"changed": "true"}
	w.Record(0, "b", "uid-b", changed, service)
	w.flush()
	if got := store.Version() - before; got != 1 {
		t.Errorf("the change of one Service took %d writes, want 1", got)
	}
	w.Record(0, "b", "uid-b", changed, nil)
	w.flush()
	if got := store.Version() - before; got != 2 {
		t.Errorf("the removal of one Service took %d writes, want 1", got-1)
	}
	if got := len(recalled(t, store)["b"].Services); got != 3_999 {
		t.Errorf("%d Services are recalled", got)
	}
}

// R165: what was recalled is not written again, whichever replica writes.
func TestRecalledIsNotWrittenAgain(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(500)...)
	w.flush()
	before := store.Version()
	for range 2 {
		after := newWriter(t, store)
		after.flush()
		after.record("b", many(500)...) // the first list of the feed
		after.heard("b")
		after.flush()
	}
	if got := store.Version() - before; got != 0 {
		t.Errorf("nothing changed, and that took %d writes", got)
	}
	after := newWriter(t, store)
	ref, removed := service(t, "b", "web-5")
	after.RecordAll(0, "b", "uid-b", chunk{ref: removed})
	after.heard("b")
	after.flush()
	if got := recalled(t, store)["b"]; names(got) != "web-5" {
		t.Errorf("%d Services are recalled, want the one that is left", len(got.Services))
	}
}

// R165: a replica that is not elected writes nothing. When it is, it writes only what
// differs, and does not replace what is newer than what it has heard.
func TestNextWriterWritesDifferences(t *testing.T) {
	store := recordtest.New()
	first := newWriter(t, store)
	first.heard("b")
	first.record("b", many(300)...)
	first.flush()

	next, _ := newReplica(t, store)
	first.record("b", "newer")
	first.heard("h") // a member that the next writer has not reached yet
	first.record("h", "hub")
	first.flush()
	before := store.Version()
	next.flush()
	membertest.Must(t, next.TakeOver(t.Context()))
	next.flush()
	if got := store.Version() - before; got != 0 {
		t.Errorf("%d writes of a replica that has not heard from any member", got)
	}
	next.record("b", "newest")
	ref, _ := service(t, "b", "web-1")
	next.Record(0, "b", "uid-b", ref, nil)
	next.record("b", "newer")
	next.heard("b")
	next.flush()
	if got := store.Version() - before; got > 3 {
		t.Errorf("two changes took %d writes", got)
	}
	got := recalled(t, store)
	if len(got["b"].Services) != 301 || !strings.Contains(names(got["b"]), "newer,newest") || names(got["h"]) != "hub" {
		t.Errorf("recalled are %d Services of b, and %q of h", len(got["b"].Services), names(got["h"]))
	}
}

// R165: a replica that no longer hears from a member does not replace what another one
// has recorded since, until it knows all Services again. Of what it was told before, it
// still writes the rest.
func TestWriterThatDoesNotHearFromAMemberLeavesItsRecords(t *testing.T) {
	store := recordtest.New()
	stale, other := newWriter(t, store), newWriter(t, store)
	stale.heard("b")
	stale.record("b", "old")
	stale.Doubt("b")
	stale.flush()
	if got := names(recalled(t, store)["b"]); got != "old" {
		t.Fatalf("recalled are %q, want what was heard before", got)
	}
	other.heard("b")
	other.record("b", "new")
	membertest.Must(t, other.TakeOver(t.Context()))
	other.flush()
	stale.record("b", "partial") // not all that is missing
	membertest.Must(t, stale.TakeOver(t.Context()))
	stale.flush()
	if got := names(recalled(t, store)["b"]); got != "new" {
		t.Errorf("recalled are %q, want those of the replica that hears from the member", got)
	}
	ref, service := service(t, "b", "newest")
	stale.RecordAll(0, "b", "uid-b", chunk{ref: service})
	stale.heard("b")
	stale.flush()
	if got := names(recalled(t, store)["b"]); got != "newest" {
		t.Errorf("recalled are %q after all Services were read again", got)
	}
}

// R169: documents of a cluster that is no longer a member are deleted, and not decoded.
func TestFormerMembersAreDeletedWithoutBeingRead(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", "web")
	w.flush()
	put := func(name, data string) {
		_, _, err := store.Update(t.Context(), name, func([]byte) ([]byte, error) { return []byte(data), nil })
		membertest.Must(t, err)
	}
	put("contact.former", "not to be decoded")
	put("services-01.former", "not to be decoded")
	var log strings.Builder
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	after := NewRecorder(store, Unopposed, clock.RealClock{})
	got, err := after.Load(ctx, map[string]string{"member-b": "b"})
	membertest.Must(t, err)
	if _, known := got["former"]; known || names(got["b"]) != "web" || strings.Contains(log.String(), "decode") {
		t.Errorf("recalled is %v; logged:\n%s", got, log.String())
	}
	membertest.Must(t, after.TakeOver(t.Context()))
	after.Flush(t.Context())
	if documents, _, _ := store.List(t.Context()); len(documents) != 2 || documents["contact.b"] == nil || documents["services.b"] == nil {
		t.Errorf("stored are %v", documents)
	}
}

// R169: a document that cannot be read costs no other, and the member counts as
// incomplete, not as one that exports less, until it is read again.
func TestMembersWithUnreadableDocumentsAreIncomplete(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	put := func(name string, data []byte) {
		_, _, err := store.Update(t.Context(), name, func([]byte) ([]byte, error) { return data, nil })
		membertest.Must(t, err)
	}
	w.heard("b")
	w.record("b", many(300)...)
	w.heard("h")
	w.record("h", "hub")
	w.flush()
	if got := recalled(t, store); got["b"].Incomplete || got["h"].Incomplete {
		t.Fatal("what was recorded counts as incomplete")
	}
	documents, _, err := store.List(t.Context())
	membertest.Must(t, err)
	lost := 0
	for name := range documents {
		if identified, _ := parseName(name); lost == 0 && identified.member == "b" && !identified.contact {
			_, services, err := decodeServices(documents[name])
			membertest.Must(t, err)
			lost = len(services)
			put(name, []byte("broken"))
		}
	}
	put("contact.h", []byte{})
	after, got := newReplica(t, store)
	if b := got["b"]; !b.Incomplete || b.UID != "uid-b" || len(b.Services) != 300-lost {
		t.Errorf("recalled are %d Services, want %d; incomplete: %t", len(b.Services), 300-lost, b.Incomplete)
	}
	if h := got["h"]; !h.Incomplete || h.UID != "uid-h" || names(h) != "hub" {
		t.Errorf("of h with UID %q are recalled %q, incomplete: %t", h.UID, names(h), h.Incomplete)
	}
	membertest.Must(t, after.TakeOver(t.Context()))
	after.heard("b")
	after.record("b", many(300)...)
	after.heard("h")
	after.flush()
	if got := recalled(t, store); len(got["b"].Services) != 300 || got["b"].Incomplete || names(got["h"]) != "hub" || got["h"].Incomplete {
		t.Errorf("recalled are %d Services of b and %q of h after they were read again", len(got["b"].Services), names(got["h"]))
	}
	// Without a contact, and with Services of two clusters, it is unknown whose they are.
	_, other := service(t, "h", "other")
	data, err := encodeServices("another", []*clusterset.ExportedService{other})
	membertest.Must(t, err)
	put("services-0.h", data)
	if h := recalled(t, store)["h"]; !h.Incomplete || h.UID != "uid-h" {
		t.Errorf("recalled is %+v, although Services of another cluster are stored", h)
	}
	put("contact.h", nil)
	if h, known := recalled(t, store)["h"]; known {
		t.Errorf("recalled is %+v, although it is unknown whose records these are", h)
	}
}

func TestAnotherUIDIsAnotherMember(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(200)...)
	w.flush()
	ref, web := service(t, "b", "web-7")
	w.Record(0, "b", "another", ref, nil) // not the one that is known
	w.flush()
	if got := len(recalled(t, store)["b"].Services); got != 200 {
		t.Errorf("%d Services are recalled after another cluster removed one", got)
	}
	w.RecordContact("b", "another", contactOf("b"))
	w.Record(0, "b", "another", ref, web)
	w.flush()
	if got := recalled(t, store)["b"]; got.UID != "another" || names(got) != "web-7" {
		t.Errorf("recalled of %s: %q", got.UID, names(got))
	}
	if documents, _, _ := store.List(t.Context()); len(documents) != 2 {
		t.Errorf("%d documents are left", len(documents))
	}
}

func TestForgetLeavesOtherMembers(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	for _, id := range []string{"b", "h"} {
		w.heard(id)
		w.record(id, many(100)...)
	}
	w.flush()
	standby, _ := newReplica(t, store)
	epoch := w.Epoch("b")
	w.Forget("b")
	standby.Forget("b")
	ref, late := service(t, "b", "late")
	w.Record(epoch, "b", "uid-b", ref, late) // of a caller without a lock
	w.RecordAll(epoch, "b", "uid-b", chunk{ref: late})
	w.flush()
	if got := recalled(t, store); len(got) != 1 || len(got["h"].Services) != 100 {
		t.Errorf("recalled are %v", got)
	}
	w.heard("b")
	w.record("b", "back")
	w.flush()
	if got := recalled(t, store); names(got["b"]) != "back" {
		t.Errorf("recalled is %q of a member that is back", names(got["b"]))
	}
	// The next writer has not reached the member that is back, but knows of its Secret.
	standby.Doubt("b")
	membertest.Must(t, standby.TakeOver(t.Context()))
	standby.flush()
	if got := recalled(t, store); names(got["b"]) != "back" || len(got["h"].Services) != 100 {
		t.Errorf("recalled are %q of b, and %d Services of h", names(got["b"]), len(got["h"].Services))
	}
	// A writer deletes what the former one did not get to.
	standby.Forget("b")
	membertest.Must(t, standby.TakeOver(t.Context()))
	standby.flush()
	if got := recalled(t, store); len(got) != 1 || len(got["h"].Services) != 100 {
		t.Errorf("recalled are %v", got)
	}
}

// A Secret may be renamed, or replaced by one for another cluster, while no server runs.
func TestSecretThatNoLongerExistsIsNotRecalled(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.flush()
	for name, test := range map[string]struct {
		ids  map[string]string
		want string
	}{
		"same":     {map[string]string{"member-b": "b"}, "member-b"},
		"renamed":  {map[string]string{"renamed": "b"}, ""},
		"replaced": {map[string]string{"renamed": "b", "member-b": "c"}, ""},
	} {
		got, err := NewRecorder(store, Unopposed, clock.RealClock{}).Load(t.Context(), test.ids)
		membertest.Must(t, err)
		if member, known := got["b"]; !known || member.Secret != test.want {
			t.Errorf("%s: recalled is %+v", name, member)
		}
	}
}

// What was divided may exist beside its parts if a server ended in between.
func TestPartsOfADocumentTakePrecedence(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(maxServices)...)
	w.flush()
	whole, _, err := store.List(t.Context())
	membertest.Must(t, err)
	w.record("b", "one-more")
	ref, _ := service(t, "b", "web-1")
	w.Record(0, "b", "uid-b", ref, nil)
	w.flush()
	divided, _, err := store.List(t.Context())
	membertest.Must(t, err)
	if divided["services.b"] != nil || divided["services-0.b"] == nil || divided["services-1.b"] == nil {
		t.Fatalf("stored are %d documents", len(divided))
	}
	want := names(recalled(t, store)["b"])
	_, _, err = store.Update(t.Context(), "services.b", func([]byte) ([]byte, error) { return whole["services.b"], nil })
	membertest.Must(t, err)
	if got := names(recalled(t, store)["b"]); got != want {
		t.Errorf("recalled are %s, want %s", got, want)
	}
	// With only one of the parts, the rest comes from the document that was divided.
	_, _, err = store.Update(t.Context(), "services-1.b", func([]byte) ([]byte, error) { return nil, nil })
	membertest.Must(t, err)
	if got := len(recalled(t, store)["b"].Services); got < maxServices-1 {
		t.Errorf("%d Services are recalled", got)
	}
	after := newWriter(t, store)
	after.heard("b")
	after.flush()
	if documents, _, _ := store.List(t.Context()); documents["services.b"] != nil || len(recalled(t, store)["b"].Services) < maxServices-1 {
		t.Error("what was divided still exists")
	}
}

func TestLargeServicesAreDivided(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(6)...)
	for _, name := range many(6) {
		ref, large := service(t, "b", name)
		large.Spec.ExportedAnnotations = noise(name, 50_000)
		w.Record(0, "b", "uid-b", ref, large)
	}
	w.flush()
	documents, _, err := store.List(t.Context())
	membertest.Must(t, err)
	for name, data := range documents {
		if len(data) > maxDocument {
			t.Errorf("document %s has %d bytes", name, len(data))
		}
	}
	if got := len(recalled(t, store)["b"].Services); got != 6 {
		t.Errorf("%d Services are recalled", got)
	}
}

// noise returns annotations that take a number of bytes, also when they are compressed.
func noise(seed string, size int) map[string]string {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(seed))).Read(data)
	return map[string]string{"noise": hex.EncodeToString(data)}
}

// R447: a Service that is too large to be recorded is not missing after a restart, so that
// nothing waits for its member to be read. No record is better than an outdated one.
func TestServiceThatIsTooLargeIsNotMissing(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(6)...)
	w.flush()
	for _, step := range []struct {
		what     string
		size     int
		recalled string
	}{
		{"too large", 270_000, "web-0,web-1,web-2,web-4,web-5"},
		{"still too large", 280_000, "web-0,web-1,web-2,web-4,web-5"},
		{"smaller", 1000, "web-0,web-1,web-2,web-3,web-4,web-5"},
		{"too large again", 270_000, "web-0,web-1,web-2,web-4,web-5"},
	} {
		ref, changed := service(t, "b", "web-3")
		changed.Spec.ExportedAnnotations = noise(step.what, step.size)
		w.Record(0, "b", "uid-b", ref, changed)
		w.flush()
		if got := recalled(t, store)["b"]; names(got) != step.recalled || got.Incomplete {
			t.Errorf("%s: recalled are %s, incomplete: %t", step.what, names(got), got.Incomplete)
		}
		documents, _, err := store.List(t.Context())
		membertest.Must(t, err)
		contact, err := decodeContact(documents["contact.b"])
		membertest.Must(t, err)
		if len(contact.chunks) != len(documents)-1 {
			t.Errorf("%s: %d documents with Services are listed, and %d are stored", step.what, len(contact.chunks), len(documents)-1)
		}
	}
	next := newWriter(t, store) // which does not know it until the member is read
	before := store.Version()
	ref, large := service(t, "b", "web-3")
	large.Spec.ExportedAnnotations = noise("too large again", 270_000)
	next.Record(0, "b", "uid-b", ref, large)
	next.heard("b")
	next.flush()
	if got := recalled(t, store)["b"]; got.Incomplete || store.Version() != before {
		t.Errorf("after a restart, it was written %d times; incomplete: %t", store.Version()-before, got.Incomplete)
	}
}

// R447: a chunk is missing as long as it may be stored and is not.
func TestServiceBesideOneThatIsTooLargeMayBeMissing(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	ref, large := service(t, "b", "web-0")
	large.Spec.ExportedAnnotations = noise("large", 270_000)
	w.Record(0, "b", "uid-b", ref, large)
	w.flush()
	if got := recalled(t, store)["b"]; got.Incomplete {
		t.Error("it counts as incomplete")
	}
	store.Before(func(_ context.Context, call recordtest.Call) error {
		if call.Method == "Update" && strings.HasPrefix(call.Name, servicesName) {
			return errors.New("not now")
		}
		return nil
	})
	w.record("b", many(6)[1:]...)
	w.Flush(t.Context()) // the chunk
	w.Flush(t.Context()) // the contact
	w.Flush(t.Context())
	store.Before(nil)
	if got := recalled(t, store)["b"]; !got.Incomplete {
		t.Errorf("recalled are %q, and it counts as complete", names(got))
	}
	w.flush()
	if got := recalled(t, store)["b"]; got.Incomplete || len(got.Services) != 5 {
		t.Errorf("recalled are %q, incomplete: %t", names(got), got.Incomplete)
	}
}

func TestLoadIsRetriedUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		failures := 3
		store.Before(func(context.Context, recordtest.Call) error {
			if failures--; failures >= 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
		if _, recalled := newReplica(t, store); recalled == nil || failures >= 0 {
			t.Error("the memory was not read")
		}
		failures = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := NewRecorder(store, Unopposed, clock.RealClock{}).Load(ctx, nil); err == nil {
			t.Error("the memory was read without a storage")
		}
	})
}
