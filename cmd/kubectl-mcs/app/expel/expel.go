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

The cluster is not contacted. In the clusters of --from, everything that it exports is
withdrawn, also if they are connected to it, and the Secret, service account and roles of
its membership are deleted. Unlike after leave, services do not keep the shared ClusterSet
IPs that the cluster decided: other clusters decide anew, and the IPs of these services
change. Events on their ServiceExports say so.

Name all other clusters of the ClusterSet after --from. Expel can be repeated if a step
fails. It requires cluster-admin permissions in all clusters of --from.`

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
		Use:               "expel CLUSTER_ID --from CONTEXT,...",
		Short:             "Remove a cluster that is not trusted any more from a ClusterSet",
		Long:              long,
		Example:           example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringSliceVar(&o.from, "from", nil, "Contexts of the clusters that expel the cluster.")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait in each cluster until shared ClusterSet IPs are given up.")
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
	if err := execution.Run(ctx, planned.Steps); err != nil {
		return fmt.Errorf("%w\ncompleted steps are not rolled back: run expel again to complete the others", err)
	}
	fmt.Fprintf(o.Streams.Out, "Cluster %q was expelled from %s.\n", id, strings.Join(o.from, ", "))
	return nil
}
