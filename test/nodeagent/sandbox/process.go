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

// ImagesPath is the path at which containers see the image directory.
const ImagesPath = "/images"

// Process is a program to run in a container.
type Process struct {
	// Args are the program and its arguments. A program without a slash is looked up in the PATH of
	// Env.
	Args []string
	// Env is the complete environment.
	Env []string
	// Dir is the working directory.
	Dir string
	// UID, GID and Groups are the credentials of the process.
	UID, GID uint32
	Groups   []uint32
	// NoNewPrivileges disables the set-user-ID bit of programs.
	NoNewPrivileges bool
}

func (p Process) credential() *syscall.Credential {
	return &syscall.Credential{Uid: p.UID, Gid: p.GID, Groups: p.Groups}
}

// giveUpPrivileges drops privileges of the thread that starts the process.
func (p Process) giveUpPrivileges() error {
	if !p.NoNewPrivileges {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// lookUp returns the file of a program in the file system of the container.
func lookUp(program, dir string, env []string) (string, error) {
	if program == "" {
		return "", errors.New("no program given: the container has an empty command")
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
	return "", fmt.Errorf("exec: %q: executable file not found in PATH of the container, %s", program, search)
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

// value returns the value of an environment variable; the last one has precedence.
func value(env []string, name string) string {
	found := ""
	for _, variable := range env {
		if key, value, _ := strings.Cut(variable, "="); key == name {
			found = value
		}
	}
	return found
}

// exitCode returns the exit code that a shell would report.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
