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

	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const spinInterval = 100 * time.Millisecond

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Progress shows steps on a line each: on a terminal as soon as they begin,
// elsewhere when they have ended.
type Progress struct {
	out io.Writer
	// width is that of the terminal at the moment; nil if there is no terminal.
	width func() int

	mu sync.Mutex
	// spinning is true while there is a line that will be written over.
	spinning bool
}

// New shows progress on a terminal or in a file.
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

// Run shows a step while it runs.
func (p *Progress) Run(what string, do func() error) error {
	ended := make(chan struct{})
	var spinning sync.WaitGroup
	if p.width != nil {
		spinning.Go(func() { p.spin(what, ended) })
	}
	err := do()
	close(ended)
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

func (p *Progress) spin(what string, ended <-chan struct{}) {
	ticker := time.NewTicker(spinInterval)
	defer ticker.Stop()
	for i := 0; ; i++ {
		line := fmt.Sprintf("%c %s", spinner[i%len(spinner)], what)
		// Nothing goes back over a line that is wrapped, which some terminals do as
		// soon as the last column is filled. One that has no width does not say.
		if width := p.width(); width > 1 {
			line = truncate.Characters(line, width-1)
		}
		p.mu.Lock()
		fmt.Fprintf(p.out, "\r%s", line)
		p.spinning = true
		p.mu.Unlock()
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
	}
}

// clear takes away what the spinner has written.
func (p *Progress) clear() {
	if p.spinning {
		fmt.Fprintf(p.out, "\r\x1b[K")
		p.spinning = false
	}
}

// Beside is a writer of lines to the same terminal.
func (p *Progress) Beside(out io.Writer) io.Writer { return besideProgress{p, out} }

type besideProgress struct {
	*Progress
	to io.Writer
}

// Write takes away what the spinner has written. It writes that again below.
func (b besideProgress) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	return b.to.Write(text)
}
