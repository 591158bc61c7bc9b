// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wallclock lets the wall clock of a single process jump. Its monotonic clock, and the
// clocks of all other processes, go on.
//
// Programs read the clock through code that the kernel maps into every process, the vDSO. The
// mapping is private, so that what a debugger writes to it concerns one process only. The code
// is replaced by a system call after which a number of seconds is added.
package wallclock

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// symbol is the function with which Go programs read the clock.
const symbol = "__vdso_clock_gettime"

// replacement is the code of that function for amd64, up to the number of seconds:
//
//	mov  $228, %eax          clock_gettime(%edi, %rsi)
//	syscall
//	test %edi, %edi          CLOCK_REALTIME is 0
//	jne  1f
//	addq $seconds, (%rsi)
//	1: ret
var replacement = []byte{0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 0x07, 0x48, 0x81, 0x06}

const ret = 0xc3

// code returns the code that adds a number of seconds.
func code(seconds int32) []byte {
	return append(binary.LittleEndian.AppendUint32(bytes.Clone(replacement), uint32(seconds)), ret) //nolint:gosec // its bits
}

// attempts is how often it is tried to stop a process while it does not begin to read the clock.
const attempts = 100

// Jump sets how much the wall clock of a process is ahead, in whole seconds, negative if it is
// behind. Zero means that it is right again. The process is stopped for some milliseconds.
func Jump(pid int, ahead time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the clock of a process can jump on amd64 only")
	}
	if ahead.Abs() > math.MaxInt32*time.Second {
		return fmt.Errorf("the clock of a process cannot jump by %s: the limit is 68 years", ahead)
	}
	seconds := int32(ahead / time.Second) //nolint:gosec // checked
	for range attempts {
		if done, err := write(pid, seconds); done || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d reads the clock all the time: the code that does it cannot be replaced", pid)
}

// mapping is where the vDSO of a process is, and where in it the clock is read.
type mapping struct{ from, to, function int64 }

// find finds the vDSO of a process.
func find(pid int) (mapping, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return mapping{}, err
	}
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		var m mapping
		if !strings.HasSuffix(lines.Text(), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &m.from, &m.to); err != nil {
			return mapping{}, fmt.Errorf("parse %q: %w", lines.Text(), err)
		}
		return m, m.locate(pid)
	}
	return mapping{}, fmt.Errorf("process %d has no vDSO", pid)
}

// locate finds the function.
func (m *mapping) locate(pid int) error {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, m.to-m.from)
	if _, err := memory.ReadAt(image, m.from); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, found := range symbols {
		if found.Name == symbol && found.Size >= uint64(len(code(0))) {
			m.function = m.from + int64(found.Value) //nolint:gosec // an address of a process
			return nil
		}
	}
	return fmt.Errorf("the vDSO has no function %s", symbol)
}

// write replaces the function while the process is stopped. It returns false if a thread is
// executing what would be replaced.
func write(pid int, seconds int32) (bool, error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	counters, err := await(pid)
	if err != nil {
		return false, err
	}
	m, err := find(pid) // not before: while threads map memory, the list of mappings may lack some
	if err != nil {
		return false, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer memory.Close()
	current := make([]byte, len(replacement))
	if _, err := memory.ReadAt(current, m.function); err != nil {
		return false, err
	}
	// If the function was replaced before, only a number changes, in a single instruction.
	if !bytes.Equal(current, replacement) && slices.ContainsFunc(counters, m.isReplaced) {
		return false, nil
	}
	_, err = memory.WriteAt(code(seconds), m.function)
	return err == nil, err
}

// isReplaced reports whether an instruction is replaced, except for the first one.
func (m mapping) isReplaced(counter int64) bool {
	return counter > m.function && counter < m.function+int64(len(code(0)))
}

// await waits until all threads of a process are stopped, and returns where they are.
func await(pid int) ([]int64, error) {
	for range attempts {
		if counters, err := counters(pid); counters != nil || err != nil {
			return counters, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("process %d does not stop", pid)
}

// counters returns the addresses of the instructions that all threads of a process execute next,
// or nothing if one of them is running.
func counters(pid int) ([]int64, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return nil, err
	}
	var counters []int64
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 2 {
			return nil, err
		}
		counter, err := strconv.ParseInt(fields[len(fields)-1], 0, 64)
		if errors.Is(err, strconv.ErrRange) {
			continue // in the kernel
		}
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", thread, err)
		}
		counters = append(counters, counter)
	}
	return counters, nil
}
