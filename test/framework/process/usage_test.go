// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestCPUIsThatOfTheProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for begun, n := time.Now(), 0; time.Since(begun) < 50*time.Millisecond; {
		n++
	}
	if after, err := CPU(os.Getpid()); err != nil || after <= before || after-before > time.Minute {
		t.Errorf("used %s before and %s after: %v", before, after, err)
	}
	const nobody = 1 << 22 // the largest ID is less
	if _, err := CPU(nobody); err == nil {
		t.Error("got the processor time of no process")
	}
}

func TestPeakIsOfWhatWasResident(t *testing.T) {
	const size = 64 << 20
	if err := ResetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	before, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := make([]byte, size)
	for i := range used {
		used[i] = 1
	}
	after, err := MemoryOf(os.Getpid())
	if err != nil || after.Now < before.Now+size/2 || after.Peak < after.Now {
		t.Errorf("before %+v, after %+v: %v", before, after, err)
	}
	runtime.KeepAlive(used)
}

func TestExitedProcessHasNoMemory(t *testing.T) {
	exited := start(t, "exit 0")
	<-exited.Exited()
	if memory, err := MemoryOf(exited.PID()); err == nil {
		t.Errorf("got %+v", memory)
	}
}
