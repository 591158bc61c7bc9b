// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Size is the size of a terminal in characters.
type Size struct{ Columns, Rows uint16 }

// openTerminal allocates a terminal and returns its master, for the agent, and the side for the
// program, which belongs to the user of the program.
func openTerminal(uid uint32) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	number, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("get number of terminal: %w", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal of the program: %w", err)
	}
	if err := slave.Chown(int(uid), -1); err != nil {
		slave.Close()
		return nil, nil, fmt.Errorf("change owner of terminal: %w", err)
	}
	return master, slave, nil
}

func resize(master *os.File, sizes <-chan Size) {
	for size := range sizes {
		_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Columns, Row: size.Rows})
	}
}
