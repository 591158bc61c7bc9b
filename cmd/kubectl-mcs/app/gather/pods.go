// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/installation"
)

const (
	// maxLog is how much of the end of a log is in a bundle.
	maxLog = 4 << 20
	// maxLogLines limits what a server sends.
	maxLogLines = 100_000
	// maxPods limits of how many Pods logs are read.
	maxPods = 10
	// maxContainers limits of how many containers of a Pod logs are read.
	maxContainers = 10
)

// pods reads the logs of mcs-apiserver and mcs-controller.
func (r *reader) pods(ctx context.Context) error {
	listing, cancel, err := r.WithTimeout(ctx, readTimeout)
	if err != nil {
		cancel()
		return err
	}
	pods, err := r.Kubernetes.CoreV1().Pods(r.namespace).List(listing, metav1.ListOptions{LabelSelector: installation.Selector})
	cancel()
	if err != nil {
		r.bundle.failed(r.directory+"/logs", err)
		return nil
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if i == maxPods {
			r.bundle.failed(r.directory+"/logs", fmt.Errorf("there are %d Pods, and logs of %d are read", len(pods.Items), maxPods))
			break
		}
		if err := r.logs(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// logs reads the logs of all containers of a Pod, and those before their last restart.
func (r *reader) logs(ctx context.Context, pod *corev1.Pod) error {
	for i, container := range pod.Spec.Containers {
		if i == maxContainers {
			r.bundle.failed(r.directory+"/logs", fmt.Errorf("a Pod has %d containers, and logs of %d are read", len(pod.Spec.Containers), maxContainers))
			break
		}
		restarted := false
		for _, status := range pod.Status.ContainerStatuses {
			restarted = restarted || status.Name == container.Name && status.RestartCount > 0
		}
		for _, previous := range []bool{false, true} {
			if ctx.Err() != nil || previous && !restarted {
				continue
			}
			name := fmt.Sprintf("logs/%s/%s.log", pod.Name, container.Name)
			if previous {
				name = fmt.Sprintf("logs/%s/%s.previous.log", pod.Name, container.Name)
			}
			options := &corev1.PodLogOptions{Container: container.Name, Previous: previous, Timestamps: true, TailLines: ptr.To[int64](maxLogLines)}
			if err := r.add(ctx, name, func(ctx context.Context, w io.Writer) error {
				stream, err := r.Kubernetes.CoreV1().Pods(r.namespace).GetLogs(pod.Name, options).Stream(ctx)
				if err != nil {
					return err
				}
				defer stream.Close()
				end := &tail{limit: maxLog}
				_, err = io.Copy(end, stream)
				_, written := io.WriteString(w, redactLog(string(end.lines())))
				return errors.Join(err, written)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tail keeps the end of what is written.
type tail struct {
	limit int
	kept  []byte
	cut   bool
}

func (t *tail) Write(data []byte) (int, error) {
	t.kept = append(t.kept, data...)
	if len(t.kept) > 2*t.limit { // moves what is kept rarely
		t.kept, t.cut = append([]byte(nil), t.kept[len(t.kept)-t.limit:]...), true
	}
	return len(data), nil
}

// lines returns what is kept, from the begin of a line. The begin of a private key may be cut off:
// then what is before its end is left out.
func (t *tail) lines() []byte {
	kept := t.kept
	if len(kept) > t.limit {
		kept, t.cut = kept[len(kept)-t.limit:], true
	}
	if !t.cut {
		return kept
	}
	_, kept, _ = bytes.Cut(kept, []byte("\n"))
	if end := bytes.Index(kept, []byte("PRIVATE KEY-----")); end >= 0 && !bytes.Contains(kept[:end], []byte("-----BEGIN")) {
		_, kept, _ = bytes.Cut(kept[end:], []byte("\n"))
	}
	return kept
}

// doctor runs `kubectl mcs doctor` for the cluster.
func (r *reader) doctor(ctx context.Context) error {
	var out, errOut bytes.Buffer
	f := cluster.NewFactory(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	f.Changed = r.Changed
	*f.Flags.KubeConfig, *f.Flags.Context, *f.Flags.Timeout = *r.Flags.KubeConfig, r.Context, *r.Flags.Timeout
	*f.Flags.Impersonate, *f.Flags.ImpersonateUID, *f.Flags.ImpersonateGroup = *r.Flags.Impersonate, *r.Flags.ImpersonateUID, *r.Flags.ImpersonateGroup
	cmd := doctor.NewCommand(f)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs([]string{"--output", "json"})
	failure := cmd.ExecuteContext(ctx)
	return r.bundle.add(r.directory+"/doctor.json", func(w io.Writer) error {
		var report map[string]any
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			return errors.Join(failure, err) // what is broken is no failure, but in the report
		}
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "    ")
		return encoder.Encode(clean(report))
	})
}
