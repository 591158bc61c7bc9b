// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDocuments merges arbitrary records of lives, and reads arbitrary marks.
//
// R367: a record that cannot be decoded is an error, not an empty one. Of two records every
// name gets the later life, in any order, and no life goes back when a record is compacted.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"namespace":"shop","base":[1,5],"lives":{"web":[2,7]}}`), []byte(`{"namespace":"shop","lives":{"web":[1,9],"db":[3,1]}}`), "3/uid", "uid.7")
	f.Add([]byte(`{"base":[9223372036854775807,0]}`), []byte(`[]`), "-1/uid", "uid.16")
	f.Fuzz(func(t *testing.T, one, other []byte, mark, name string) {
		if life := Marked(mark, "uid"); life != 0 {
			if again := Marked((Identity{Life: life, Scope: Scope{NamespaceUID: "uid"}}).Mark(), "uid"); again != life {
				t.Fatalf("mark %q is that of life %d, whose mark is that of %d", mark, life, again)
			}
			if Marked(mark, "other") != 0 {
				t.Fatalf("mark %q counts in another namespace", mark)
			}
		}
		if shard, err := parseShard(name); err == nil {
			if again, err := parseShard(shard.String()); err != nil || again != shard || shard.number >= shards {
				t.Fatalf("%q is shard %v, which is shard %v: %v", name, shard, again, err)
			}
		}
		a, err := decode(one)
		if err != nil {
			return
		}
		b, err := decode(other)
		if err != nil {
			return
		}
		merged := merge(a, b)
		if reversed := merge(b, a); reversed.Base != merged.Base || !cmp.Equal(reversed.Lives, merged.Lives) {
			t.Fatalf("merged %+v or %+v", merged, reversed)
		}
		encoded, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := decode(encoded); err != nil || !cmp.Equal(read, merged) {
			t.Fatalf("encoded %+v, decoded %+v: %v", merged, read, err)
		}
		for _, name := range append(names(a, b), "without an entry") {
			if life := merged.life(name); life != a.life(name) && life != b.life(name) || life.Number < a.life(name).Number || life.Number < b.life(name).Number {
				t.Fatalf("%q has lives %v and %v, merged %v", name, a.life(name), b.life(name), life)
			}
		}
	})
}
