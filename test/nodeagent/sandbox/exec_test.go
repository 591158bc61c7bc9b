// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func sleeper(t *testing.T) *Container {
	t.Helper()
	r := testRuntime(t)
	s, output := spec(t, "echo private >/tmp/file; cd /; echo up; exec sleep 1000")
	s.Process.UID, s.Process.GID = 65532, 65532
	s.Process.Dir = "/tmp"
	container := start(t, r, s)
	awaitOutput(t, output, "up")
	return container
}

func TestExecSeesTheContainer(t *testing.T) {
	container := sleeper(t)
	var stdout, stderr buffer
	code, err := container.Exec(t.Context(), []string{"sh", "-c", "cat file; pwd; id -u; echo $COLOR; ls -d /proc/[0-9]* | wc -l; cat; echo problem >&2; exit 5"},
		Streams{Stdin: strings.NewReader("input\n"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 5 {
		t.Errorf("code %d, %v", code, err)
	}
	// The processes: container-init, sleep, sh, and ls.
	if got := stdout.String(); got != "private\n/tmp\n65532\nblue\n5\ninput\n" && got != "private\n/tmp\n65532\nblue\n4\ninput\n" {
		t.Errorf("stdout %q", got)
	}
	if got := stderr.String(); got != "problem\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestExecReturnsBeforeItsInputEnds(t *testing.T) {
	container := sleeper(t)
	reader, writer := io.Pipe()
	defer writer.Close()
	if code, err := container.Exec(t.Context(), []string{"true"}, Streams{Stdin: reader}); code != 0 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestExecWithTerminal(t *testing.T) {
	container := sleeper(t)
	var stdout buffer
	sizes := make(chan Size, 1)
	sizes <- Size{Columns: 90, Rows: 30}
	close(sizes)
	script := "test -t 0 && test -t 1 && test -t 2 && tty && read line && echo got $line && until stty size | grep '30 90'; do :; done; exit 4"
	code, err := container.Exec(t.Context(), []string{"sh", "-c", script}, Streams{Terminal: true, Stdin: strings.NewReader("typed\n"), Stdout: &stdout, Sizes: sizes})
	if err != nil || code != 4 {
		t.Errorf("code %d, %v", code, err)
	}
	for _, want := range []string{"/dev/pts/", "got typed", "30 90"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in %q", want, stdout.String())
		}
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	container := sleeper(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := container.Exec(ctx, []string{"sh", "-c", "sleep 1000; true"}, Streams{Stdout: io.Discard}); err == nil {
		t.Error("a command outlived its context")
	}
}

func TestExecThatCannotStart(t *testing.T) {
	container := sleeper(t)
	if _, err := container.Exec(t.Context(), []string{"no-such-program"}, Streams{}); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("got %v", err)
	}
	container.Kill()
	<-container.Done()
	if _, err := container.Exec(t.Context(), []string{"true"}, Streams{}); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("got %v", err)
	}
}
