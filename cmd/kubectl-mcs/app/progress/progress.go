// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress shows the steps of a command while they run.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const spinInterval = 100 * time.Millisecond

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Progress prints one line per step: on a terminal when the step starts, otherwise
// when it has completed.
type Progress struct {
	out io.Writer
	// width returns the current width of the terminal. It is nil if the output is
	// not a terminal.
	width func() int

	mu sync.Mutex
	// spinning is true while the last line will be overwritten.
	spinning bool
}

// New returns a Progress that prints to a terminal or a file.
func New(out io.Writer) *Progress {
	p := &Progress{out: out}
	file, ok := out.(*os.File)
	if !ok {
		return p
	}
	descriptor := int(file.Fd()) //nolint:gosec // a file descriptor is a small number
	if term.IsTerminal(descriptor) {
		p.width = func() int {
			width, _, err := term.GetSize(descriptor)
			if err != nil {
				return 0
			}
			return width
		}
	}
	return p
}

// Run runs a step and shows its progress and result.
func (p *Progress) Run(what string, do func() error) error {
	what = printer.Escape(what)
	completed := make(chan struct{})
	var spinning sync.WaitGroup
	if p.width != nil {
		spinning.Go(func() { p.spin(what, completed) })
	}
	err := do()
	close(completed)
	spinning.Wait()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%s %s\n", mark, what)
	return err
}

func (p *Progress) spin(what string, completed <-chan struct{}) {
	ticker := time.NewTicker(spinInterval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		line := fmt.Sprintf("%c %s", spinner[i%len(spinner)], what)
		// A wrapped line cannot be overwritten, and some terminals wrap as soon as the
		// last column is filled. The width of some terminals is unknown.
		if width := p.width(); width > 1 {
			line = truncate.Characters(line, width-1)
		}
		p.mu.Lock()
		fmt.Fprintf(p.out, "\r%s", line)
		p.spinning = true
		p.mu.Unlock()
		select {
		case <-completed:
			return
		case <-ticker.C:
		}
	}
}

// clear removes the line of the spinner.
func (p *Progress) clear() {
	if p.spinning {
		fmt.Fprintf(p.out, "\r\x1b[K")
		p.spinning = false
	}
}

// Beside returns a writer for other lines on the same terminal.
func (p *Progress) Beside(out io.Writer) io.Writer { return besideProgress{p, out} }

type besideProgress struct {
	*Progress
	to io.Writer
}

// Write removes the line of the spinner, which continues below.
func (b besideProgress) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	return b.to.Write(text)
}
