// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain implements `kubectl mcs explain`.
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

const long = `Explain a service of the ClusterSet as seen by the cluster of the current context.

The output shows which clusters export the service, where their exports differ and
which values are used, the endpoints of each cluster, the DNS names of the service, and
what clients in the cluster get.

If exports differ, ports are merged, and the oldest export takes precedence for all other
properties. Endpoints are counted per IP family: a Pod with an IPv4 and an IPv6 address
counts twice. DNS names resolve if the cluster's DNS server serves clusterset.local.

Long values are truncated, except with -o json or -o yaml.`

const example = `  # Explain the service web in namespace shop
  kubectl mcs explain web -n shop

  # Explain the service as seen by another cluster
  kubectl mcs explain web -n shop --context west

  # List the properties that conflict
  kubectl mcs explain web -n shop -o json | jq '.properties[] | select(.conflict)'`

// NewCommand returns the command explain.
func NewCommand(f *cluster.Factory) *cobra.Command {
	var out printer.Output
	cmd := &cobra.Command{
		Use:               "explain SERVICE",
		Short:             "Explain a service of the ClusterSet and its conflicts",
		Long:              long,
		Example:           example,
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

// explain builds the report for a service as seen by a cluster.
func explain(ctx context.Context, c *cluster.Cluster, namespace, name string) (Explanation, error) {
	facts, err := getFacts(ctx, c, namespace, name)
	if err != nil {
		return Explanation{}, fmt.Errorf("failed to explain service %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	}
	if len(facts.Exports) == 0 {
		return Explanation{}, notExported(facts, localExports(ctx, c, namespace, name))
	}
	return New(facts), nil
}

// getFacts reads everything that the report is based on.
func getFacts(ctx context.Context, c *cluster.Cluster, namespace, name string) (Facts, error) {
	facts := Facts{Context: c.Context, Namespace: namespace, Service: name, Now: time.Now()}
	selected := metav1.ListOptions{LabelSelector: serviceexport.Selector(name)}
	exports, err := c.MCS.ClusterSetV1alpha1().ExportedServices(namespace).List(ctx, selected)
	if err != nil {
		return facts, err
	}
	slices, err := c.MCS.ClusterSetV1alpha1().ExportedEndpointSlices(namespace).List(ctx, selected)
	if err != nil {
		return facts, err
	}
	facts.Exports, facts.Slices = exports.Items, slices.Items
	// Users with access to a namespace only may not be allowed to read the members.
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		facts.Members, facts.MembersKnown = members.Items, true
	case !apierrors.IsForbidden(err):
		return facts, err
	}
	serviceImport, err := c.MCS.MulticlusterXV1beta1().ServiceImports(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		facts.ServiceImport = serviceImport
	case !cluster.IsObjectNotFound(err):
		return facts, err
	}
	object, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		facts.NamespaceObject, facts.NamespaceKnown = object, true
	case cluster.IsObjectNotFound(err):
		facts.NamespaceKnown = true
	case !apierrors.IsForbidden(err) && facts.ServiceImport == nil: // otherwise, it tells only what else could be imported
		return facts, err
	}
	return facts, nil
}

// capitalized returns a text as a sentence begins.
func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// localExports lists the ServiceExports of this cluster with this name in all
// namespaces, or only in the given one if the user is not allowed to list all. It
// returns nothing if neither is allowed.
func localExports(ctx context.Context, c *cluster.Cluster, namespace, name string) []multiclusterxv1beta1.ServiceExport {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	for _, scope := range []string{metav1.NamespaceAll, namespace} {
		if exports, err := c.MCS.MulticlusterXV1beta1().ServiceExports(scope).List(ctx, options); err == nil {
			return exports.Items
		}
	}
	return nil
}

// notExported returns the error for a service without any known export.
func notExported(facts Facts, local []multiclusterxv1beta1.ServiceExport) error {
	var text strings.Builder
	fmt.Fprintf(&text, "service %q in namespace %q is not exported by any member that context %q knows", facts.Service, facts.Namespace, facts.Context)
	if id, clusterSet := members.Identity(facts.Members); facts.MembersKnown && (id == "" || clusterSet == "") {
		fmt.Fprintf(&text, "\n  The cluster is not in a ClusterSet: %s.", members.JoinAdvice)
	}
	if limit := importLimit(facts); limit != nil {
		fmt.Fprintf(&text, "\n  %s.", capitalized(limit.Message))
	}
	here := false
	for i := range local {
		export := &local[i]
		if export.Name != facts.Service {
			continue
		}
		here = here || export.Namespace == facts.Namespace
		state := "ready"
		if !meta.IsStatusConditionTrue(export.Status.Conditions, multicluster.ServiceExportReady) {
			state = "not ready: " + serviceexport.NotReadyReason(export)
		}
		fmt.Fprintf(&text, "\n  ServiceExport %q in namespace %q of this cluster is %s", export.Name, export.Namespace, state)
	}
	if !here {
		fmt.Fprintf(&text, "\n  Export the Service with `kubectl mcs export %s -n %s` in a cluster that has it.", facts.Service, facts.Namespace)
	}
	return fmt.Errorf("%s", text.String())
}

// importedNames lists the ServiceImports of a namespace.
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
