// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
)

func TestEachStepHasALine(t *testing.T) {
	var out bytes.Buffer
	p := New(&out)
	if err := p.Run("first", func() error { return nil }); err != nil {
		t.Error(err)
	}
	failure := errors.New("not now")
	if err := p.Run("second", func() error {
		if got := out.String(); got != "✓ first\n" {
			t.Errorf("output during the second step is %q, want the first one only", got)
		}
		return failure
	}); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	expect.Text(t, "✓ first\n✗ second\n", out.String())
}

func TestProgressInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := New(file).Run("step", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "✓ step\n", string(got))
}

// terminal returns a Progress for a terminal with this width.
func terminal(out io.Writer, width int) *Progress {
	return &Progress{out: out, width: func() int { return width }}
}

// On a terminal, a step is shown when it starts, and its line is replaced by its
// result.
func TestProgressOnATerminal(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"success": {nil, "✓"},
		"failure": {errors.New("not now"), "✗"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				err := terminal(&out, 80).Run("step", func() error {
					time.Sleep(5 * spinInterval / 2) // synthetic time
					return test.err
				})
				if !errors.Is(err, test.err) {
					t.Errorf("got %v", err)
				}
				expect.Text(t, "\r⠋ step\r⠙ step\r⠹ step\r\x1b[K"+test.want+" step\n", out.String())
			})
		})
	}
}

// A wrapped line cannot be overwritten by the spinner. Only the result may be
// longer than the terminal.
func TestSpinnerStaysOnOneLine(t *testing.T) {
	const step = "eastern-context: grant west and north"
	for width, want := range map[int]string{
		0:  "\r⠋ " + step,
		1:  "\r⠋ " + step,
		2:  "\r…",
		12: "\r⠋ eastern-…",
		39: "\r⠋ eastern-context: grant west and nor…",
		40: "\r⠋ " + step,
	} {
		synctest.Test(t, func(t *testing.T) { // so that the spinner is printed once
			var out bytes.Buffer
			if err := terminal(&out, width).Run(step, func() error { return nil }); err != nil {
				t.Error(err)
			}
			expect.Text(t, want+"\r\x1b[K✓ "+step+"\n", out.String())
		})
	}
}

// Warnings of servers have lines of their own. The spinner continues below.
func TestWarningsAreSeparateLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		p := terminal(&screen, 80)
		warnings := p.Beside(&screen)
		fmt.Fprintln(warnings, "before")
		err := p.Run("step", func() error {
			time.Sleep(spinInterval / 2) // synthetic time
			fmt.Fprintln(warnings, "first")
			fmt.Fprintln(warnings, "second")
			time.Sleep(spinInterval)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintln(warnings, "after")
		expect.Text(t, "before\n\r⠋ step\r\x1b[Kfirst\nsecond\n\r⠙ step\r\x1b[K✓ step\nafter\n", screen.String())
	})
}
