// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// R320: what was recorded can be read again.
func TestHistoryIsReadAsItWasRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	recorder, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	recorded := []Entry{
		{Run: &Run{Seed: 7, Clusters: []string{"east", "west"}, TTL: time.Minute}},
		{Invoke: &Change{ID: 1, Cluster: "east", Operation: Export, Service: Service{Namespace: "shop", Name: "web"}}},
		{Complete: &Completion{ID: 1, Outcome: OK, Created: time.Unix(1000, 0).UTC()}},
		{Watch: &Watch{Cluster: "west", Resource: Imports, Client: "1", Type: Added, ResourceVersion: "12", Object: &Object{
			Namespace: "shop", Name: "web", UID: "u", Import: &Import{Spec: Spec{Ports: []Port{{Name: "http", Protocol: "TCP", Port: 80}}}, IPs: []string{"10.0.0.1"}, Clusters: []string{"east"}},
		}}},
		{Final: &Final{Cluster: "east", Services: []FinalService{{Service: Service{Namespace: "shop", Name: "web"}, Spec: &Spec{}}}, Namespaces: []string{"shop"}}},
	}
	for _, entry := range recorded {
		recorder.Record(entry)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range read {
		if read[i].Line != i+1 || read[i].At.IsZero() {
			t.Errorf("line %d is %+v", i+1, read[i])
		}
		recorded[i].Line, recorded[i].At = read[i].Line, read[i].At
	}
	if !reflect.DeepEqual(read, recorded) {
		t.Errorf("read %v, recorded %v", read, recorded)
	}
}

// R320: times do not go back if several goroutines record.
func TestTimesDoNotDecreaseFromLineToLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	recorder, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 100 {
				recorder.Record(Entry{Lookup: &Lookup{Cluster: "east"}})
			}
		})
	}
	running.Wait()
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if i > 0 && entries[i].At.Before(entries[i-1].At) {
			t.Errorf("line %d is earlier than the line before", i+1)
		}
	}
	if len(entries) != 800 || recorder.Lines() != 800 {
		t.Errorf("%d entries, %d lines", len(entries), recorder.Lines())
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "broken.jsonl: line 2") {
		t.Error(err)
	}
}
