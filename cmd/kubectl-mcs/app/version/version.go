// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version implements `kubectl mcs version`.
package version

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const long = `Show the version of kubectl mcs, of mcs-apiserver in clusters, and of their members.

Each cluster is asked for its own version, and for those that its members reported to
it. The version of a member is "unknown" until the member was reached, and if it runs a
release that does not report its version.

If a cluster cannot be queried, the command prints the reason and the versions of the
other clusters, and exits with an error.`

const example = `  # Show the versions in the ClusterSet of the current context
  kubectl mcs version

  # Show the versions that several clusters see
  kubectl mcs version east west

  # Show the version of kubectl mcs
  kubectl mcs version --client`

// NewCommand returns the command version.
func NewCommand(f *cluster.Factory) *cobra.Command {
	var out printer.Output
	var clientOnly bool
	cmd := &cobra.Command{
		Use:               "version [CONTEXT...]",
		Short:             "Show the versions of kubectl mcs, mcs-apiserver and its members",
		Long:              long,
		Example:           example,
		ValidArgsFunction: f.CompleteContexts,
		RunE: func(cmd *cobra.Command, contexts []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			if clientOnly && len(contexts) > 0 {
				return errors.New("--client takes no contexts")
			}
			r := report{ClientVersion: componentversion.Get().GitVersion}
			var unanswered error
			if !clientOnly {
				r.Clusters, unanswered = cluster.Query(cmd.Context(), f, contexts, getVersions, failedVersions)
			}
			if err := out.Print(f.Streams.Out, r, r.write); err != nil {
				return err
			}
			return unanswered
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "If true, shows the version of kubectl mcs only and contacts no cluster.")
	out.AddTo(cmd)
	return cmd
}

// getVersions queries one cluster.
func getVersions(ctx context.Context, c *cluster.Cluster) (clusterVersions, error) {
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return clusterVersions{}, err
	}
	return newClusterVersions(c.Context, members.Items), nil
}

// failedVersions describes a cluster that could not be queried.
func failedVersions(context string, err error) clusterVersions {
	return clusterVersions{Context: context, Error: err.Error()}
}
