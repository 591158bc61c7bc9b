// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package wallclock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// child makes the test program a process whose clock jumps: for each line that it reads, it
// writes what its clocks show.
const child = "WALLCLOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	for range 3 { // threads that read the clock all the time
		go func() {
			for time.Now().Year() > 0 {
				runtime.Gosched()
			}
		}()
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().UnixNano(), int64(time.Since(began)))
	}
}

// R357: the wall clock of a process jumps, there and back; its monotonic clock and the clocks of
// other processes do not.
func TestWallClockOfOneProcessJumps(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), child+"=1")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = command.Process.Kill(), command.Wait() }()

	began, lines := time.Now(), bufio.NewReader(output)
	var first time.Duration
	for i, ahead := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour, 3 * time.Second, 0} {
		if i > 0 {
			if err := Jump(command.Process.Pid, ahead); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.WriteString(input, "\n"); err != nil {
			t.Fatal(err)
		}
		var wall, monotonic int64
		if _, err := fmt.Fscanln(lines, &wall, &monotonic); err != nil {
			t.Fatal(err)
		}
		if shown := time.Until(time.Unix(0, wall)) - ahead; shown.Abs() > time.Second {
			t.Errorf("the clock is wrong by %s after a jump by %s", shown, ahead)
		}
		if i == 0 {
			first = time.Duration(monotonic) - time.Since(began)
		}
		if drift := time.Duration(monotonic) - time.Since(began) - first; drift.Abs() > time.Second {
			t.Errorf("the monotonic clock went by %s too much after a jump by %s", drift, ahead)
		}
	}
}

func TestJumpOfMissingProcessFails(t *testing.T) {
	if err := Jump(1<<30, time.Hour); err == nil {
		t.Error("the clock of a process jumps that does not exist")
	}
}
