// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach implements `kubectl mcs attach`.
package attach

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

const long = `Register the API of mcs-apiserver again after detach.

The command deletes the ConfigMap that prevents mcs-controller from registering the
API, and waits until the API is available. Make sure that mcs-apiserver is running
before: an API that is registered but unavailable affects the whole cluster.`

const example = `  # Register the API of mcs-apiserver in the cluster of context west again
  kubectl mcs attach west`

type options struct {
	*cluster.Factory
	timeout time.Duration
}

// NewCommand returns the command attach.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:               "attach CONTEXT",
		Short:             "Register the API of mcs-apiserver again after detach",
		Long:              long,
		Example:           example,
		Args:              cluster.SingleContextArg,
		ValidArgsFunction: f.CompleteContext,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait until the API is available.")
	return cmd
}

func (o *options) run(ctx context.Context, name string) error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be greater than zero", o.timeout)
	}
	observed, err := attachment.Observe(ctx, o.Factory, name)
	if err != nil {
		return err
	}
	if observed.NamespaceGone && len(observed.Registered) == 0 && !observed.Detached {
		return fmt.Errorf("context %q: mcs-apiserver is not installed: namespace %q is being deleted or does not exist, and no API was detached; to install mcs-apiserver, apply its manifests, and mcs-controller registers the API", name, observed.Namespace)
	}
	if observed.Detached {
		if err := o.Progress.Run(name+": delete ConfigMap "+observed.Mark(), func() error { return observed.RemoveMark(ctx) }); err != nil {
			return err
		}
	}
	err = o.Progress.Run(name+": wait until the API is available", func() error { return observed.WaitUntilAvailable(ctx, o.timeout) })
	if err != nil {
		return fmt.Errorf("%w\nthe API is not detached any more and becomes available when mcs-controller and mcs-apiserver are running: "+
			"`kubectl --context %s describe deployment -n %s mcs-apiserver` shows their state", err, name, observed.Namespace)
	}
	fmt.Fprintf(o.Streams.Out, "API of mcs-apiserver is available in the cluster of context %q.\n", name)
	return nil
}
