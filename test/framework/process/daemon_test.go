// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func daemon(t *testing.T, script string) Daemon {
	t.Helper()
	dir := t.TempDir()
	d := Daemon{
		Command: Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(dir, "script.log")},
		PIDFile: filepath.Join(dir, "script.pid"),
	}
	t.Cleanup(func() { _ = d.Kill() })
	return d
}

func TestDaemonIsStartedOnce(t *testing.T) {
	d := daemon(t, "exec sleep 600")
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	first, running := d.Running()
	if !running {
		t.Fatal("not running after Start")
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	if second, _ := d.Running(); second != first {
		t.Errorf("started twice, as %d and %d", first, second)
	}
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	if again, running := d.Running(); !running || again == first {
		t.Errorf("not restarted after Kill: %d, %v", again, running)
	}
}

func TestPausedDaemonIsStopped(t *testing.T) {
	d := daemon(t, "trap 'exit 0' TERM; while :; do sleep 0.01; done")
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	if err := d.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, running := d.Running(); running {
		t.Error("still running")
	}
}

// The process ID of a daemon that exited may belong to another process.
func TestOtherProcessWithTheSameIDIsNotSignaled(t *testing.T) {
	d := daemon(t, "true")
	if err := os.WriteFile(d.PIDFile, []byte("1 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, running := d.Running(); running {
		t.Error("process 1 counts as the daemon")
	}
	if err := d.Signal(syscall.SIGCONT); err == nil {
		t.Error("another process was signaled")
	}
}

// endsFirstThread makes this program end its first thread, and go on with others.
const endsFirstThread = "TEST_ENDS_FIRST_THREAD"

func init() {
	if os.Getenv(endsFirstThread) != "" {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// A process that is being killed may hold its sockets although its first thread has ended.
func TestDaemonRunsUntilItsLastThreadHasEnded(t *testing.T) {
	d := daemon(t, "")
	d.Path, d.Args, d.Env = "/proc/self/exe", nil, []string{endsFirstThread + "=1"}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	pid, _ := d.Running()
	for state, deadline := "", time.Now().Add(time.Minute); state != "Z"; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the first thread has not ended: %s, error %v", stat, err)
		}
		state = strings.Fields(string(stat))[2]
	}
	if _, running := d.Running(); !running {
		t.Error("not running although other threads are")
	}
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, running := d.Running(); running {
		t.Error("running after Kill")
	}
}
