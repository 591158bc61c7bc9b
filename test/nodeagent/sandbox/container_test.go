// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func init() { runtime.LockOSThread() }

// TestMain lets containers of these tests run this program as their init process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InitCommand {
		os.Exit(Init())
	}
	os.Exit(m.Run())
}

// buffer is a bytes.Buffer that is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// spec returns a container that runs a script in the network of this process.
func spec(t *testing.T, script string) (Spec, *buffer) {
	t.Helper()
	output := &buffer{}
	s := Spec{
		Process: Process{Args: []string{"sh", "-c", script}, Env: []string{"PATH=/images:/usr/bin:/bin", "COLOR=blue"}, Dir: "/"},
		Stage:   t.TempDir(),
		Stdout:  output, Stderr: output,
	}
	for kind, file := range map[string]**os.File{"net": &s.Net, "uts": &s.UTS} {
		var err error
		if *file, err = os.Open("/proc/self/ns/" + kind); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*file).Close() })
	}
	return s, output
}

func testRuntime(t *testing.T) *Runtime {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containers require root")
	}
	images := t.TempDir()
	if err := os.WriteFile(filepath.Join(images, "greet"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := NewRuntime("/nowhere", images)
	t.Cleanup(r.Close)
	return r
}

func start(t *testing.T, r *Runtime, s Spec) *Container {
	t.Helper()
	container, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		container.Kill()
		<-container.Done()
	})
	return container
}

// run runs a container to completion.
func run(t *testing.T, s Spec) int {
	t.Helper()
	container := start(t, testRuntime(t), s)
	<-container.Done()
	code, _ := container.Exit()
	return code
}

// awaitOutput waits until the output of a container contains a text.
func awaitOutput(t *testing.T, output *buffer, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(output.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is missing in the output %q", text, output)
		}
	}
}

func TestContainerRunsItsProgram(t *testing.T) {
	s, output := spec(t, "echo $COLOR; echo $(greet); cat /etc/note; exit 3")
	s.Files = map[string]string{"/etc/note": "a note\n"}
	if code := run(t, s); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if got := output.String(); got != "blue\nhello\na note\n" {
		t.Errorf("printed %q", got)
	}
}

func TestContainerDoesNotChangeTheHost(t *testing.T) {
	s, output := spec(t, `
		mkdir -p /made-by-a-test/deep && echo x >/etc/made-by-a-test && echo x >/tmp/made-by-a-test &&
		cat /absent/deep/volume && echo written >/absent/deep/data/file && ! ls /.host 2>/dev/null`)
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	s.Mounts = []Mount{
		{Source: filepath.Join(source, "file"), Target: "/absent/deep/volume", ReadOnly: true},
		{Source: data, Target: "/absent/deep/data"},
	}
	if code := run(t, s); code != 0 || output.String() != "content\n" {
		t.Errorf("exit code %d: %s", code, output)
	}
	for _, path := range []string{"/made-by-a-test", "/etc/made-by-a-test", "/tmp/made-by-a-test", "/absent"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s exists on the host: %v", path, err)
		}
	}
	if written, err := os.ReadFile(filepath.Join(data, "file")); err != nil || string(written) != "written\n" {
		t.Errorf("volume has %q, %v", written, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), s.Stage) {
		t.Errorf("host has mounts of the container: %v", err)
	}
}

func TestUserHasNoCapabilities(t *testing.T) {
	s, output := spec(t, "id -u; id -g; id -G; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; greet >/dev/stdout")
	s.Process.UID, s.Process.GID, s.Process.Groups, s.Process.NoNewPrivileges = 65532, 65533, []uint32{2000}, true
	if code := run(t, s); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := output.String(); got != "65532\n65533\n65533 2000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nhello\n" {
		t.Errorf("printed %q", got)
	}
}

func TestReadOnlyRoot(t *testing.T) {
	s, output := spec(t, "for f in /x /etc/x /tmp/x /run/x; do (echo x >$f) 2>/dev/null && echo $f; done; echo x >/data/x && echo x >/dev/shm/x")
	s.ReadOnlyRoot = true
	s.Mounts = []Mount{{Source: t.TempDir(), Target: "/data"}}
	if code := run(t, s); code != 0 || output.String() != "" {
		t.Errorf("exit code %d, written: %s", code, output)
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	r := testRuntime(t)
	s, _ := spec(t, "")
	s.Process.Args = []string{"no-such-program"}
	if _, err := r.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("got %v", err)
	}
	s, _ = spec(t, "")
	s.Mounts = []Mount{{Source: "/no/such/source", Target: "/data"}}
	if _, err := r.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "/data") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, _ = spec(t, "sleep 1000")
	if _, err := r.Start(ctx, s); err == nil {
		t.Error("a container was started although its context is done")
	}
}

func TestSignals(t *testing.T) {
	r := testRuntime(t)
	s, output := spec(t, "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.01; done")
	container := start(t, r, s)
	awaitOutput(t, output, "up")
	container.Signal(syscall.SIGTERM)
	<-container.Done()
	if code, _ := container.Exit(); code != 7 || !strings.Contains(output.String(), "asked") {
		t.Errorf("exit code %d: %s", code, output)
	}

	// A program without a handler exits too, and is reaped.
	s, _ = spec(t, "exec sleep 1000")
	container = start(t, r, s)
	container.Signal(syscall.SIGTERM)
	<-container.Done()
	if code, _ := container.Exit(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
}

func TestAllProcessesExitWithTheContainer(t *testing.T) {
	r := testRuntime(t)
	s, output := spec(t, "(setsid sleep 1000 &) ; trap '' TERM; echo up; sleep 1000")
	container := start(t, r, s)
	awaitOutput(t, output, "up")
	container.Kill()
	// The output of the container stays open while any process is alive.
	<-container.Done()
	if code, _ := container.Exit(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d", code)
	}
}
