// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

type leaveOptions struct {
	*cluster.Factory
	output printer.Output
	from   []string
	dryRun bool
}

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &leaveOptions{Factory: f}
	cmd := &cobra.Command{
		Use:   "leave CONTEXT [--from CONTEXT,...]",
		Short: "Make a cluster leave its ClusterSet",
		Long: `Make a cluster leave its ClusterSet.

What it exports is withdrawn in all clusters, and what it imports in itself. Then
the Secrets and accounts by which it and its members knew each other are deleted:
in the cluster itself, and in those that --from names. ServiceExports stay, and
count again when the cluster joins again, under whatever id.

It can be repeated, if a step fails. It takes the rights of a cluster-admin in all
clusters.`,
		Example: `  # north leaves the ClusterSet that it is in with east and west
  kubectl mcs leave north --from east,west`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name the one context whose cluster is to leave, and the others with --from; %d are named", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f.CompleteContexts(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringSliceVar(&o.from, "from", nil, "Contexts of the other clusters, in which nothing of the cluster should stay.")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Only show what would be done.")
	o.output.AddTo(cmd)
	if err := cmd.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.CompleteContextList(cmd, slices.Concat(args, o.from), toComplete)
	}); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (o *leaveOptions) run(ctx context.Context, leaver string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.output.Format != "" && !o.dryRun {
		return errors.New("--output is for the plan that --dry-run shows")
	}
	sites, err := membership.Observe(ctx, o.Factory, append([]string{leaver}, o.from...), nil)
	if err != nil {
		return err
	}
	clusters := membership.Observed(sites)
	planned, err := plan.Leave(clusters[0], clusters[1:])
	if err != nil {
		return err
	}
	nothing := "The cluster is in no ClusterSet, and nothing is left of one."
	if len(planned.Warnings) > 0 {
		nothing = "The cluster is in no ClusterSet, and there is nothing to be done but what the warnings say."
	}
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, nothing); done || err != nil {
		return err
	}
	if err := membership.NewExecution(sites, o.Progress).Run(ctx, planned.Steps); err != nil {
		return fmt.Errorf("%w\nwhat was done before that stays done: repeat leave for the rest", err)
	}
	// Not by its id, which may be that of another cluster too.
	fmt.Fprintf(o.Streams.Out, "The cluster of context %s is in no ClusterSet any more.\n", leaver)
	return nil
}
