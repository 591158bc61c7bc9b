// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/simulate"
)

// planted is a bug, as it shows in a history. The function changes a correct history, or returns
// false if the history has no place for the bug.
type planted struct {
	name, kind string
	plant      func(*testbed) bool
}

var bugs = []planted{
	{"dropped event", MissedEvent, dropModified},
	{"dropped addition", MissedEvent, dropAdded},
	{"early withdrawal of an endpoint", Vanished, withdrawEndpoint},
	{"list without an import", Vanished, omitFromList},
	{"name without an answer", Vanished, answerNotFound},
	{"refused connection", Vanished, refuseConnection},
	{"stale endpoint", Stale, keepEndpoint},
	{"stale import", Stale, keepImport},
	{"connection to a former endpoint", Stale, connectToFormer},
	{"reused UID", UIDReused, reuseUID},
	{"one UID for two imports", UIDReused, oneUIDForTwo},
	{"changed UID", UIDChanged, changeUID},
	{"version that goes back", VersionWentBack, versionBack},
	{"event after its bookmark", VersionWentBack, bookmarkAhead},
	{"lost export", Lost, loseExport},
	{"export that is never imported", Lost, neverImport},
	{"two services on one IP", IPShared, oneIPForTwo},
	{"wrong winner", Ended, wrongWinner},
	{"cluster missing in the end", Ended, missingCluster},
	{"wrong port in the end", Ended, wrongPort},
	{"wrong address in DNS", WrongAnswer, wrongAnswer},
}

// enough is in how many histories a bug is planted.
const enough = 2

// generated are the histories that tests have used.
var generated = map[uint64][]history.Entry{}

// calm returns a history without faults.
func calm(seed uint64) *testbed {
	if generated[seed] == nil {
		generated[seed] = simulate.History(simulate.Options{Seed: seed, Duration: 100 * time.Second})
	}
	return newTestbed(generated[seed])
}

// R323: each of these bugs is reported as what it is, and as nothing else.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			places := 0
			for seed := uint64(0); seed < 40 && places < enough; seed++ {
				bed := calm(seed)
				if !bug.plant(bed) {
					continue
				}
				places++
				entries := bed.history()
				found := violationsOf(t, entries)
				if len(found) == 0 {
					t.Errorf("seed %d: nothing is found", seed)
				}
				for _, violation := range found {
					if violation.Kind != bug.kind {
						t.Errorf("seed %d: %s", seed, Describe(violation, entries))
					}
					if len(violation.Lines) == 0 || violation.Cluster == "" || violation.At.IsZero() || violation.Subject == "" {
						t.Errorf("seed %d: violation does not say what, where and when: %+v", seed, violation)
					}
				}
			}
			if places < enough {
				t.Errorf("only %d histories have a place for the bug", places)
			}
		})
	}
}

// R325, R358, R359: a withdrawal is justified by a cut that lasts for the TTL, by no shorter
// one, and not by an API that is silent, for however long. After a cut that lasts for longer,
// endpoints must have been withdrawn.
func TestOnlySilentEndpointsAreWithdrawn(t *testing.T) {
	cut := func(e endpoint) history.Fault {
		return history.Fault{Kind: "cut", Clusters: []string{e.source, e.cluster}, Cut: true}
	}
	down := func(e endpoint) history.Fault { return history.Fault{Kind: "kill", Clusters: []string{e.source}} }
	expired := func(e endpoint) history.Fault {
		return history.Fault{Kind: "expired-token", Clusters: []string{e.source, e.cluster}}
	}
	for _, test := range []struct {
		name     string
		fault    func(endpoint) history.Fault
		duration time.Duration
		// hidden is from when on the endpoint is not seen; zero if it is all the time.
		hidden time.Duration
		kinds  []string
	}{
		{"withdrawn at once", cut, 70 * time.Second, 10 * time.Second, []string{Vanished}},
		{"withdrawn before the TTL", cut, 70 * time.Second, 40 * time.Second, []string{Vanished}},
		{"withdrawn after the TTL", cut, 70 * time.Second, 62 * time.Second, nil},
		{"withdrawn while the API is down", down, 90 * time.Second, 75 * time.Second, []string{Vanished}},
		{"withdrawn because of a credential", expired, 90 * time.Second, 75 * time.Second, []string{Vanished}},
		{"kept while the API is down", down, 90 * time.Second, 0, nil},
		{"kept, and cut off for about the TTL", cut, 78 * time.Second, 0, nil},
		{"kept, and cut off for longer than that", cut, 90 * time.Second, 0, []string{Stale}},
	} {
		places := 0
		for seed := uint64(0); seed < 40 && places < enough; seed++ {
			bed := calm(seed)
			endpoint, from, ok := bed.lasting(test.duration + 10*time.Second)
			if !ok || test.hidden > 0 && !bed.hide(endpoint, from.Add(test.hidden), from.Add(test.duration+2*time.Second)) {
				continue
			}
			places++
			fault := test.fault(endpoint)
			fault.ID = -1
			bed.insert(from, history.Entry{Fault: &fault})
			end := fault
			end.End = true
			bed.insert(from.Add(test.duration), history.Entry{Fault: &end})
			var kinds []string
			for _, violation := range violationsOf(t, bed.history()) {
				kinds = append(kinds, violation.Kind)
			}
			if slices.Sort(kinds); !slices.Equal(slices.Compact(kinds), test.kinds) {
				t.Errorf("seed %d, %s: %v, want %v", seed, test.name, kinds, test.kinds)
			}
		}
		if places < enough {
			t.Errorf("only %d histories have a place for the fault %q", places, test.name)
		}
	}
}

// R324: the description of a violation quotes the history.
func TestViolationsQuoteTheHistory(t *testing.T) {
	bed := calm(2)
	if !versionBack(bed) {
		t.Fatal("no place for the bug")
	}
	entries := bed.history()
	found := violationsOf(t, entries)
	if len(found) != 1 {
		t.Fatalf("%d violations", len(found))
	}
	text := Describe(found[0], entries)
	for _, line := range found[0].Lines {
		if !strings.Contains(text, fmt.Sprintf("line %d: {", line)) {
			t.Errorf("%s\ndoes not quote line %d", text, line)
		}
	}
	if compareVersions("99", "100") >= 0 || compareVersions("100", "100") != 0 || compareVersions(strconv.Itoa(101), "100") <= 0 {
		t.Error("versions are not compared as numbers")
	}
}
