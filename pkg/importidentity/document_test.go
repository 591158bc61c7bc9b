// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

func TestEndingALifeTwiceChangesNothing(t *testing.T) {
	var d document
	d.end("web", 0, epoch)
	d.end("web", 0, epoch.Add(time.Hour))
	if want := (Life{1, epoch.Unix()}); d.life("web") != want || d.life("api") != (Life{}) {
		t.Errorf("web has life %v, want %v; api has %v", d.life("web"), want, d.life("api"))
	}
	d.end("web", 4, epoch.Add(-time.Hour)) // a clock was set back
	if want := (Life{5, epoch.Unix()}); d.life("web") != want {
		t.Errorf("web has life %v, want %v", d.life("web"), want)
	}
}

// The format of stored documents must not change.
func TestDocumentsAreDecodedAsEncoded(t *testing.T) {
	const text = `{"namespace":"shop","base":[2,1767225600],"lives":{"web":[1,0]}}`
	decoded, err := decode([]byte(text))
	want := document{Namespace: "shop", Base: Life{2, epoch.Unix()}, Lives: map[string]Life{"web": {Number: 1}}}
	if diff := cmp.Diff(want, decoded); diff != "" || err != nil {
		t.Errorf("decoded %s, %v", diff, err)
	}
	if encoded, err := json.Marshal(decoded); string(encoded) != text || err != nil {
		t.Errorf("encoded %s, %v", encoded, err)
	}
	if _, err := decode([]byte("{")); err == nil {
		t.Error("an invalid document was decoded")
	}
}

// R164: whatever happens to a document, the life of no name decreases, and those of
// existing imports do not change unless they end.
func TestLivesNeverDecrease(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // repeatable
	name := func() string { return fmt.Sprintf("service-%d", random.IntN(3*maxEnded)) }
	var d, old document
	shown := map[string]int64{}
	compactions := 0
	for range 20 {
		old = merge(d, document{}) // a copy
		for range maxEnded {
			ended := name()
			number, found := shown[ended]
			if !found {
				number = d.life(ended).Number
			}
			delete(shown, ended)
			before := d.life(ended)
			d.end(ended, number, epoch)
			if d.life(ended).Number <= before.Number {
				t.Fatalf("%s had life %v, and has %v after its end", ended, before, d.life(ended))
			}
			if added := name(); random.IntN(4) == 0 {
				if _, found := shown[added]; !found {
					shown[added] = d.life(added).Number
				}
			}
		}
		before := d
		d.compact(func() map[string]int64 { return shown })
		if d.Base != before.Base {
			compactions++
		}
		if len(d.Lives) > maxEnded+len(shown) {
			t.Errorf("%d entries for %d imports", len(d.Lives), len(shown))
		}
		merged := merge(old, d)
		for i := range 3 * maxEnded {
			name := fmt.Sprintf("service-%d", i)
			number, found := shown[name]
			if got := d.life(name).Number; got < before.life(name).Number || found && got != number {
				t.Fatalf("%s had life %v, has %d; shown: %t, %d", name, before.life(name), got, found, number)
			}
			if got := merged.life(name).Number; got != d.life(name).Number {
				t.Fatalf("a replica that lags behind has life %d of %s, want %d", got, name, d.life(name).Number)
			}
		}
	}
	if compactions < 3 {
		t.Errorf("the document was compacted %d times only", compactions)
	}
}

// R164: a document is far smaller than what a record can hold, with the largest
// number of Services that Kubernetes supports and the longest names.
func TestDocumentsAreBounded(t *testing.T) {
	long := func(i int) string { return fmt.Sprintf("%063d", i) }
	var d document
	shown := map[string]int64{}
	for i := range 3 * maxShown {
		d.end(long(i), 1000, epoch)
		if i%2 == 0 {
			shown[long(i)] = 1001
		}
	}
	d.compact(func() map[string]int64 { return shown })
	for i := range maxEnded {
		d.end(strings.Repeat("x", 59)+fmt.Sprintf("%04d", i), d.Base.Number, epoch)
	}
	encoded, err := json.Marshal(d)
	if err != nil || len(encoded) > record.MaxBytes*9/10 || len(d.Lives) != maxShown+maxEnded {
		t.Errorf("%d entries have %d bytes, limit %d bytes: %v", len(d.Lives), len(encoded), record.MaxBytes, err)
	}
	t.Logf("%d entries have %d bytes", len(d.Lives), len(encoded))
}

// After a loss, the document of a replica and the stored one are merged.
func TestMergeKeepsTheLaterLife(t *testing.T) {
	one := document{Namespace: "ns", Base: Life{10, 5}, Lives: map[string]Life{"kept": {Number: 2}, "web": {11, 6}}}
	other := document{Lives: map[string]Life{"web": {1, 1}, "api": {12, 7}, "db": {3, 3}}}
	want := document{Namespace: "ns", Base: Life{10, 5}, Lives: map[string]Life{"kept": {Number: 2}, "web": {11, 6}, "api": {12, 7}}}
	for _, got := range []document{merge(one, other), merge(other, one)} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
