// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package detach implements `kubectl mcs detach`.
package detach

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

// consequences are what an administrator has to know before and while the API is
// detached.
const consequences = `While the API is detached:
  - ServiceExports, ServiceImports, Members and ClusterClaims are not served in this
    cluster. They are neither deleted nor changed.
  - Derived Services and imported EndpointSlices are kept. They are updated only while
    mcs-apiserver and mcs-controller are running.
  - Other clusters cannot read from this cluster. They keep its exports. After their TTL
    for it (60s by default) they keep the endpoints of services that answer, for an hour at
    most, where its member Secret has allowed-cidrs, and withdraw all others. With the lost
    policy KeepLast they keep the last ready endpoints of an import, with Keep all.
  - CoreDNS serves clusterset.local from its cache, but not after a restart.
  - Namespaces can be deleted. The ServiceExports of a deleted namespace are deleted
    when mcs-apiserver is running again.
  - If CustomResourceDefinitions of another implementation remain, the kube-apiserver
    serves their objects as of the migration: run migrate --back or delete them first.
`

const long = `Remove the API of mcs-apiserver from a cluster in an emergency.

An aggregated API that is unavailable affects the whole cluster: namespaces are not
deleted, and clients that discover all APIs fail. If mcs-apiserver cannot be repaired
quickly, this command deletes its APIServices, and creates a ConfigMap that prevents
mcs-controller from registering them again. It also works if neither mcs-apiserver nor
mcs-controller is running. Use attach to register the API again.

` + consequences

const example = `  # Detach the API of mcs-apiserver from the cluster of context west
  kubectl mcs detach west

  # Print the plan and its consequences without changing anything
  kubectl mcs detach west --dry-run`

type options struct {
	*cluster.Factory
	dryRun, yes bool
}

// NewCommand returns the command detach.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:               "detach CONTEXT",
		Short:             "Remove the API of mcs-apiserver from a cluster in an emergency",
		Long:              strings.TrimSpace(long),
		Example:           example,
		Args:              cluster.SingleContextArg,
		ValidArgsFunction: f.CompleteContext,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "If true, do not ask for confirmation.")
	return cmd
}

func (o *options) run(ctx context.Context, name string) error {
	observed, err := attachment.Observe(ctx, o.Factory, name)
	if err != nil {
		return err
	}
	steps := planned(observed)
	if len(steps) == 0 {
		fmt.Fprintf(o.Streams.Out, "API of mcs-apiserver is already detached from the cluster of context %q.\n", name)
		return nil
	}
	fmt.Fprintln(o.Streams.Out, "Plan:")
	for _, step := range steps {
		fmt.Fprintf(o.Streams.Out, "  %s: %s\n", name, printer.Escape(step.description))
	}
	fmt.Fprintf(o.Streams.Out, "\n%s", consequences)
	again := fmt.Sprintf("run `kubectl mcs attach %s`", name)
	if unmarked(observed) {
		again = "install mcs-apiserver again"
		fmt.Fprintf(o.Streams.Out, "\nNamespace %s is being deleted or does not exist, so ConfigMap %s is not created:\n"+
			"when the Pods in it have ended, nothing registers the API again. If mcs-controller does\nbefore, run detach again.\n", observed.Namespace, observed.Mark())
	}
	if o.dryRun {
		return nil
	}
	fmt.Fprintln(o.Streams.Out)
	if !o.yes {
		if err := o.Confirm(fmt.Sprintf("Detach the API of mcs-apiserver from the cluster of context %q?", name)); err != nil {
			return err
		}
	}
	for i, step := range steps {
		err := o.Progress.Run(name+": "+step.description, func() error { return step.do(ctx) })
		switch {
		case err != nil && i == 0:
			return err // no step was completed
		case err != nil:
			return fmt.Errorf("%w\ncompleted steps are not rolled back: run detach again to complete the others", err)
		}
	}
	fmt.Fprintf(o.Streams.Out, "API of mcs-apiserver is detached from the cluster of context %q. To register it again, %s.\n", name, again)
	return nil
}

// step is a change of the cluster.
type step struct {
	description string
	do          func(context.Context) error
}

// planned returns the steps that detach the API. The mark comes first, so that
// mcs-controller does not restore the APIServices.
func planned(observed *attachment.Attachment) []step {
	var steps []step
	if !observed.Detached && !unmarked(observed) {
		steps = append(steps, step{"create ConfigMap " + observed.Mark() + ", so that the API is not registered again", observed.SetMark})
	}
	if len(observed.Published) > 0 { // or the kube-apiserver would serve them
		steps = append(steps, step{"delete CustomResourceDefinitions " + strings.Join(observed.Published, ", ") + ", which mcs-controller published", observed.Unpublish})
	}
	if len(observed.Registered) > 0 {
		steps = append(steps, step{"delete APIServices " + strings.Join(observed.Registered, ", "), observed.Unregister})
	}
	return steps
}

// unmarked reports whether APIServices and CustomResourceDefinitions are deleted without the
// mark, because there is no namespace for it, and nothing in it that would restore them.
func unmarked(observed *attachment.Attachment) bool {
	return observed.NamespaceGone && !observed.Detached && len(observed.Registered)+len(observed.Published) > 0
}
