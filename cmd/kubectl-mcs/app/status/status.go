// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

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

// statusTimeout is how long a cluster may take to answer, unless the user says
// otherwise: one that does not answer must not keep the others from being shown.
const statusTimeout = 10 * time.Second

const statusLong = `Show what clusters know of their ClusterSet: its members, how they can be reached,
and what they export. Each cluster is asked for its own view, so that asking all of
them also shows where they disagree.

STATE is Local for the cluster that is asked, Connecting until a member has been
reached, Connected, Stale when it has been silent for a while, Lost when it has been
silent for longer than its TTL, and Refused when it is kept out. CONFLICTS counts the
services of a member that not all clusters export alike; "kubectl mcs explain" tells
what is different. REASON is what is wrong.

A cluster that cannot be asked is said to be so. The others are shown all the same,
and the exit code is not zero.`

const statusExample = `  # The cluster of the current context
  kubectl mcs status

  # Several clusters, and what each knows of the others
  kubectl mcs status east west

  # Members that somebody cannot reach
  kubectl mcs status east west -o json | jq '.[].members[]? | select(.state == "Lost")'`

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	var out printer.Output
	cmd := &cobra.Command{
		Use:               "status [CONTEXT...]",
		Short:             "Show the members of the ClusterSet, and what is wrong with them",
		Long:              statusLong,
		Example:           statusExample,
		ValidArgsFunction: f.CompleteContexts,
		RunE: func(cmd *cobra.Command, contexts []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			timeout, err := f.RequestTimeout(statusTimeout)
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
			reports := askStatuses(cmd.Context(), f, contexts, timeout)
			if err := out.Print(f.Streams.Out, reports, func(w io.Writer) error { return writeStatus(w, reports, time.Now()) }); err != nil {
				return err
			}
			return unasked(reports)
		},
	}
	out.AddTo(cmd)
	return cmd
}

// askStatuses asks all clusters at once. The reports are in the order of the contexts.
func askStatuses(ctx context.Context, f *cluster.Factory, contexts []string, timeout time.Duration) []clusterStatus {
	reports := make([]clusterStatus, len(contexts))
	var asking sync.WaitGroup
	for i, name := range contexts {
		c, err := f.ForContext(name)
		if err != nil {
			reports[i] = clusterStatus{Context: name, Error: err.Error()}
			continue
		}
		asking.Go(func() {
			ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
			defer cancel()
			reports[i] = askStatus(ctx, c)
		})
	}
	asking.Wait()
	return reports
}

// askStatus asks one cluster.
func askStatus(ctx context.Context, c *cluster.Cluster) clusterStatus {
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

// unasked is an error if there are clusters that could not be asked. What is
// wrong with them has been printed.
func unasked(reports []clusterStatus) error {
	var failed []string
	for _, report := range reports {
		if report.Error != "" {
			failed = append(failed, report.Context)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d clusters could not be asked: %s", len(failed), len(reports), strings.Join(failed, ", "))
}
