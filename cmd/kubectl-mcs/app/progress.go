// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const spinInterval = 100 * time.Millisecond

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// progress shows steps on a line each: on a terminal as soon as they begin,
// elsewhere when they have ended.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress(out io.Writer) progress {
	file, ok := out.(*os.File)
	return progress{out, ok && term.IsTerminal(int(file.Fd()))} //nolint:gosec // a file descriptor is a small number
}

// run shows a step while it runs.
func (p progress) run(what string, do func() error) error {
	ended := make(chan struct{})
	var spinning sync.WaitGroup
	if p.terminal {
		spinning.Go(func() { p.spin(what, ended) })
	}
	err := do()
	close(ended)
	spinning.Wait()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K") // over what the spinner has written
	}
	fmt.Fprintf(p.out, "%s %s\n", mark, what)
	return err
}

func (p progress) spin(what string, ended <-chan struct{}) {
	ticker := time.NewTicker(spinInterval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		fmt.Fprintf(p.out, "\r%c %s", spinner[i%len(spinner)], what)
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
	}
}
