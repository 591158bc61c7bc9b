// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// idle is the idle timeout of a stream.
const idle = 4 * time.Hour

func (h handler) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	container, err := h.pods.Container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		fail(w, err)
		return
	}
	remotecommand.ServeExec(w, r, executor{container}, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"),
		r.URL.Query()["command"], options, idle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// executor runs commands in one container.
type executor struct{ container *sandbox.Container }

// ExecInContainer implements remotecommand.Executor.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, args []string, stdin io.Reader, stdout, stderr io.WriteCloser,
	terminal bool, resize <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	streams := sandbox.Streams{Stdin: stdin, Terminal: terminal}
	// A nil value of one interface type is not a nil value of another.
	if stdout != nil {
		streams.Stdout = stdout
	}
	if stderr != nil && !terminal {
		streams.Stderr = stderr
	}
	if terminal && resize != nil {
		streams.Sizes = sizes(ctx, resize)
	}
	code, err := e.container.Exec(ctx, args, streams)
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command exited with code %d", code), Code: code}
	}
	return nil
}

// sizes converts the sizes of a terminal until the queue ends.
func sizes(ctx context.Context, resize <-chan remotecommand.TerminalSize) <-chan sandbox.Size {
	translated := make(chan sandbox.Size)
	go func() {
		defer close(translated)
		for size := range resize {
			select {
			case translated <- sandbox.Size{Columns: size.Width, Rows: size.Height}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return translated
}

// run runs a command and responds with its output.
func (h handler) run(w http.ResponseWriter, r *http.Request) {
	container, err := h.pods.Container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		fail(w, err)
		return
	}
	var output Output
	code, err := container.Exec(r.Context(), strings.Fields(r.FormValue("cmd")), sandbox.Streams{Stdout: &output, Stderr: &output})
	if err == nil && code != 0 {
		err = fmt.Errorf("command exited with code %d: %s", code, output.String())
	}
	if err != nil {
		fail(w, err)
		return
	}
	_, _ = io.WriteString(w, output.String())
}

func (h handler) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	forwarder := forwarder{pods: h.pods, namespace: r.PathValue("namespace"), pod: r.PathValue("pod")}
	portforward.ServePortForward(w, r, forwarder, forwarder.pod, r.PathValue("uid"), options, idle, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// forwarder connects to the ports of one Pod.
type forwarder struct {
	pods           Pods
	namespace, pod string
}

// PortForward implements portforward.PortForwarder. It returns when the Pod closes the connection.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := f.pods.Dial(ctx, f.namespace, f.pod, port)
	if err != nil {
		return err
	}
	defer connection.Close()
	// The input from the client ends with its stream, which the caller closes.
	go func() {
		_, _ = io.Copy(connection, stream)
		if half, ok := connection.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, connection)
	return err
}
