// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	// maxMemory is how much memory a member may cost each program, in bytes: five times
	// its memory limit, because of copies and garbage.
	maxMemory = 5 * 64 << 20
	// maxLog is how much the log of a program may grow during an attack, in bytes.
	maxLog = 1 << 20
)

// usage is what the programs of the importer use.
type usage struct {
	mu       sync.Mutex
	programs []*program
}

// program is mcs-apiserver or mcs-controller.
type program struct {
	name string
	pid  int
	log  string
	// base and peak are resident memory, and logged is the size of the log.
	base, peak, logged int
}

// watchUsage samples the memory of the programs of the importer until the test ends.
func watchUsage(t *testing.T) *usage {
	t.Helper()
	u := &usage{programs: []*program{
		{name: "mcs-apiserver", pid: importer().APIServers[0].PID(), log: filepath.Join(importer().Dir, "mcs-apiserver.log")},
		{name: "mcs-controller", pid: importer().Controller.PID(), log: filepath.Join(importer().Dir, "mcs-controller.log")},
	}}
	u.reset(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				u.sample()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return u
}

func (u *usage) sample() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, program := range u.programs {
		if resident, err := program.resident(); err == nil {
			program.peak = max(program.peak, resident)
		}
	}
}

// resident returns the resident memory in bytes.
func (p *program) resident() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(status))[1])
	return pages * os.Getpagesize(), err
}

// reset begins to measure anew.
func (u *usage) reset(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, program := range u.programs {
		program.base = expect.Must(program.resident())(t)
		program.peak = program.base
		program.logged = int(expect.Must(os.Stat(program.log))(t).Size())
	}
}

// check returns an error if a program took too much memory since reset: how much garbage
// there is depends on when the collector runs. It fails if one logged too much.
func (u *usage) check(t *testing.T) (err error) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, program := range u.programs {
		logged := int(expect.Must(os.Stat(program.log))(t).Size()) - program.logged
		t.Logf("%s: %d MiB, %d MiB before; logged %d KiB", program.name, program.peak>>20, program.base>>20, logged>>10)
		if program.peak-program.base > maxMemory {
			err = errors.Join(err, fmt.Errorf("%s took %d MiB more, at most %d are allowed", program.name, (program.peak-program.base)>>20, maxMemory>>20))
		}
		if logged > maxLog {
			t.Errorf("%s logged %d KiB, at most %d are allowed", program.name, logged>>10, maxLog>>10)
		}
	}
	return err
}
