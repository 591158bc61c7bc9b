// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

const explainLong = `Explain a service of the ClusterSet as the cluster of the current context sees it:
which clusters export it, where they differ and whose word counts, how many endpoints
they have, under which names DNS knows it, and what a client in this cluster gets.

Where clusters export a service differently, ports are the union of all, and
everything else is what the oldest export says. Counts of endpoints are per IP family:
a Pod with an IPv4 and an IPv6 address is two. The names are answered if the cluster's
DNS server serves clusterset.local.

Long values are shortened, unless json or yaml is asked for.`

const explainExample = `  # Explain the service web of the namespace shop
  kubectl mcs explain web -n shop

  # As another cluster sees it
  kubectl mcs explain web -n shop --context west

  # The properties that are in conflict
  kubectl mcs explain web -n shop -o json | jq '.properties[] | select(.conflict)'`

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	var out printer.Output
	cmd := &cobra.Command{
		Use:               "explain SERVICE",
		Short:             "Explain how a service of the ClusterSet came about, and what clients get",
		Long:              explainLong,
		Example:           explainExample,
		Args:              cluster.SingleServiceArg,
		ValidArgsFunction: f.CompleteName(importedNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			c, namespace, err := f.Current()
			if err != nil {
				return err
			}
			report, err := explain(cmd.Context(), c, namespace, args[0])
			if err != nil {
				return err
			}
			return out.Print(f.Streams.Out, report, func(w io.Writer) error { return writeExplanation(w, report, time.Now()) })
		},
	}
	out.AddTo(cmd)
	return cmd
}

// explain asks the cluster for all there is to know of a service.
func explain(ctx context.Context, c *cluster.Cluster, namespace, name string) (explanation, error) {
	facts, err := askFacts(ctx, c, namespace, name)
	if err != nil {
		return explanation{}, fmt.Errorf("cannot explain service %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	}
	if len(facts.exports) == 0 {
		return explanation{}, notExported(facts, localExports(ctx, c, namespace, name))
	}
	return newExplanation(facts), nil
}

func askFacts(ctx context.Context, c *cluster.Cluster, namespace, name string) (serviceFacts, error) {
	facts := serviceFacts{context: c.Context, namespace: namespace, name: name}
	selected := metav1.ListOptions{LabelSelector: serviceexport.Selector(name)}
	exports, err := c.MCS.ClusterSetV1alpha1().ExportedServices(namespace).List(ctx, selected)
	if err != nil {
		return facts, err
	}
	slices, err := c.MCS.ClusterSetV1alpha1().ExportedEndpointSlices(namespace).List(ctx, selected)
	if err != nil {
		return facts, err
	}
	facts.exports, facts.slices = exports.Items, slices.Items
	// Who may read a namespace may not always read the members.
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		facts.members, facts.membersKnown = members.Items, true
	case !apierrors.IsForbidden(err):
		return facts, err
	}
	serviceImport, err := c.MCS.MulticlusterXV1beta1().ServiceImports(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		facts.serviceImport = serviceImport
		return facts, nil
	}
	if !cluster.IsObjectNotFound(err) {
		return facts, err
	}
	host, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		facts.host, facts.hostKnown = host, true
	case cluster.IsObjectNotFound(err):
		facts.hostKnown = true
	case !apierrors.IsForbidden(err):
		return facts, err
	}
	return facts, nil
}

// localExports are the ServiceExports of a name in this cluster, in whatever
// namespace; where the user may not see them all, only in this one. They are a
// hint: what cannot be read is left out.
func localExports(ctx context.Context, c *cluster.Cluster, namespace, name string) []multiclusterxv1beta1.ServiceExport {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	for _, where := range []string{metav1.NamespaceAll, namespace} {
		if exports, err := c.MCS.MulticlusterXV1beta1().ServiceExports(where).List(ctx, options); err == nil {
			return exports.Items
		}
	}
	return nil
}

// notExported is the error for a service that nobody exports, as far as this
// cluster knows.
func notExported(facts serviceFacts, local []multiclusterxv1beta1.ServiceExport) error {
	var text strings.Builder
	fmt.Fprintf(&text, "no cluster that context %q knows of exports a service %q in namespace %q", facts.context, facts.name, facts.namespace)
	if id, clusterSet := members.Identity(facts.members); facts.membersKnown && (id == "" || clusterSet == "") {
		fmt.Fprintf(&text, "\n  The cluster is in no ClusterSet: %s.", members.JoinAdvice)
	}
	here := false
	for i := range local {
		export := &local[i]
		if export.Name != facts.name {
			continue
		}
		here = here || export.Namespace == facts.namespace
		state := "it is ready"
		if !meta.IsStatusConditionTrue(export.Status.Conditions, multicluster.ServiceExportReady) {
			state = serviceexport.NotReadyReason(export)
		}
		fmt.Fprintf(&text, "\n  This cluster has a ServiceExport %q in namespace %q: %s", export.Name, export.Namespace, printer.Printable(state))
	}
	if !here {
		fmt.Fprintf(&text, "\n  Where there is such a Service, export it with `kubectl mcs export %s -n %s`.", facts.name, facts.namespace)
	}
	return fmt.Errorf("%s", text.String())
}

// importedNames are the names of a namespace's ServiceImports.
func importedNames(ctx context.Context, c *cluster.Cluster, namespace string) ([]string, error) {
	imports, err := c.MCS.MulticlusterXV1beta1().ServiceImports(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range imports.Items {
		names = append(names, imports.Items[i].Name)
	}
	return names, nil
}
