// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leave implements `kubectl mcs leave`.
package leave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

const long = `Remove a cluster from its ClusterSet.

Everything that the cluster exports is withdrawn from all clusters, and everything
that it imports is withdrawn from the cluster itself. Then all Secrets, service accounts
and roles of the membership are deleted, in the cluster and in the clusters of --from.
ServiceExports are kept and take effect again when the cluster joins again.

The server and the certificate authority in your kubeconfig identify the cluster in the
clusters of --from, not the cluster ID that it reports.

A cluster that no longer exists, or is unreachable, is removed from the clusters of
--from only. Refer to it by its context, or by its cluster ID with --id. A cluster that
others are still connected to is not removed this way.

Leave prints its plan and carries it out without asking for confirmation, as kubectl delete
does: --dry-run only prints the plan. Leave can be repeated if a step fails. It requires
cluster-admin permissions in all clusters.`

const example = `  # Remove north from the ClusterSet that it forms with east and west
  kubectl mcs leave north --from east,west

  # Remove a cluster that no longer exists from east and west
  kubectl mcs leave --id north --from east,west

  # Print the plan without changing anything
  kubectl mcs leave north --from east,west --dry-run`

type options struct {
	*cluster.Factory
	output printer.Output
	id     string
	from   []string
	dryRun bool
}

// NewCommand returns the command leave.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "leave (CONTEXT | --id CLUSTER_ID) [--from CONTEXT,...]",
		Short:   "Remove a cluster from its ClusterSet",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.id != "" && len(args) > 0:
				return fmt.Errorf("--id %s: no context must be given, got %q: name the other clusters after --from, separated by commas", o.id, args[0])
			case o.id == "" && len(args) != 1:
				return fmt.Errorf("exactly one context is required, got %d: name the other clusters after --from, separated by commas", len(args))
			}
			return nil
		},
		ValidArgsFunction: f.CompleteContext,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().StringSliceVar(&o.from, "from", nil, "Contexts of the other clusters, from which the cluster is removed.")
	cmd.Flags().StringVar(&o.id, "id", "", "ID of a cluster that no longer exists or is unreachable. Only the clusters of --from are changed.")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	o.output.AddTo(cmd)
	if err := cmd.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.CompleteContextList(cmd, slices.Concat(args, o.from), toComplete)
	}); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	if err := o.output.ValidatePlan(o.dryRun); err != nil {
		return err
	}
	if o.id != "" {
		peers, err := membership.Observe(ctx, o.Factory, o.from, nil)
		if err != nil {
			return err
		}
		return o.forget(ctx, o.id, nil, peers)
	}
	name := args[0]
	clusters, errs, err := membership.ObserveEach(ctx, o.Factory, append([]string{name}, o.from...), nil)
	if err != nil {
		return err
	}
	var noContext *cluster.NoContextError
	if errors.As(errs[0], &noContext) || cluster.IsUnreachable(errs[0]) {
		if err := errors.Join(errs[1:]...); err != nil {
			return errors.Join(errs...)
		}
		return o.forget(ctx, name, errs[0], clusters[1:])
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	observed := membership.Observed(clusters)
	planned, err := plan.Leave(observed[0], observed[1:])
	if err != nil {
		return err
	}
	nothing := fmt.Sprintf("Cluster %q is not in a ClusterSet.", name)
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, nothing); done || err != nil {
		return err
	}
	if err := o.execute(ctx, clusters, planned); err != nil {
		return err
	}
	// The name of the context, because another cluster may have the same cluster ID.
	fmt.Fprintf(o.Streams.Out, "Cluster %q left the ClusterSet.\n", name)
	return nil
}

// forget removes a cluster that cannot be observed, or is not to be, from its
// peers. cause is why it cannot.
func (o *options) forget(ctx context.Context, name string, cause error, peers []*membership.Cluster) error {
	var access plan.Access
	if c, err := o.ForContext(name); err == nil && o.id == "" {
		if access, err = membership.AccessTo(c.Config, ""); err != nil {
			return err
		}
	}
	id, planned, err := plan.Forget(name, access, membership.Observed(peers))
	if err != nil {
		return errors.Join(cause, err)
	}
	if cause != nil {
		fmt.Fprintf(o.Streams.ErrOut, "Warning: %v\n", cause)
	}
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, ""); done || err != nil {
		return err
	}
	if err := o.execute(ctx, peers, planned); err != nil {
		return err
	}
	fmt.Fprintf(o.Streams.Out, "Cluster %q was removed from %s.\n", id, strings.Join(o.from, ", "))
	return nil
}

func (o *options) execute(ctx context.Context, clusters []*membership.Cluster, planned plan.Plan) error {
	if err := membership.NewExecution(clusters, o.Progress).Run(ctx, planned.Steps); err != nil {
		return fmt.Errorf("%w\ncompleted steps are not rolled back: run leave again to complete the others", err)
	}
	return nil
}
