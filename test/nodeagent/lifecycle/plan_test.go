// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	always    = corev1.ContainerRestartPolicyAlways
	onFailure = corev1.ContainerRestartPolicyOnFailure
	never     = corev1.ContainerRestartPolicyNever
)

var now = time.Unix(1000, 0)

func c(name string, kind Kind, policy corev1.ContainerRestartPolicy, state State, change ...func(*Container)) Container {
	container := Container{Name: name, Kind: kind, Policy: policy, State: state}
	for _, f := range change {
		f(&container)
	}
	return container
}

func failed(c *Container)    { c.ExitCode = 1 }
func started(c *Container)   { c.Started = true }
func unhealthy(c *Container) { c.Unhealthy = true }
func stopping(c *Container)  { c.Stopping = true }
func later(c *Container)     { c.RetryAt = now.Add(time.Second) }

func TestNext(t *testing.T) {
	for name, test := range map[string]struct {
		initialized bool
		containers  []Container
		want        Plan
	}{
		"all main containers start": {
			containers: []Container{c("a", Main, always, Waiting), c("b", Main, always, Waiting)},
			want:       Plan{Start: []string{"a", "b"}, Initialized: true},
		},
		"init containers run one after the other": {
			containers: []Container{c("i", Init, onFailure, Waiting), c("j", Init, onFailure, Waiting), c("a", Main, always, Waiting)},
			want:       Plan{Start: []string{"i"}},
		},
		"an init container runs": {
			containers: []Container{c("i", Init, onFailure, Running), c("a", Main, always, Waiting)},
			want:       Plan{},
		},
		"the next one follows": {
			containers: []Container{c("i", Init, onFailure, Exited), c("j", Init, onFailure, Waiting), c("a", Main, always, Waiting)},
			want:       Plan{Start: []string{"j"}},
		},
		"main containers follow": {
			containers: []Container{c("i", Init, onFailure, Exited), c("a", Main, always, Waiting)},
			want:       Plan{Start: []string{"a"}, Initialized: true},
		},
		"a failed init container runs again": {
			containers: []Container{c("i", Init, onFailure, Exited, failed, later), c("a", Main, always, Waiting)},
			want:       Plan{Again: now.Add(time.Second)},
		},
		"a failed init container ends the Pod": {
			containers: []Container{c("i", Init, never, Exited, failed), c("a", Main, never, Waiting)},
			want:       Plan{Finished: true},
		},
		"a sidecar has to start first": {
			containers: []Container{c("s", Sidecar, always, Running), c("a", Main, always, Waiting)},
			want:       Plan{},
		},
		"a sidecar has started": {
			containers: []Container{c("s", Sidecar, always, Running, started), c("a", Main, always, Waiting)},
			want:       Plan{Start: []string{"a"}, Initialized: true},
		},
		"a sidecar ends before an init container is done": {
			containers: []Container{c("s", Sidecar, always, Exited), c("i", Init, onFailure, Waiting), c("a", Main, always, Waiting)},
			want:       Plan{Start: []string{"s"}},
		},
		"a sidecar ends later": {
			initialized: true,
			containers:  []Container{c("s", Sidecar, always, Exited, later), c("a", Main, always, Exited)},
			want:        Plan{Start: []string{"a"}, Initialized: true, Again: now.Add(time.Second)},
		},
		"init containers do not run again": {
			initialized: true,
			containers:  []Container{c("i", Init, onFailure, Waiting), c("a", Main, always, Running)},
			want:        Plan{Initialized: true},
		},
		"the earliest restart has precedence": {
			initialized: true,
			containers: []Container{
				c("a", Main, always, Exited, func(c *Container) { c.RetryAt = now.Add(2 * time.Second) }),
				c("b", Main, always, Exited, later),
			},
			want: Plan{Initialized: true, Again: now.Add(time.Second)},
		},
		"an unhealthy container is stopped": {
			initialized: true,
			containers:  []Container{c("a", Main, always, Running, unhealthy), c("b", Main, always, Running, unhealthy, stopping)},
			want:        Plan{Stop: []string{"a"}, Initialized: true},
		},
		"OnFailure, success": {
			initialized: true,
			containers:  []Container{c("a", Main, onFailure, Exited), c("b", Main, onFailure, Exited, failed)},
			want:        Plan{Start: []string{"b"}, Initialized: true},
		},
		"all containers have succeeded": {
			initialized: true,
			containers:  []Container{c("a", Main, onFailure, Exited), c("b", Main, never, Exited)},
			want:        Plan{Initialized: true, Finished: true},
		},
		"Never, failure": {
			initialized: true,
			containers:  []Container{c("a", Main, never, Exited, failed), c("b", Main, never, Running)},
			want:        Plan{Initialized: true},
		},
		"sidecars are stopped last": {
			initialized: true,
			containers:  []Container{c("s", Sidecar, always, Running, started), c("a", Main, never, Exited)},
			want:        Plan{Stop: []string{"s"}, Initialized: true},
		},
	} {
		if diff := cmp.Diff(test.want, Next(Pod{Initialized: test.initialized, Containers: test.containers}, now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestStop(t *testing.T) {
	sidecars := []Container{c("r", Sidecar, always, Running), c("s", Sidecar, always, Running)}
	for name, test := range map[string]struct {
		containers []Container
		stop       []string
		stopped    bool
	}{
		"nothing runs":          {[]Container{c("a", Main, always, Exited), c("b", Main, always, Waiting)}, nil, true},
		"main first":            {append(sidecars, c("a", Main, always, Running), c("b", Main, always, Running, stopping)), []string{"a"}, false},
		"main are stopping":     {append(sidecars, c("a", Main, always, Running, stopping)), nil, false},
		"then the last sidecar": {append(sidecars, c("a", Main, always, Exited)), []string{"s"}, false},
		"one by one":            {[]Container{c("r", Sidecar, always, Running), c("s", Sidecar, always, Running, stopping)}, nil, false},
		"an init container":     {[]Container{c("i", Init, always, Running), c("a", Main, always, Waiting)}, []string{"i"}, false},
	} {
		stop, stopped := Stop(Pod{Containers: test.containers})
		if diff := cmp.Diff(test.stop, stop); diff != "" || stopped != test.stopped {
			t.Errorf("%s: stopped %v, %s", name, stopped, diff)
		}
	}
}

func TestContainersOf(t *testing.T) {
	spec := &corev1.PodSpec{
		RestartPolicy:  corev1.RestartPolicyAlways,
		InitContainers: []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: ptr.To(always)}},
		Containers:     []corev1.Container{{Name: "a"}, {Name: "b", RestartPolicy: ptr.To(never)}},
	}
	want := []Container{
		{Name: "i", Kind: Init, Policy: onFailure},
		{Name: "s", Kind: Sidecar, Policy: always},
		{Name: "a", Kind: Main, Policy: always},
		{Name: "b", Kind: Main, Policy: never},
	}
	if diff := cmp.Diff(want, ContainersOf(spec)); diff != "" {
		t.Error(diff)
	}
	spec = &corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, InitContainers: []corev1.Container{{Name: "i"}}}
	if diff := cmp.Diff([]Container{{Name: "i", Kind: Init, Policy: never}}, ContainersOf(spec)); diff != "" {
		t.Error(diff)
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	for _, want := range []time.Duration{0, 1, 2, 4, 8, 16, 30, 30} {
		if got := b.Next(time.Millisecond); got != want*time.Second {
			t.Errorf("got %v, want %vs", got, want)
		}
	}
	if got := b.Next(time.Hour); got != 0 {
		t.Errorf("after a long time: %v", got)
	}
	if got := b.Next(0); got != time.Second {
		t.Errorf("and again: %v", got)
	}
}
