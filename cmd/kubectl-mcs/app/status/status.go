// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status implements `kubectl mcs status`.
package status

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
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
other clusters, and exits with an error.`

const example = `  # Show the status of the cluster of the current context
  kubectl mcs status

  # Show the status of several clusters
  kubectl mcs status east west

  # List lost members
  kubectl mcs status east west -o json | jq '.[].members[]? | select(.state == "Lost")'`

// NewCommand returns the command status.
func NewCommand(f *cluster.Factory) *cobra.Command {
	var out printer.Output
	cmd := &cobra.Command{
		Use:               "status [CONTEXT...]",
		Short:             "Show the members of a ClusterSet and their problems",
		Long:              long,
		Example:           example,
		ValidArgsFunction: f.CompleteContexts,
		RunE: func(cmd *cobra.Command, contexts []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			reports, unanswered := cluster.Query(cmd.Context(), f, contexts, getStatus, failedStatus)
			if reports == nil {
				return unanswered
			}
			if err := out.Print(f.Streams.Out, reports, func(w io.Writer) error { return writeStatus(w, reports, time.Now()) }); err != nil {
				return err
			}
			return unanswered
		},
	}
	out.AddTo(cmd)
	return cmd
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
