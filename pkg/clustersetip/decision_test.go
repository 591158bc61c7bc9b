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
		"no exports":                          {nil, nil},
		"founding export is undecided":        {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, nil},
		"founding export requests no address": {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"tie broken by cluster ID":            {[]Export{{Cluster: "b", At: at(1), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"fractions of a second are ignored":   {[]Export{{Cluster: "a", At: at(1).Add(time.Millisecond)}}, by("a", 1)},
		"a decision precedes an older export": {
			[]Export{{Cluster: "a", At: at(1)}, {Cluster: "b", At: at(2), Decision: by("b", 2, "243.1.0.1")}}, by("b", 2, "243.1.0.1")},
		"a decision outlives the deciding cluster": {
			[]Export{{Cluster: "b", At: at(2), Decision: by("gone", 1, "243.1.0.1")}}, by("gone", 1, "243.1.0.1")},
		"the older of two": {
			[]Export{{Cluster: "a", Decision: by("a", 2, "243.1.0.1")}, {Cluster: "b", Decision: by("b", 1, "243.2.0.1")}}, by("b", 1, "243.2.0.1")},
		"the lower ID of two made at the same time": {
			[]Export{{Cluster: "b", Decision: by("b", 1)}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
		"the lower addresses of two that one cluster made at the same time": {
			[]Export{{Cluster: "b", Decision: by("a", 1, "243.1.0.2")}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := InForce(test.exports); !Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
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
		t.Error("changing the result changed the export")
	}
}

func TestDisagree(t *testing.T) {
	exports := []Export{{Cluster: "c", Wants: true}, {Cluster: "b"}, {Cluster: "a", Wants: true}}
	for name, test := range map[string]struct {
		inForce *Decision
		want    []string
	}{
		"an address": {by("c", 1, "243.1.0.1"), []string{"b"}},
		"no address": {by("b", 1), []string{"a", "c"}},
		"undecided":  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Disagree(exports, test.inForce); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestFoundingExportDecidesAndOthersAdopt(t *testing.T) {
	ip := by("a", 1, "243.1.0.1")
	for name, test := range map[string]struct {
		exports   []Export // self is b
		settled   Action
		unsettled Action
	}{
		"alone, requests an address": {[]Export{{Cluster: "b", Wants: true}}, Action{Allocate: true}, Action{}},
		"alone, requests none":       {[]Export{{Cluster: "b", At: at(1)}}, Action{Record: by("b", 1)}, Action{}},
		"founding requests one":      {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, Action{WaitFor: "a"}, Action{}},
		"founding requests none":     {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, Action{Record: by("a", 1)}, Action{}},
		"adopts": {
			[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true, Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"adopts from the third cluster": {
			[]Export{{Cluster: "b", At: at(0)}, {Cluster: "c", At: at(3), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"keeps its decision, whatever it requests": {
			[]Export{{Cluster: "b", At: at(2), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"changes to an older decision": {
			[]Export{{Cluster: "b", Decision: by("b", 2, "243.2.0.1")}, {Cluster: "a", Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"does not change to a younger decision": {
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

func TestRequestsDoNotChangeADecision(t *testing.T) {
	for requests := range 8 {
		exports := []Export{
			{Cluster: "a", At: at(1), Wants: requests&1 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "b", At: at(2), Wants: requests&2 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "c", At: at(3), Wants: requests&4 > 0},
		}
		for _, export := range exports {
			if got := Decide(export.Cluster, exports, true); !reflect.DeepEqual(got, Action{Record: by("a", 1, "243.1.0.1")}) {
				t.Errorf("requests %03b: got action %+v of %s, want the decision", requests, got, export.Cluster)
			}
		}
	}
}

func TestDecisionSurvivesSerialization(t *testing.T) {
	made := NewDecision("a", []string{"243.1.0.1"}, at(1).Add(999*time.Millisecond))
	text, err := made.Since.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := made.DeepCopy()
	if err := read.Since.UnmarshalJSON(text); err != nil || !read.Since.Equal(&made.Since) || !Equal(read, made) {
		t.Errorf("got %v (%v), want %v", read, err, made)
	}
	if Equal(made, nil) || !Equal(nil, nil) || Equal(made, by("a", 1)) {
		t.Error("Equal is wrong")
	}
}

func TestAddressBelongsToTheOlderDecision(t *testing.T) {
	for name, test := range map[string]struct {
		services map[string][]Export
		void     []string // services
	}{
		"no services": {},
		"one service, many exports": {map[string][]Export{
			"s": {{Cluster: "a", Decision: by("a", 1, "243.1.0.1")}, {Cluster: "b", Decision: by("a", 1, "243.1.0.1")}},
		}, nil},
		"the older decision keeps it": {map[string][]Export{
			"old": {{Decision: by("z", 1, "243.1.0.1")}}, "new": {{Decision: by("a", 2, "243.1.0.1")}},
		}, []string{"new"}},
		"in any notation": {map[string][]Export{
			"old": {{Decision: by("z", 1, "fd00::1")}}, "new": {{Decision: by("a", 2, "fd00:0::1")}},
		}, []string{"new"}},
		"tie broken by service name": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1")}}, "s2": {{Decision: by("a", 1, "243.1.0.1")}},
		}, []string{"s2"}},
		"a void decision does not void others": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1", "fd00::1")}},
			"s2": {{Decision: by("a", 2, "243.1.0.1", "fd00::2")}},
			"s3": {{Decision: by("a", 3, "243.1.0.3", "fd00::2")}},
		}, []string{"s2"}},
		"invalid addresses are ignored": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "?")}}, "s2": {{Decision: by("a", 2, "?")}}, "s3": {{}},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claims := NewClaims(test.services)
			for key, exports := range test.services {
				for i, standing := range claims.Standing(key, exports) {
					isVoid := standing.Decision == nil && exports[i].Decision != nil
					if isVoid != slices.Contains(test.void, key) {
						t.Errorf("%s: got void %t", key, isVoid)
					}
				}
			}
		})
	}
}
