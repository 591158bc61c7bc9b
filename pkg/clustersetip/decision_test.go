// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(seconds int64) time.Time { return time.Unix(1000+seconds, 0) }

func by(cluster string, since int64, ips ...string) *Decision {
	return &Decision{IPs: ips, DecidedBy: cluster, Since: metav1.NewTime(at(since))}
}

func TestOldestDecisionIsInForce(t *testing.T) {
	for name, test := range map[string]struct {
		exports []Export
		want    *Decision
	}{
		"nobody exports":                       {nil, nil},
		"first wants, and has not decided":     {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, nil},
		"first does not want":                  {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"of two first the id decides":          {[]Export{{Cluster: "b", At: at(1), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"parts of a second do not count after": {[]Export{{Cluster: "a", At: at(1).Add(time.Millisecond)}}, by("a", 1)},
		"a decision precedes an older export": {
			[]Export{{Cluster: "a", At: at(1)}, {Cluster: "b", At: at(2), Decision: by("b", 2, "243.1.0.1")}}, by("b", 2, "243.1.0.1")},
		"a decision outlives who made it": {
			[]Export{{Cluster: "b", At: at(2), Decision: by("gone", 1, "243.1.0.1")}}, by("gone", 1, "243.1.0.1")},
		"the older of two": {
			[]Export{{Cluster: "a", Decision: by("a", 2, "243.1.0.1")}, {Cluster: "b", Decision: by("b", 1, "243.2.0.1")}}, by("b", 1, "243.2.0.1")},
		"the lower id of two made at a time": {
			[]Export{{Cluster: "b", Decision: by("b", 1)}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
		"the lower IPs of two that one cluster made at a time": {
			[]Export{{Cluster: "b", Decision: by("a", 1, "243.1.0.2")}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := InForce(test.exports); !Equal(got, test.want) {
					t.Errorf("%v is in force, not %v", got, test.want)
				}
				slices.Reverse(test.exports)
			}
		})
	}
}

func TestInForceIsACopy(t *testing.T) {
	exports := []Export{{Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}
	InForce(exports).IPs[0] = "changed"
	if exports[0].Decision.IPs[0] != "243.1.0.1" {
		t.Error("a change of what is in force changes the export")
	}
}

func TestClustersDisagreeWithWhatTheyDoNotWant(t *testing.T) {
	exports := []Export{{Cluster: "c", Wants: true}, {Cluster: "b"}, {Cluster: "a", Wants: true}}
	for name, test := range map[string]struct {
		inForce *Decision
		want    []string
	}{
		"an IP":       {by("c", 1, "243.1.0.1"), []string{"b"}},
		"none":        {by("b", 1), []string{"a", "c"}},
		"nothing yet": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Disagree(exports, test.inForce); !slices.Equal(got, test.want) {
				t.Errorf("%v disagree, not %v", got, test.want)
			}
		})
	}
}

func TestFirstExportDecidesAndOthersAdopt(t *testing.T) {
	ip := by("a", 1, "243.1.0.1")
	for name, test := range map[string]struct {
		exports   []Export // self is b
		settled   Action
		unsettled Action
	}{
		"alone, and wants":            {[]Export{{Cluster: "b", Wants: true}}, Action{Allocate: true}, Action{}},
		"alone, and does not want":    {[]Export{{Cluster: "b", At: at(1)}}, Action{Record: by("b", 1)}, Action{}},
		"second to one that wants":    {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, Action{WaitFor: "a"}, Action{}},
		"second to one that does not": {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, Action{Record: by("a", 1)}, Action{}},
		"adopts": {
			[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true, Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"adopts from the third": {
			[]Export{{Cluster: "b", At: at(0)}, {Cluster: "c", At: at(3), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"keeps what it has, whatever it wants": {
			[]Export{{Cluster: "b", At: at(2), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"goes back to an older one": {
			[]Export{{Cluster: "b", Decision: by("b", 2, "243.2.0.1")}, {Cluster: "a", Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"does not go over to a younger one": {
			[]Export{{Cluster: "b", Decision: ip}, {Cluster: "c", Decision: by("c", 2)}}, Action{Record: ip}, Action{Record: ip}},
		"does not export": {[]Export{{Cluster: "a", Decision: ip}}, Action{}, Action{}},
	} {
		t.Run(name, func(t *testing.T) {
			for settled, want := range map[bool]Action{true: test.settled, false: test.unsettled} {
				got := Decide("b", test.exports, settled)
				if !Equal(got.Record, want.Record) || got.Allocate != want.Allocate || got.WaitFor != want.WaitFor {
					t.Errorf("settled %v: got %+v, want %+v", settled, got, want)
				}
			}
		})
	}
}

func TestWishesDoNotChangeADecision(t *testing.T) {
	for wishes := range 8 {
		exports := []Export{
			{Cluster: "a", At: at(1), Wants: wishes&1 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "b", At: at(2), Wants: wishes&2 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "c", At: at(3), Wants: wishes&4 > 0},
		}
		for _, export := range exports {
			if got := Decide(export.Cluster, exports, true); !reflect.DeepEqual(got, Action{Record: by("a", 1, "243.1.0.1")}) {
				t.Errorf("wishes %03b: %s should %+v", wishes, export.Cluster, got)
			}
		}
	}
}

func TestRecordedDecisionIsWhatOthersRead(t *testing.T) {
	made := NewDecision("a", []string{"243.1.0.1"}, at(1).Add(999*time.Millisecond))
	text, err := made.Since.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := made.DeepCopy()
	if err := read.Since.UnmarshalJSON(text); err != nil || !read.Since.Equal(&made.Since) || !Equal(read, made) {
		t.Errorf("%v was made and %v read (%v)", made, read, err)
	}
	if Equal(made, nil) || !Equal(nil, nil) || Equal(made, by("a", 1)) {
		t.Error("different decisions are equal, or equal ones different")
	}
}

func TestAddressBelongsToTheOlderDecision(t *testing.T) {
	for name, test := range map[string]struct {
		services map[string][]Export
		void     []string // services
	}{
		"no service": {},
		"one service, many exports": {map[string][]Export{
			"s": {{Cluster: "a", Decision: by("a", 1, "243.1.0.1")}, {Cluster: "b", Decision: by("a", 1, "243.1.0.1")}},
		}, nil},
		"the older keeps it": {map[string][]Export{
			"old": {{Decision: by("z", 1, "243.1.0.1")}}, "new": {{Decision: by("a", 2, "243.1.0.1")}},
		}, []string{"new"}},
		"in any notation": {map[string][]Export{
			"old": {{Decision: by("z", 1, "fd00::1")}}, "new": {{Decision: by("a", 2, "fd00:0::1")}},
		}, []string{"new"}},
		"of two made at a time the name decides": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1")}}, "s2": {{Decision: by("a", 1, "243.1.0.1")}},
		}, []string{"s2"}},
		"a void decision voids no other": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1", "fd00::1")}},
			"s2": {{Decision: by("a", 2, "243.1.0.1", "fd00::2")}},
			"s3": {{Decision: by("a", 3, "243.1.0.3", "fd00::2")}},
		}, []string{"s2"}},
		"what is no address counts for nothing": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "?")}}, "s2": {{Decision: by("a", 2, "?")}}, "s3": {{}},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claims := NewClaims(test.services)
			for key, exports := range test.services {
				for i, standing := range claims.Standing(key, exports) {
					isVoid := standing.Decision == nil && exports[i].Decision != nil
					if isVoid != slices.Contains(test.void, key) {
						t.Errorf("void: %v for %s", isVoid, key)
					}
				}
			}
		})
	}
}
