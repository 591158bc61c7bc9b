// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status implements `kubectl mcs status`.
package status

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

// defaultTimeout limits how long the command waits for a cluster, unless the user
// sets a timeout: an unresponsive cluster must not block the others.
const defaultTimeout = 10 * time.Second

const long = `Show the members of a ClusterSet, whether they are reachable, and what they export.

Each cluster is asked for its own view, so that the status of several clusters shows
where they disagree.

STATE is one of:
  Local        the cluster that was asked
  Connecting   the member has not been reached yet
  Connected    the member is reachable
  Stale        the member has not responded for a while
  Lost         the member has not responded for longer than its TTL
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
			timeout, err := f.RequestTimeout(defaultTimeout)
			if err != nil {
				return err
			}
			if len(contexts) == 0 {
				current, err := f.CurrentContext()
				if err != nil {
					return err
				}
				contexts = []string{current}
			}
			reports := getStatuses(cmd.Context(), f, contexts, timeout)
			if err := out.Print(f.Streams.Out, reports, func(w io.Writer) error { return writeStatus(w, reports, time.Now()) }); err != nil {
				return err
			}
			return failedClusters(reports)
		},
	}
	out.AddTo(cmd)
	return cmd
}

// getStatuses queries all clusters in parallel and returns their reports in the
// order of the contexts.
func getStatuses(ctx context.Context, f *cluster.Factory, contexts []string, timeout time.Duration) []clusterStatus {
	reports := make([]clusterStatus, len(contexts))
	var group sync.WaitGroup
	for i, name := range contexts {
		c, err := f.ForContext(name)
		if err != nil {
			reports[i] = clusterStatus{Context: name, Error: err.Error()}
			continue
		}
		group.Go(func() {
			ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
			defer cancel()
			reports[i] = getStatus(ctx, c)
		})
	}
	group.Wait()
	return reports
}

// getStatus queries one cluster.
func getStatus(ctx context.Context, c *cluster.Cluster) clusterStatus {
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return clusterStatus{Context: c.Context, Error: cluster.Diagnose(c.Context, err, cluster.MCSUserAdvice).Error()}
	}
	exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return clusterStatus{Context: c.Context, Error: cluster.Diagnose(c.Context, err, cluster.MCSUserAdvice).Error()}
	}
	return newClusterStatus(c.Context, members.Items, exported.Items)
}

// failedClusters returns an error that names the clusters that could not be
// queried. The reasons are in the reports.
func failedClusters(reports []clusterStatus) error {
	var failed []string
	for _, report := range reports {
		if report.Error != "" {
			failed = append(failed, report.Context)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d clusters could not be queried: %s", len(failed), len(reports), strings.Join(failed, ", "))
}
