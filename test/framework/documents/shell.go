// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// Shell runs scripts as a user does, but stops at the first command that fails.
type Shell struct {
	// Dir is the working directory.
	Dir string
	// Env is the environment.
	Env []string
	// Answer is what the user enters whenever a command asks.
	Answer string
	// Prelude is run before every script.
	Prelude string
	// KeepGoing runs all commands, and succeeds if any of them fails.
	KeepGoing bool
}

// Run runs a script, which must succeed, and returns its output. Processes that it leaves in the
// background are ended.
func (s Shell) Run(t *testing.T, script string) string {
	t.Helper()
	directory := t.TempDir()
	output := expect.Must(os.Create(filepath.Join(directory, "output")))(t)
	defer output.Close()
	trace := expect.Must(os.Create(filepath.Join(directory, "trace")))(t)
	defer trace.Close()
	options := []string{"-euxo", "pipefail", "-c", s.Prelude + script}
	if s.KeepGoing {
		options[0] = "-uxo"
	}
	cmd := exec.CommandContext(t.Context(), "bash", options...)
	cmd.Dir = s.Dir
	// A trace shows which command failed. It is not part of the output.
	cmd.ExtraFiles, cmd.Env = []*os.File{trace}, append(s.Env, "BASH_XTRACEFD=3")
	if s.Answer != "" {
		answers := s.answer(t)
		defer answers.Close()
		cmd.Stdin = answers
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	text := read(t, output)
	if err != nil && !s.KeepGoing {
		t.Fatalf("%v\n%s\n%s", err, read(t, trace), text)
	}
	return text
}

// answer returns a file from which every command reads the answer, however much others read.
func (s Shell) answer(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	expect.NoError(t, err)
	go func() {
		defer writer.Close()
		for {
			if _, err := io.WriteString(writer, s.Answer+"\n"); err != nil {
				return // nobody reads any more
			}
		}
	}()
	return reader
}

// read returns what was written to a file.
func read(t *testing.T, file *os.File) string {
	t.Helper()
	expect.Must(file.Seek(0, io.SeekStart))(t)
	return string(expect.Must(io.ReadAll(file))(t))
}
