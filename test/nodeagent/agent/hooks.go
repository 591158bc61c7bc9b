// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// probeTarget returns a running container as the target of its probes and hooks.
func probeTarget(spec *corev1.Container, host netip.Addr, container *sandbox.Container) probes.Target {
	return probes.Target{
		Host:  host.String(),
		Ports: spec.Ports,
		Exec: func(ctx context.Context, args []string) (int, string, error) {
			var output kubeletapi.Output
			code, err := container.Exec(ctx, args, sandbox.Streams{Stdout: &output, Stderr: &output})
			return code, output.String(), err
		},
	}
}

// runHook runs a hook of a container to completion.
func runHook(ctx context.Context, handler *corev1.LifecycleHandler, target probes.Target) error {
	switch {
	case handler.Exec != nil:
		return target.Check(ctx, corev1.ProbeHandler{Exec: handler.Exec})
	case handler.HTTPGet != nil:
		return target.Check(ctx, corev1.ProbeHandler{HTTPGet: handler.HTTPGet})
	case handler.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(handler.Sleep.Seconds) * time.Second):
			return nil
		}
	}
	return errors.New("unsupported kind of lifecycle hook")
}
