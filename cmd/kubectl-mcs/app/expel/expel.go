// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expel implements `kubectl mcs expel`.
package expel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

const long = `Remove a cluster that is not trusted any more from a ClusterSet.

The cluster is not contacted. All clusters of --from first end its access to them, and then
withdraw everything that it exports, also if they are connected to it. Unlike after leave,
services do not keep the shared ClusterSet IPs that the cluster decided: other clusters
decide anew, and the IPs of these services change. Events on their ServiceExports say so.
When they have changed in all clusters, the member Secrets are deleted.

If a step fails in one cluster, the others are changed nevertheless, but the Secrets are
kept: they are what expels the cluster. Correct the cause, and repeat expel.

Name all other clusters of the ClusterSet after --from. Expel prints its plan and carries it
out without asking for confirmation, as kubectl delete does: --dry-run only prints the plan.
It requires cluster-admin permissions in all clusters of --from.`

const example = `  # Expel the cluster with the ID north from the ClusterSet of east and west
  kubectl mcs expel north --from east,west

  # Print the plan without changing anything
  kubectl mcs expel north --from east,west --dry-run`

type options struct {
	*cluster.Factory
	output  printer.Output
	from    []string
	dryRun  bool
	timeout time.Duration
}

// NewCommand returns the command expel.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "expel CLUSTER_ID --from CONTEXT,...",
		Short:   "Remove a cluster that is not trusted any more from a ClusterSet",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("exactly one cluster ID is required, got %d: name the other clusters after --from, separated by commas", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringSliceVar(&o.from, "from", nil, "Contexts of the clusters that expel the cluster.")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait until shared ClusterSet IPs are given up in all clusters.")
	o.output.AddTo(cmd)
	if err := cmd.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.CompleteContextList(cmd, slices.Clone(o.from), toComplete)
	}); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func (o *options) run(ctx context.Context, id string) error {
	if err := o.output.ValidatePlan(o.dryRun); err != nil {
		return err
	}
	peers, err := membership.Observe(ctx, o.Factory, o.from, nil)
	if err != nil {
		return err
	}
	planned, err := plan.Expel(id, membership.Observed(peers))
	if err != nil {
		return err
	}
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, ""); done || err != nil {
		return err
	}
	execution := membership.NewExecution(peers, o.Progress)
	execution.Timeout = o.timeout
	removals := slices.IndexFunc(planned.Steps, func(step plan.Step) bool { return step.Action == plan.RemoveMembers })
	if removals < 0 {
		removals = len(planned.Steps)
	}
	if err := execution.RunAll(ctx, planned.Steps[:removals]); err != nil {
		return fmt.Errorf("%w\ncompleted steps are not rolled back, and no member Secret was deleted, because these expel the cluster: run expel again to complete the others", err)
	}
	if err := execution.RunAll(ctx, planned.Steps[removals:]); err != nil {
		return fmt.Errorf("%w\ncompleted steps are not rolled back: run expel again to complete the others", err)
	}
	fmt.Fprintf(o.Streams.Out, "Cluster %q was expelled from %s.\n", id, strings.Join(o.from, ", "))
	return nil
}
