// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// Size of the window, and of screenshots.
const width, height = 1280, 1000

// served is a kubectl mcs ui that is running.
type served struct {
	*exec.Cmd
	// url has the token, base does not.
	url, base, token string
}

// serve runs kubectl mcs ui until the test ends.
func serve(t *testing.T, kubeconfig string, args ...string) *served {
	t.Helper()
	if kubeconfig == "" {
		kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
		expect.NoError(t, clusters.WriteKubeconfig(kubeconfig))
	}
	s := &served{Cmd: clusters.KubectlCommand(context.Background(), kubeconfig, append([]string{"mcs", "ui"}, args...)...)}
	out := expect.Must(s.StdoutPipe())(t)
	var failure strings.Builder
	s.Stderr = &failure
	expect.NoError(t, s.Start())
	t.Cleanup(func() { s.interrupt(t) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			s.url = text
			s.base, s.token, _ = strings.Cut(text, "/#token=")
			return s
		}
	}
	t.Fatalf("kubectl mcs ui ended: %s", failure.String())
	return nil
}

// interrupt ends the command, unless it has ended.
func (s *served) interrupt(t *testing.T) {
	t.Helper()
	if s.ProcessState == nil {
		_ = s.Process.Signal(syscall.SIGINT)
		if err := s.Wait(); err != nil {
			t.Errorf("kubectl mcs ui failed: %v", err)
		}
	}
}

// browser is a tab of a browser of its own.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	problems []string
}

// start starts Chromium. What it requests and what goes wrong in the page is recorded.
func start(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("Chromium is not installed: run make deps")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(width, height),
		chromedp.NoSandbox, // which root cannot use; the only page is ours
		chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(expect.Patience))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b.ctx = ctx
	expect.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
	requests, messages := chromedp.Events(ctx, network.RequestWillBeSent), chromedp.Console(ctx)
	go func() { // until the browser ends
		for event, err := range requests {
			if err != nil {
				return
			}
			b.note(&b.requests, event.Request.URL)
		}
	}()
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			if message.IsException() || strings.Contains(message.Text, "Content Security Policy") {
				b.note(&b.problems, message.String())
			}
		}
	}()
	return b
}

func (b *browser) note(list *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, text)
}

// expectNoOtherRequests fails if the page requested anything elsewhere, or if something went wrong in it.
func (b *browser) expectNoOtherRequests(base string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.requests {
		if !strings.HasPrefix(address, base+"/") {
			b.t.Errorf("the page requested %s", address)
		}
		if strings.Contains(strings.TrimPrefix(address, base+"/#token="), "token") {
			b.t.Errorf("the token is in the URL %s", address)
		}
	}
	if len(b.requests) < 5 {
		b.t.Errorf("the page requested only %v", b.requests)
	}
	for _, problem := range b.problems {
		b.t.Errorf("in the page: %s", problem)
	}
}

// open opens a page and waits until it is connected.
func (b *browser) open(s *served) {
	b.t.Helper()
	b.do(chromedp.Navigate(s.url))
	b.await("the connection", `document.body.dataset.connection === "connected" && document.querySelectorAll("#cluster-table tbody tr").length > 0`)
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	expect.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// read evaluates an expression in the page.
func read[T any](b *browser, expression string) T {
	b.t.Helper()
	return expect.Must(chromedp.Run(b.ctx, chromedp.Evaluate[T](expression)))(b.t)
}

// text returns the text of an element, empty if there is none.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return read[string](b, fmt.Sprintf(`document.querySelector(%q)?.textContent ?? ""`, selector))
}

// await waits until an expression is true in the page.
func (b *browser) await(what, expression string) {
	b.t.Helper()
	expect.Eventually(b.t, what, func(context.Context) error {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err != nil {
			return err
		}
		if !holds {
			return errors.New("the page does not show it: " + b.text("#list") + " | " + b.text("#explanation") + " | " + b.text("#cluster-table") + " | " + b.text("#notices"))
		}
		return nil
	})
}

// awaitText waits until an element has a text.
func (b *browser) awaitText(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "").includes(%q)`, selector, text))
}

// slash presses the key / like a keyboard does: there is no text if the page handles the key.
func (b *browser) slash() {
	b.t.Helper()
	for _, event := range []input.DispatchKeyEventParams{{Type: "keyDown", Key: "/", Code: "Slash", Text: "/"}, {Type: "keyUp", Key: "/", Code: "Slash"}} {
		expect.Must(chromedp.Call(b.ctx, input.DispatchKeyEvent, event))(b.t)
	}
}

// row returns the selector of the row of a service.
func row(key string) string { return fmt.Sprintf("#list li[data-key=%q]", key) }
