// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

// R164: the documents of a namespace with 100,000 imports are smaller than what a record
// can hold, with the longest names.
func TestDocumentsAreBounded(t *testing.T) {
	const count = 100_000/shards + maxEnded
	var d document
	for i := range count {
		d.end(fmt.Sprintf("%063d", i), 1_000_000, epoch)
	}
	encoded, err := json.Marshal(d)
	if err != nil || len(encoded) > record.MaxBytes*9/10 || len(d.Lives) != count {
		t.Errorf("%d entries have %d bytes, limit %d bytes: %v", len(d.Lives), len(encoded), record.MaxBytes, err)
	}
	t.Logf("%d entries have %d bytes", len(d.Lives), len(encoded))
}

// R160, R164: however many imports a namespace has, they keep their lives when its
// documents are compacted, and other names never use a life again.
func TestCompactionKeepsAllLivingImports(t *testing.T) {
	var d document
	living := map[string]int64{}
	for i := range 10_000 {
		living[fmt.Sprintf("living-%d", i)] = 0
	}
	for round := range 3 {
		before := d.Base
		for i := range maxEnded + 1 {
			d.end(fmt.Sprintf("ended-%d-%d", round, i), d.Base.Number, epoch)
		}
		d.compact(func() map[string]int64 { return living })
		for name, number := range living {
			if got := d.life(name).Number; got != number {
				t.Fatalf("round %d: %s has life %d, had %d", round, name, got, number)
			}
		}
		if d.Base.Number <= before.Number+1 || len(d.Lives) != len(living) {
			t.Errorf("round %d: the base is %v, was %v; %d entries", round, d.Base, before, len(d.Lives))
		}
	}
}

func TestEveryNameHasOneOfTheDocumentsOfItsNamespace(t *testing.T) {
	found := map[shard]int{}
	for i := range 1000 {
		id := shardOf("3f2c", fmt.Sprintf("service-%d", i))
		if parsed, err := parseShard(id.String()); parsed != id || err != nil {
			t.Fatalf("%s is parsed as %v: %v", id, parsed, err)
		}
		found[id]++
	}
	for id, names := range found {
		if names < 20 || len(found) != shards {
			t.Errorf("%s has %d of 1000 names, in %d documents", id, names, len(found))
		}
	}
	// It must not change: the lives of all names would begin anew.
	if got := shardOf("3f2c", "web").String(); got != "3f2c.1" {
		t.Errorf("web is in %s", got)
	}
	for _, name := range []string{"3f2c", "3f2c.16", "3f2c.-1", "3f2c.x", ".1", "3f2c.1.1"} {
		if id, err := parseShard(name); err == nil {
			t.Errorf("%s is parsed as %v", name, id)
		}
	}
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
