// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/environment"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/etcfiles"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// start starts a container, or records why it cannot be started. The Pod has its
// addresses.
func (w *worker) start(ctx context.Context, pod *corev1.Pod, r *containerRecord) {
	spec, err := w.containerSpec(ctx, pod, r)
	var log *logs.Log
	if err == nil {
		log, err = logs.Create(filepath.Join(w.logDir, r.spec.Name, fmt.Sprintf("%d.log", w.runNumber(r))))
	}
	if err != nil {
		w.cannotRun(ctx, pod, r, err)
		return
	}
	stdout, stderr := log.Stream("stdout"), log.Stream("stderr")
	spec.Stdout, spec.Stderr = stdout, stderr
	startedAt := time.Now()
	container, err := w.runtime.Start(ctx, *spec)
	w.begin(r, log)
	if err != nil {
		w.hasExited(pod, r, &corev1.ContainerStateTerminated{
			ExitCode: 128, Reason: "StartError", Message: err.Error(),
			StartedAt: stamp(startedAt), FinishedAt: stamp(time.Now()),
		}, startedAt)
		w.events.Event(pod, corev1.EventTypeWarning, "Failed", err.Error())
		_ = log.Close()
		return
	}
	klog.FromContext(ctx).Info("Started container", "container", r.spec.Name, "program", spec.Process.Args[0])
	w.events.Eventf(pod, corev1.EventTypeNormal, "Started", "Started container %s", r.spec.Name)
	w.watch(ctx, pod, r, container, startedAt)
	w.tasks.Go(func() {
		<-container.Done()
		for _, close := range []func() error{stdout.Close, stderr.Close, log.Close} {
			if err := close(); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to close log of container", "container", r.spec.Name)
			}
		}
		code, finishedAt := container.Exit()
		w.hasExited(pod, r, terminated(r.spec, code, startedAt, finishedAt, spec.Stage, log), startedAt)
	})
}

// runNumber returns the number of the next run of a container.
func (w *worker) runNumber(r *containerRecord) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.exited != nil {
		return r.restarts + 1
	}
	return r.restarts
}

// begin records an attempt to run a container.
func (w *worker) begin(r *containerRecord, log *logs.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.exited != nil {
		r.restarts++
	}
	if r.previous != nil {
		_ = os.Remove(r.previous.Path())
	}
	r.previous, r.log = r.log, log
	r.id = "test://" + string(uuid.NewUUID())
	r.problem = nil
}

// cannotRun records why a container cannot be started.
func (w *worker) cannotRun(ctx context.Context, pod *corev1.Pod, r *containerRecord, err error) {
	var known *problem
	if !errors.As(err, &known) {
		known = &problem{"CreateContainerConfigError", err}
	}
	w.logError(ctx, err, "A container cannot be started")
	w.events.Eventf(pod, corev1.EventTypeWarning, "Failed", "Error: %s: %v", known.reason, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	r.problem = known
	r.retryAt = time.Now().Add(r.backoff.Next(0))
}

// containerSpec returns the complete specification of a container.
func (w *worker) containerSpec(ctx context.Context, pod *corev1.Pod, r *containerRecord) (*sandbox.Spec, error) {
	if err := checkImage(w.images, r.spec); err != nil {
		return nil, err
	}
	spec := &sandbox.Spec{ReadOnlyRoot: readOnlyRoot(r.spec), Net: w.sandbox.Net, UTS: w.sandbox.UTS}
	if err := setUser(&spec.Process, pod.Spec.SecurityContext, r.spec.SecurityContext); err != nil {
		return nil, err
	}
	base := baseEnvironment(string(w.images), w.hostname, spec.Process.UID)
	kubernetes, err := w.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for name, value := range environment.ServiceVariables(kubernetes) {
		base[name] = value
	}
	env, err := w.environment.Build(ctx, pod, r.spec, base)
	if err != nil {
		return nil, err
	}
	spec.Process.Args, spec.Process.Env = arguments(w.images, r.spec, env), environment.List(env)
	if spec.Process.Dir = r.spec.WorkingDir; spec.Process.Dir == "" {
		spec.Process.Dir = "/"
	}
	if spec.Mounts, err = mountsOf(r.spec, w.set, env); err != nil {
		return nil, err
	}
	spec.Files = map[string]string{
		"/etc/hostname":    w.hostname + "\n",
		"/etc/hosts":       etcfiles.Hosts(pod, w.hostname, w.addresses, w.dns.Domain),
		"/etc/resolv.conf": w.dns.Resolv(pod),
	}
	return spec, w.makeStage(spec, r)
}

// messageFile returns the termination message file. It is beside the stage of the
// container, whose content only the container sees.
func messageFile(stage string) string { return stage + ".message" }

// makeStage creates the directory of the container and its termination message file,
// which any user may write.
func (w *worker) makeStage(spec *sandbox.Spec, r *containerRecord) error {
	spec.Stage = filepath.Join(w.dir, "containers", r.spec.Name)
	if err := os.MkdirAll(spec.Stage, 0o755); err != nil {
		return err
	}
	file := messageFile(spec.Stage)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return err
	}
	if r.spec.TerminationMessagePath != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: file, Target: r.spec.TerminationMessagePath})
	}
	return os.Chmod(file, 0o666)
}

// watch records a running container and runs its probes and hooks.
func (w *worker) watch(ctx context.Context, pod *corev1.Pod, r *containerRecord, container *sandbox.Container, startedAt time.Time) {
	ctx, endProbes := context.WithCancel(ctx)
	restart, endRestart := context.WithCancel(ctx)
	current := &run{container: container, startedAt: startedAt, endProbes: endProbes, endRestart: endRestart}
	w.mu.Lock()
	r.run = current
	w.mu.Unlock()
	note := func(change func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
		signal(w.wake)
	}
	w.tasks.Go(func() {
		probes.Watch(ctx, restart, r.spec, w.target(r, container), startedAt, probes.Listener{
			Started: func() { note(func() { current.started = true }) },
			Ready:   func(ready bool) { note(func() { current.ready = ready }) },
			Failed:  func(kind probes.Kind) { note(func() { current.failed = kind }) },
			Attempt: func(_ probes.Kind, err error) { w.events.Event(pod, corev1.EventTypeWarning, "Unhealthy", err.Error()) },
		})
	})
	if r.spec.Lifecycle != nil && r.spec.Lifecycle.PostStart != nil {
		w.tasks.Go(func() {
			if err := w.hook(restart, r.spec.Lifecycle.PostStart, w.target(r, container)); err != nil && restart.Err() == nil {
				w.events.Event(pod, corev1.EventTypeWarning, "FailedPostStartHook", err.Error())
				container.Kill()
			}
		})
	}
}

// target returns a container as the target of its probes.
func (w *worker) target(r *containerRecord, container *sandbox.Container) probes.Target {
	return probes.Target{
		Host:  w.addresses[0].String(),
		Ports: r.spec.Ports,
		Exec: func(ctx context.Context, args []string) (int, string, error) {
			var output kubeletapi.Output
			code, err := container.Exec(ctx, args, sandbox.Streams{Stdout: &output, Stderr: &output})
			return code, output.String(), err
		},
	}
}

// hasExited records the exit of a container and when it may be restarted.
func (w *worker) hasExited(pod *corev1.Pod, r *containerRecord, state *corev1.ContainerStateTerminated, startedAt time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.run != nil {
		r.run.endProbes()
		r.run = nil
	}
	state.ContainerID = r.id
	r.before, r.exited = r.exited, state
	delay := r.backoff.Next(time.Since(startedAt))
	r.retryAt = time.Now().Add(delay)
	if delay > 0 && r.plan().RunsAgain() && w.pod.DeletionTimestamp == nil {
		w.events.Eventf(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s", r.spec.Name)
	}
	signal(w.wake)
}

// terminated returns the terminated state of a container.
func terminated(container *corev1.Container, code int, startedAt, finishedAt time.Time, stage string, log *logs.Log) *corev1.ContainerStateTerminated {
	state := &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed", StartedAt: stamp(startedAt), FinishedAt: stamp(finishedAt)}
	if code != 0 {
		state.Reason = "Error"
	}
	const limit = 4096
	if message, err := os.ReadFile(messageFile(stage)); err == nil {
		state.Message = string(message[:min(len(message), limit)])
	}
	if state.Message == "" && code != 0 && container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		var tail strings.Builder
		if err := log.Read(context.Background(), &tail, logs.Options{Tail: ptr.To[int64](80)}); err == nil {
			text := tail.String()
			state.Message = text[max(0, len(text)-2048):]
		}
	}
	return state
}
