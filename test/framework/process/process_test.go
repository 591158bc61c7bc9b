// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, script string) *Process {
	t.Helper()
	process, err := Start(Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "script.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	return process
}

func TestFailureShowsTheEndOfTheLog(t *testing.T) {
	process := start(t, "echo the disk is full >&2; exit 3")
	err := process.Await(t.Context(), time.Minute, func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "script exited") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
}

func TestReadyProcessIsStopped(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	process := start(t, "trap 'exit 0' TERM; touch "+marker+"; while :; do sleep 0.01; done")
	if err := process.Await(t.Context(), time.Minute, func(context.Context) error { _, err := os.Stat(marker); return err }); err != nil {
		t.Fatal(err)
	}
	if err := process.Stop(time.Minute); err != nil || process.Err() != nil {
		t.Errorf("stop: %v, exit: %v", err, process.Err())
	}
}

func TestProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	process := start(t, "trap '' TERM; touch "+marker+"; while :; do sleep 0.01; done")
	if err := process.Await(t.Context(), time.Minute, func(context.Context) error { _, err := os.Stat(marker); return err }); err != nil {
		t.Fatal(err)
	}
	if err := process.Stop(50 * time.Millisecond); err == nil {
		t.Error("a process that ignores SIGTERM was reported as stopped")
	}
	<-process.Exited()
}
