// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status implements `kubectl mcs status`.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const long = `Show the members of a ClusterSet, whether they are reachable, and what they export.

Each cluster is asked for its own view, so that the status of several clusters shows
where they disagree.

STATE is one of:
  Local        the cluster that was asked
  Connecting   the member has not been reached yet
  Connected    the member is reachable
  Unavailable  the member has not responded for a while, but its Kubernetes API does
  Stale        the member has not responded for a while
  Lost         the member has not responded for longer than its TTL, and its endpoints do
               not answer either or cannot be asked
  Refused      the member is not accepted

CONFLICTS is the number of exports that conflict with exports of other clusters;
"kubectl mcs explain" shows the differences. REASON describes problems.

If a cluster cannot be queried, the command prints the reason and the status of the
other clusters, and exits with 1.

With --wait, the command waits until all clusters can be queried, are in a ClusterSet, have
each other as members, and are connected to all their members. It exits with 0 then, with 1 if
that is not so within the timeout, and with 2 if a cluster could not be queried at the end, or
for invalid arguments.

With --watch, it prints all members, and then their changes until it is interrupted. That a
member was seen again is not a change.`

const example = `  # Show the status of the cluster of the current context
  kubectl mcs status

  # Show the status of several clusters
  kubectl mcs status east west

  # Wait until all members are connected, such as after an upgrade
  kubectl mcs status east west --wait --timeout 5m

  # Print changes as they come
  kubectl mcs status east west --watch

  # List lost members
  kubectl mcs status east west -o json | jq '.[].members[]? | select(.state == "Lost")'`

// couldNotQuery is the exit code with --wait of everything that keeps the command from finding out.
const couldNotQuery = 2

type options struct {
	*cluster.Factory
	output      printer.Output
	wait, watch bool
	timeout     time.Duration
}

// NewCommand returns the command status.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:               "status [CONTEXT...]",
		Short:             "Show the members of a ClusterSet and their problems",
		Long:              long,
		Example:           example,
		ValidArgsFunction: f.CompleteContexts,
		RunE: func(cmd *cobra.Command, contexts []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			switch {
			case o.watch:
				return o.runWatch(cmd.Context(), contexts)
			case o.wait:
				return o.runWait(cmd.Context(), contexts)
			}
			return o.run(cmd.Context(), contexts)
		},
	}
	o.output.AddTo(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "If true, wait until all clusters are connected to all their members.")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "If true, print changes until the command is interrupted.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait with --wait.")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if o.wait || slices.Contains(os.Args, "--wait") { // flags after the wrong one are not parsed
			return exitcode.Set(err, couldNotQuery)
		}
		return err
	})
	return cmd
}

func (o *options) validate() error {
	err := o.output.Validate()
	if err == nil && o.wait && o.watch {
		err = errors.New("--wait and --watch exclude each other: remove one of them")
	}
	if err == nil && o.timeout <= 0 {
		err = fmt.Errorf("--timeout %s: must be greater than zero", o.timeout)
	}
	if o.wait {
		return exitcode.Set(err, couldNotQuery)
	}
	return err
}

// run prints the status once.
func (o *options) run(ctx context.Context, contexts []string) error {
	reports, unanswered := cluster.Query(ctx, o.Factory, contexts, getStatus, failedStatus)
	if reports == nil {
		return unanswered
	}
	if err := o.output.Print(o.Streams.Out, reports, func(w io.Writer) error { return writeStatus(w, reports, time.Now()) }); err != nil {
		return err
	}
	return unanswered
}

// runWait prints the status when all clusters are connected, or the time is over.
func (o *options) runWait(ctx context.Context, contexts []string) error {
	followers, err := o.followers(contexts)
	if err != nil {
		return exitcode.Set(err, couldNotQuery)
	}
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	problems, known := until(waiting, followers)
	if ctx.Err() != nil {
		return exitcode.Set(fmt.Errorf("interrupted: %w", ctx.Err()), couldNotQuery)
	}
	printed := o.run(ctx, contexts)
	switch {
	case len(problems) > 0 && !known:
		return exitcode.Set(notInTime(problems), couldNotQuery)
	case len(problems) > 0:
		return notInTime(problems)
	}
	return exitcode.Set(printed, couldNotQuery)
}

// runWatch prints changes until the context ends.
func (o *options) runWatch(ctx context.Context, contexts []string) error {
	followers, err := o.followers(contexts)
	if err != nil {
		return err
	}
	w := &watching{output: &o.output, out: o.Streams.Out, errOut: o.Streams.ErrOut}
	return w.watch(ctx, followers)
}

// followers returns what follows the clusters of contexts, by default of the current one.
func (o *options) followers(contexts []string) ([]*follower, error) {
	timeout, err := o.RequestTimeout(cluster.QueryTimeout)
	if err != nil {
		return nil, err
	}
	if len(contexts) == 0 {
		current, err := o.CurrentContext()
		if err != nil {
			return nil, err
		}
		contexts = []string{current}
	}
	var followers []*follower
	for _, name := range contexts {
		c, err := o.ForContext(name)
		if err != nil {
			return nil, err
		}
		followers = append(followers, &follower{Cluster: c, timeout: timeout})
	}
	return followers, nil
}

// getStatus queries one cluster.
func getStatus(ctx context.Context, c *cluster.Cluster) (clusterStatus, error) {
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return clusterStatus{}, err
	}
	exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return clusterStatus{}, err
	}
	return newClusterStatus(c.Context, members.Items, exported.Items), nil
}

// failedStatus is the report of a cluster that could not be queried.
func failedStatus(context string, err error) clusterStatus {
	return clusterStatus{Context: context, Error: err.Error()}
}
