// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

// run starts the command, and returns the URL that it prints, and a function that interrupts it.
func run(t *testing.T, args ...string) (page *url.URL, interrupt func() error) {
	t.Helper()
	servers := map[string]string{"east": commandtest.NewAPIServer(t, "east").URL, "west": commandtest.NewAPIServer(t, "west").URL}
	read, write := io.Pipe()
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: write, ErrOut: io.Discard}
	cmd := app.NewCommand(streams)
	cmd.SetArgs(append([]string{"ui", "--kubeconfig", commandtest.Kubeconfig(t, servers)}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		write.CloseWithError(io.EOF)
		ended <- err
	}()
	interrupt = func() error {
		cancel()
		return <-ended
	}
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			go func() { _, _ = io.Copy(io.Discard, read) }()
			page, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return page, interrupt
		}
	}
	t.Fatalf("the command ended: %v", interrupt())
	return nil, nil
}

// get requests something at the loopback address, and for the host of the page.
func get(t *testing.T, page *url.URL, host, path, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", page.Port())+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// R583: the page is served on the loopback interface, with the token that is printed, and until the
// command is interrupted.
func TestPageIsServedUntilInterrupt(t *testing.T) {
	page, interrupt := run(t, "--context", "east", "--contexts", "west,east")
	token, ok := strings.CutPrefix(page.Fragment, "token=")
	if !ok || !strings.HasSuffix(page.Hostname(), ".localhost") {
		t.Errorf("got URL %s", page)
	}
	if code := get(t, page, page.Host, "/", ""); code != http.StatusOK {
		t.Errorf("got status %d for the page", code)
	}
	if code := get(t, page, page.Host, "/api/events", token); code != http.StatusOK {
		t.Errorf("got status %d with the token", code)
	}
	if code := get(t, page, page.Host, "/api/events", "other"); code != http.StatusUnauthorized {
		t.Errorf("got status %d with another token", code)
	}
	if code := get(t, page, "localhost:"+page.Port(), "/", token); code != http.StatusForbidden {
		t.Errorf("got status %d for another host", code)
	}
	if err := interrupt(); err != nil {
		t.Errorf("the command failed: %v", err)
	}
	if connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", page.Port())); err == nil {
		connection.Close()
		t.Error("the page is served after the interrupt")
	}
}

func TestArgumentsAreValidated(t *testing.T) {
	kubeconfig := commandtest.Kubeconfig(t, map[string]string{"east": "http://127.0.0.1:1"})
	used, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	_, port, _ := net.SplitHostPort(used.Addr().String())
	for _, test := range []struct{ args, want string }{
		{"--context none", "context \"none\" does not exist"}, {"--context east --contexts none", "context \"none\" does not exist"}, {"", "current-context is not set"},
		{"--context east --port 70000", "must be between 0 and 65535"}, {"--context east --port " + port, "choose another --port"}, {"--context east web", "unknown command"},
	} {
		_, _, err := commandtest.Run(t.Context(), append([]string{"ui", "--kubeconfig", kubeconfig}, strings.Fields(test.args)...)...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %s", test.args, err, test.want)
		}
	}
}
