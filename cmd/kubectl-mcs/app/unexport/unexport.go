// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unexport implements `kubectl mcs unexport`.
package unexport

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
)

const long = `Stop exporting a Service to the ClusterSet.

The command deletes the ServiceExport with the name of the Service in the cluster of the
current context. The Service itself is kept. If other clusters export the service, it
remains available with their endpoints. Otherwise, it is withdrawn from all clusters.`

const example = `  # Stop exporting the Service web in namespace shop
  kubectl mcs unexport web -n shop

  # Succeed even if the Service is not exported
  kubectl mcs unexport web -n shop --ignore-not-found`

type options struct {
	streams        genericiooptions.IOStreams
	ignoreNotFound bool
}

// NewCommand returns the command unexport.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:               "unexport SERVICE",
		Short:             "Stop exporting a Service to the ClusterSet",
		Long:              long,
		Example:           example,
		Args:              cluster.SingleServiceArg,
		ValidArgsFunction: f.CompleteName(serviceexport.Names),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := f.Current()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), c, namespace, args[0])
		},
	}
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "If true, succeed even if the Service is not exported.")
	return cmd
}

func (o *options) run(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	err := exports.Delete(ctx, name, metav1.DeleteOptions{})
	switch {
	case cluster.IsObjectNotFound(err) && o.ignoreNotFound:
		fmt.Fprintf(o.streams.Out, "%s%s not found\n", serviceexport.Resource, name)
	case cluster.IsObjectNotFound(err):
		return fmt.Errorf("ServiceExport %q does not exist in namespace %q of context %q: choose another namespace with -n; `kubectl get serviceexports -A` lists all ServiceExports",
			name, namespace, c.Context)
	case err != nil:
		return fmt.Errorf("failed to delete ServiceExport %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	default:
		fmt.Fprintf(o.streams.Out, "%s%s unexported\n", serviceexport.Resource, name)
	}
	outcome, err := describeImport(ctx, c, namespace, name)
	if err != nil { // the ServiceExport is deleted
		fmt.Fprintf(o.streams.ErrOut, "Warning: failed to list the clusters that still export the service: %v\n", c.WrapError(err, cluster.MCSUserAdvice))
		return nil
	}
	fmt.Fprintln(o.streams.Out, outcome)
	return nil
}

// describeImport describes what happens to the import.
func describeImport(ctx context.Context, c *cluster.Cluster, namespace, name string) (string, error) {
	exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceexport.Selector(name)})
	if err != nil {
		return "", err
	}
	var others []string
	for i := range exported.Items {
		// The export of this cluster, which has no path, may still be listed.
		if spec := &exported.Items[i].Spec; len(spec.Path) > 0 {
			others = append(others, spec.Cluster)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		return fmt.Sprintf("Service %q is still exported by %s and remains available.", name, printer.Escape(strings.Join(others, ", "))), nil
	}
	if inClusterSet, known := members.InClusterSet(ctx, c); known && !inClusterSet {
		return fmt.Sprintf("Cluster of context %q is not in a ClusterSet, so Service %q was not visible in any other cluster.", c.Context, name), nil
	}
	return fmt.Sprintf("Service %q is not exported by any other cluster and is withdrawn from all clusters.", name), nil
}
