// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
)

const unexportLong = `Stop exporting a Service of the current context's cluster: delete the ServiceExport of
the same name. The Service itself stays. Where other clusters export the service too,
it can still be reached, at their endpoints; otherwise it goes away in every cluster.`

const unexportExample = `  # Stop exporting the Service web of the namespace shop
  kubectl mcs unexport web -n shop

  # The same, whether it is exported or not
  kubectl mcs unexport web -n shop --ignore-not-found`

// unexporting is what the user asked for.
type unexporting struct {
	streams        genericiooptions.IOStreams
	ignoreNotFound bool
}

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &unexporting{streams: f.Streams}
	cmd := &cobra.Command{
		Use:               "unexport SERVICE",
		Short:             "Stop exporting a Service to the ClusterSet",
		Long:              unexportLong,
		Example:           unexportExample,
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
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "Succeed if the Service is not exported.")
	return cmd
}

func (o *unexporting) run(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	err := exports.Delete(ctx, name, metav1.DeleteOptions{})
	switch {
	case cluster.IsObjectNotFound(err) && o.ignoreNotFound:
		fmt.Fprintf(o.streams.Out, "%s%s not found\n", serviceexport.Resource, name)
	case cluster.IsObjectNotFound(err):
		return fmt.Errorf("there is no ServiceExport %q in namespace %q of context %q: choose another namespace with -n; `kubectl get serviceexports -A` lists all",
			name, namespace, c.Context)
	case err != nil:
		return fmt.Errorf("cannot delete ServiceExport %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	default:
		fmt.Fprintf(o.streams.Out, "%s%s unexported\n", serviceexport.Resource, name)
	}
	remains, err := whatRemains(ctx, c, namespace, name)
	if err != nil { // what was asked for is done
		fmt.Fprintf(o.streams.ErrOut, "Warning: cannot tell which clusters still export it: %v\n", c.WrapError(err, cluster.MCSUserAdvice))
		return nil
	}
	fmt.Fprintln(o.streams.Out, remains)
	return nil
}

// whatRemains says what becomes of the import.
func whatRemains(ctx context.Context, c *cluster.Cluster, namespace, name string) (string, error) {
	exported, err := c.MCS.ClusterSetV1alpha1().ExportedServices(namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceexport.Selector(name)})
	if err != nil {
		return "", err
	}
	var others []string
	for i := range exported.Items {
		// This cluster's own export may be shown for a moment yet. It came no way.
		if spec := &exported.Items[i].Spec; len(spec.Path) > 0 {
			others = append(others, spec.Cluster)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		return fmt.Sprintf("still exported by %s: the service stays, with their endpoints", strings.Join(others, ", ")), nil
	}
	if joined, known := members.InClusterSet(ctx, c); known && !joined {
		return "the cluster is in no ClusterSet: no other cluster had seen it", nil
	}
	return "no other cluster exports it: the import goes away in every cluster", nil
}
