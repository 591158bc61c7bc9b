// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that a process has used, in user mode and in the kernel. Unlike
// /proc/PID/stat, it is not rounded to clock ticks, of which an idle process uses few.
func CPU(pid int) (time.Duration, error) {
	const scheduler = 2 // the clock of a process is its ID, inverted, with the kind of the clock
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &used); err != nil { //nolint:gosec // IDs are smaller
		return 0, fmt.Errorf("read processor time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// Memory is the resident memory of a process, in bytes.
type Memory struct{ Now, Peak int64 }

// MemoryOf returns the resident memory of a process, and the most since it started, or since ResetPeak.
func MemoryOf(pid int) (Memory, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var memory Memory
	for line := range strings.Lines(string(data)) {
		for name, value := range map[string]*int64{"VmRSS:": &memory.Now, "VmHWM:": &memory.Peak} {
			fields := strings.Fields(line)
			if len(fields) != 3 || fields[0] != name {
				continue
			}
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return Memory{}, fmt.Errorf("read memory of process %d: %w", pid, err)
			}
			*value = kilobytes << 10
		}
	}
	if memory.Now == 0 || memory.Peak == 0 {
		return Memory{}, fmt.Errorf("read memory of process %d: it has none, so that it has exited", pid)
	}
	return memory, nil
}

// ResetPeak makes the peak of a process begin anew.
func ResetPeak(pid int) error {
	const peak = "5"
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peak), 0)
}
