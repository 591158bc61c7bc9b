// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ImagesPath is where containers see the directory with the programs of images.
const ImagesPath = "/images"

// Process is a program to run in a container.
type Process struct {
	// Args is the program and its arguments. A program without a slash is
	// looked for in the PATH of Env.
	Args []string
	// Env is all of its environment.
	Env []string
	// Dir is where it starts.
	Dir string
	// UID, GID and Groups are whom it runs as.
	UID, GID uint32
	Groups   []uint32
	// NoNewPrivileges keeps programs with the set-user-ID bit from having an effect.
	NoNewPrivileges bool
}

func (p Process) credential() *syscall.Credential {
	return &syscall.Credential{Uid: p.UID, Gid: p.GID, Groups: p.Groups}
}

// giveUpPrivileges is for the thread that starts the process.
func (p Process) giveUpPrivileges() error {
	if !p.NoNewPrivileges {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return nil
}

// lookUp finds the file of a program, for a process that sees the file system
// of the container.
func lookUp(program, dir string, env []string) (string, error) {
	if program == "" {
		return "", errors.New("there is no program to run: the container has an empty command")
	}
	if strings.Contains(program, "/") {
		if !path.IsAbs(program) {
			program = path.Join(dir, program)
		}
		return program, executable(program)
	}
	search := value(env, "PATH")
	for _, directory := range filepath.SplitList(search) {
		file := path.Join(dir, program)
		if path.IsAbs(directory) {
			file = path.Join(directory, program)
		}
		if executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in the PATH of the container, %s", program, search)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("exec: %s: %w", file, unix.EACCES)
	}
	return nil
}

// value is the value of an environment variable; the last one counts.
func value(env []string, name string) string {
	found := ""
	for _, variable := range env {
		if key, value, _ := strings.Cut(variable, "="); key == name {
			found = value
		}
	}
	return found
}

// exitCode is the exit code that a shell would report.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
