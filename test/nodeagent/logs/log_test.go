// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func newLog(t *testing.T, lines ...string) *Log {
	t.Helper()
	log, err := Create(filepath.Join(t.TempDir(), "dir", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	stream := log.Stream("stdout")
	for _, line := range lines {
		if _, err := io.WriteString(stream, line); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	return log
}

func read(t *testing.T, log *Log, options Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := log.Read(t.Context(), &out, options); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine+5)
	for name, text := range map[string]string{
		"empty":          "",
		"lines":          "one\ntwo\n",
		"no end":         "one\ntwo",
		"empty lines":    "\n\n",
		"long":           long + "\n" + long,
		"exactly a part": long[:maxLine] + "\n",
		"spaces":         "  a b  c \n",
	} {
		log := newLog(t, text)
		if got := read(t, log, Options{}); got != text {
			t.Errorf("%s: got %q", name, got)
		}
	}
	log := newLog(t, "o", "ne\nt", "w", "o\n")
	if got := read(t, log, Options{}); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func TestOptions(t *testing.T) {
	var lines []string
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("line %d\n", i))
	}
	log := newLog(t, lines...)
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"tail 0":      {Options{Tail: ptr.To[int64](0)}, ""},
		"tail 2":      {Options{Tail: ptr.To[int64](2)}, "line 8\nline 9\n"},
		"tail 10":     {Options{Tail: ptr.To[int64](10)}, strings.Join(lines, "")},
		"tail 100":    {Options{Tail: ptr.To[int64](100)}, strings.Join(lines, "")},
		"limit":       {Options{Limit: ptr.To[int64](9)}, "line 0\nli"},
		"limit 0":     {Options{Limit: ptr.To[int64](0)}, ""},
		"future":      {Options{Since: time.Now().Add(time.Hour)}, ""},
		"past":        {Options{Since: time.Now().Add(-time.Hour), Tail: ptr.To[int64](1)}, "line 9\n"},
		"large limit": {Options{Limit: ptr.To[int64](1000), Tail: ptr.To[int64](1)}, "line 9\n"},
	} {
		if got := read(t, log, test.options); got != test.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	stamped := read(t, log, Options{Timestamps: true, Tail: ptr.To[int64](1)})
	stamp, text, _ := strings.Cut(stamped, " ")
	if when, err := time.Parse(time.RFC3339Nano, stamp); err != nil || time.Since(when) > time.Minute || text != "line 9\n" {
		t.Errorf("got %q, %v", stamped, err)
	}
}

func TestFollowEndsWithTheLog(t *testing.T) {
	log := newLog(t, "before\n")
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- log.Read(t.Context(), writer, Options{Follow: true})
		writer.Close()
	}()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	expect("before\n")
	stream := log.Stream("stderr")
	for range 3 {
		if _, err := io.WriteString(stream, "after\n"); err != nil {
			t.Fatal(err)
		}
		expect("after\n")
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	log := newLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Read(ctx, io.Discard, Options{Follow: true}); err == nil {
		t.Error("a reader outlived its context")
	}
}
