// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// sleeper is a Pod that does nothing.
const sleeper = `
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: none, command: [sleep, "infinity"], env: [{name: COLOR, value: blue}], workingDir: /usr/lib}]
`

func testExec(t *testing.T) {
	n := newNamespace(t, "exec")
	n.apply(sleeper)
	n.await("condition=Ready", "pod/pod")
	stdout, stderr, code := n.try("some input", "exec", "-i", "pod", "--", "sh", "-c", "cat; echo; echo $COLOR; pwd; hostname; echo problem >&2; exit 7")
	if stdout != "some input\nblue\n/usr/lib\npod\n" || !strings.HasPrefix(stderr, "problem\n") || code != 7 {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	large := strings.Repeat("0123456789abcdef", 1<<16)
	if stdout, stderr, code := n.try(large, "exec", "-i", "pod", "--", "cat"); stdout != large || code != 0 {
		t.Errorf("code %d, %d bytes, stderr %q", code, len(stdout), stderr)
	}
	if _, stderr, code := n.try("", "exec", "pod", "--", "no-such-program"); code == 0 || !strings.Contains(stderr, "no-such-program") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

// sizeQueue reports a fixed terminal size.
type sizeQueue struct {
	sizes chan remotecommand.TerminalSize
}

func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, more := <-q.sizes
	if !more {
		return nil
	}
	return &size
}

func testTerminal(t *testing.T) {
	n := newNamespace(t, "terminal")
	n.apply(sleeper)
	n.await("condition=Ready", "pod/pod")
	request := suite.client.CoreV1().RESTClient().Post().Namespace(n.name).Resource("pods").Name("pod").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Command: []string{"sh", "-c", "until stty size | grep '40 100'; do :; done; read line; echo got $line"},
			Stdin:   true, Stdout: true, TTY: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(suite.config, http.MethodGet, request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	sizes := sizeQueue{make(chan remotecommand.TerminalSize, 1)}
	sizes.sizes <- remotecommand.TerminalSize{Width: 100, Height: 40}
	defer close(sizes.sizes)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("typed\n"), Stdout: &stdout, Tty: true, TerminalSizeQueue: sizes})
	if err != nil || !strings.Contains(stdout.String(), "got typed") || !strings.Contains(stdout.String(), "40 100") {
		t.Errorf("%v: %q", err, stdout.String())
	}
}

func testLogs(t *testing.T) {
	n := newNamespace(t, "logs")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: OnFailure
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    image: none
    command: [sh, -c, "test -f /v/second || { touch /v/second; echo first; exit 1; }; for i in 1 2 3; do echo line $i; done; until test -f /v/end; do sleep 0.02; done; echo end >&2"]
    volumeMounts: [{name: v, mountPath: /v}]
`)
	n.await("jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/pod")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	follow := n.command(ctx, "logs", "-f", "pod")
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for _, want := range []string{"line 1", "line 2", "line 3"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	// New lines are received at once, and so is the end of the container.
	// The command may be killed together with the container whose end it causes, so its exit code is not checked: the
	// line that follows shows that it ran.
	_ = n.command(ctx, "exec", "--quiet", "pod", "--", "touch", "/v/end").Run()
	if !lines.Scan() || lines.Text() != "end" || lines.Scan() {
		t.Errorf("got %q", lines.Text())
	}
	if err := follow.Wait(); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{
		"line 3\nend\n": {"logs", "pod", "--tail=2"},
		"first\n":       {"logs", "pod", "--previous"},
		"line 1\nlin":   {"logs", "pod", "--limit-bytes=10"},
	} {
		if got := n.kubectl(args...); got != want {
			t.Errorf("%v: got %q", args, got)
		}
	}
	if got := n.kubectl("logs", "pod", "--timestamps", "--tail=1", "--since=1h"); !strings.HasPrefix(got, "20") || !strings.HasSuffix(got, "Z end\n") {
		t.Errorf("with a time: %q", got)
	}
}

func testPortForward(t *testing.T) {
	n := newNamespace(t, "forward")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - {name: c, image: webserver, readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}
`)
	n.await("condition=Ready", "pod/pod")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	forward := n.command(ctx, "port-forward", "--address=127.0.0.1", "pod/pod", "18080:8080")
	pipe, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = forward.Wait()
	}()
	if lines := bufio.NewScanner(pipe); !lines.Scan() {
		t.Fatal("kubectl port-forward has exited")
	}
	for range 2 {
		response, err := http.Get("http://127.0.0.1:18080/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), "pod ") {
			t.Errorf("%q, %v", body, err)
		}
	}
}
