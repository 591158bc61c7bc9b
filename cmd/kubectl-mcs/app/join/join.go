// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

type joinOptions struct {
	*cluster.Factory
	output     printer.Output
	clusterSet string
	ids        map[string]string
	servers    map[string]string
	dryRun     bool
	force      bool
	timeout    time.Duration
}

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &joinOptions{Factory: f}
	cmd := &cobra.Command{
		Use:   "join --clusterset NAME CONTEXT CONTEXT...",
		Short: "Make clusters members of each other",
		Long: `Make every named cluster a member of every other.

In each cluster, every other one gets a service account that may read what is
exported and nothing else, and a short-lived token of it goes into a Secret of the
cluster that reads. mcs-controller exchanges the token at once, and renews it by
the account's own right from then on. Then the clusters claim the ClusterSet.

What is to be done is shown first. What is done already is left out, so that join
can be repeated, or repeated with one cluster more.

If a step fails, everything that was done is undone, but for the id of a cluster
that had none: an id cannot be removed. At last join waits for the clusters to be in
touch. If they are not in time, nothing is undone: they have joined.

It takes the rights of a cluster-admin in all clusters.`,
		Example: `  # Show what would be done
  kubectl mcs join --clusterset production east west --dry-run

  # Join, with an id for a cluster that has only the default one
  kubectl mcs join --clusterset production east west --id east=east --id west=west

  # The server of the context is not where other clusters reach it
  kubectl mcs join --clusterset production east west --server east=https://10.0.0.1:6443`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("name at least two contexts: `kubectl config get-contexts` lists those that there are")
			}
			return nil
		},
		ValidArgsFunction: f.CompleteContexts,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.clusterSet, "clusterset", "", "Name of the ClusterSet, the same for all its members. Required.")
	flags.StringToStringVar(&o.ids, "id", nil, "Id for the cluster of a context, as CONTEXT=ID. Unless it is given, a cluster keeps the id that it has.")
	flags.StringToStringVar(&o.servers, "server", nil, "Where other clusters reach the kube-apiserver of a context, as CONTEXT=URL, if not where the kubeconfig does.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Only show what would be done.")
	flags.BoolVar(&o.force, "ignore-unreachable-members", false, "Join although not every member can be asked whether an id is taken.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "How long to wait for the clusters to be in touch.")
	o.output.AddTo(cmd)
	if err := cmd.MarkFlagRequired("clusterset"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (o *joinOptions) run(ctx context.Context, contexts []string) error {
	if err := o.validate(contexts); err != nil {
		return err
	}
	sites, err := membership.Observe(ctx, o.Factory, contexts, o.servers)
	if err != nil {
		return err
	}
	planned, err := plan.Join(o.clusterSet, membership.Observed(sites), o.ids)
	if err != nil {
		return fmt.Errorf("the clusters cannot be joined, and nothing was changed:\n%w", err)
	}
	if done, err := membership.PrintPlan(o.Factory, planned, o.output, o.dryRun, fmt.Sprintf("All of them are in the ClusterSet %q already.", o.clusterSet)); done || err != nil {
		return err
	}
	execution := membership.NewExecution(sites, o.Progress)
	execution.Timeout, execution.Force = o.timeout, o.force
	waits := slices.IndexFunc(planned.Steps, func(step plan.Step) bool { return step.Action == plan.Await })
	if err := execution.Run(ctx, planned.Steps[:waits]); err != nil {
		return execution.TakeBack(ctx, err)
	}
	if err := execution.Run(ctx, planned.Steps[waits:]); err != nil {
		return fmt.Errorf("the clusters have joined, and nothing is undone, but: %w\n`kubectl mcs status` tells how they are; if one cannot be reached where its kubeconfig says, repeat join with --server", err)
	}
	fmt.Fprintf(o.Streams.Out, "%d clusters are members of each other in the ClusterSet %q.\n", len(sites), o.clusterSet)
	return nil
}

func (o *joinOptions) validate(contexts []string) error {
	errs := []error{o.output.Validate(), checkContexts("--id", o.ids, contexts), checkContexts("--server", o.servers, contexts)}
	if o.output.Format != "" && !o.dryRun {
		errs = append(errs, errors.New("--output is for the plan that --dry-run shows"))
	}
	if o.clusterSet == "" {
		errs = append(errs, errors.New("--clusterset must not be empty"))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: must be more than zero", o.timeout))
	}
	for i, context := range contexts {
		if slices.Contains(contexts[:i], context) {
			errs = append(errs, fmt.Errorf("context %s is named twice", context))
		}
	}
	return errors.Join(errs...)
}

// checkContexts finds values for contexts that are not named.
func checkContexts(flag string, values map[string]string, contexts []string) error {
	var errs []error
	for context, value := range values {
		if !slices.Contains(contexts, context) {
			errs = append(errs, fmt.Errorf("%s %s=%s: the context is not among those that are named", flag, context, value))
		}
	}
	return errors.Join(errs...)
}
