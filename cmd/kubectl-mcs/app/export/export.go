// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export implements `kubectl mcs export`.
package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

const long = `Export a Service to the ClusterSet.

The command creates a ServiceExport with the name of the Service in the cluster of the
current context. By default, every cluster of the ClusterSet that has the namespace
imports the Service as SERVICE.NAMESPACE.svc.clusterset.local. With --to, only the listed
clusters do. If the Service is already exported, --to replaces its list, --to-all removes
it, and nothing else changes.

Services of type ExternalName and derived Services cannot be exported. The server
warns about conflicts with the exports of other clusters.`

const example = `  # Export the Service web in namespace shop
  kubectl mcs export web -n shop

  # Export the Service to two clusters only
  kubectl mcs export web -n shop --to west,north

  # Export the Service to all clusters that have this ClusterProperty
  kubectl mcs export web -n shop --to region.example.com=eu

  # Export the Service and wait until the other clusters can see it
  kubectl mcs export web -n shop --wait --timeout 1m`

type options struct {
	output  printer.Output
	streams genericiooptions.IOStreams
	to      []string
	toAll   bool
	wait    bool
	timeout time.Duration
	// schema returns the OpenAPI document of the API that clusters read from each other.
	schema func(context.Context, *cluster.Cluster) ([]byte, error)
}

// NewCommand returns the command export.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{streams: f.Streams, schema: readSchema}
	cmd := &cobra.Command{
		Use:               "export SERVICE",
		Short:             "Export a Service to the ClusterSet",
		Long:              long,
		Example:           example,
		Args:              cluster.SingleServiceArg,
		ValidArgsFunction: f.CompleteName(exportableNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			c, namespace, err := f.Current()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), c, namespace, args[0])
		},
	}
	o.output.AddTo(cmd)
	cmd.Flags().StringSliceVar(&o.to, "to", nil, "Comma-separated clusters that the Service is exported to: cluster IDs, or NAME=VALUE for clusters with this ClusterProperty. If not set, a new export is for all clusters, and the list of an existing one is kept.")
	cmd.Flags().BoolVar(&o.toAll, "to-all", false, "If true, export the Service to all clusters, also if an existing export lists some.")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "If true, wait until the clusters that it is for can see the export.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "The length of time to wait with --wait.")
	if err := cmd.RegisterFlagCompletionFunc("to", f.CompleteList(members.PeerIDs)); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func (o *options) validate() error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be greater than zero", o.timeout)
	}
	if o.to != nil && o.toAll {
		return errors.New("--to and --to-all cannot be combined: list clusters, or export to all")
	}
	if _, _, errs := clusterlist.Parse(o.annotations(), multicluster.ExportToAnnotation); len(errs) > 0 {
		return fmt.Errorf("invalid value %q for --to: %s", strings.Join(o.to, ","), clusterlist.Describe(errs))
	}
	return o.output.Validate()
}

// annotations returns those of the ServiceExport.
func (o *options) annotations() map[string]string {
	if o.to == nil {
		return nil
	}
	return map[string]string{multicluster.ExportToAnnotation: strings.Join(o.to, ",")}
}

func (o *options) run(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	if err := checkExportable(ctx, c, namespace, name); err != nil {
		return err
	}
	if o.to != nil {
		if err := o.checkSupported(ctx, c); err != nil {
			return err
		}
	}
	serviceExport, changed, outcome, err := o.ensureExport(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	if o.output.Format == "" {
		fmt.Fprintf(o.streams.Out, "%s%s %s\n", serviceexport.Resource, name, outcome)
	}
	if inClusterSet, known := members.InClusterSet(ctx, c); known && !inClusterSet {
		fmt.Fprintf(o.streams.ErrOut, "Warning: cluster of context %q is not in a ClusterSet, so the Service is not exported yet: %s\n", c.Context, members.JoinAdvice)
	}
	if o.wait {
		var notReady error
		if serviceExport, notReady = waitUntilReady(ctx, c, serviceExport, changed, o.timeout, o.report); notReady != nil {
			return notReady
		}
	}
	return o.output.Print(o.streams.Out, forOutput(serviceExport), func(out io.Writer) error {
		if o.wait {
			fmt.Fprintf(out, "%s%s ready\n", serviceexport.Resource, name)
		}
		return nil
	})
}

// report says what keeps an export from becoming ready while it is waited for.
func (o *options) report(message string) {
	fmt.Fprintf(o.streams.ErrOut, "Not ready yet: %s\n", message)
}

// checkExportable returns an error for a Service that cannot be exported.
func checkExportable(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	service, err := c.Kubernetes.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("failed to export Service %q: not found in namespace %q of context %q: create it first, or choose another namespace with -n; `kubectl get services -A` lists all Services", name, namespace, c.Context)
	case err != nil:
		return fmt.Errorf("failed to get Service %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.KubernetesUserAdvice))
	}
	if problem := export.Check(namespace, name, service); problem != nil {
		return errors.New(problem.Message)
	}
	return nil
}

// ensureExport creates a ServiceExport unless it exists, and changes the clusters that it is for if
// some are given. It returns whether it changed an existing one, and what it did.
func (o *options) ensureExport(ctx context.Context, c *cluster.Cluster, namespace, name string) (serviceExport *multiclusterxv1beta1.ServiceExport, changed bool, outcome string, err error) {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	wanted := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: o.annotations()}}
	created, err := exports.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, false, "", fmt.Errorf("failed to create ServiceExport %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
		}
		return created, false, "exported" + to(created), nil
	}
	existing, err := exports.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, "", fmt.Errorf("failed to get ServiceExport %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	}
	if existing.DeletionTimestamp != nil {
		return nil, false, "", fmt.Errorf("ServiceExport %q in namespace %q is being deleted and waits for its finalizers %q: export the Service again when it is deleted",
			name, namespace, existing.Finalizers)
	}
	if to(existing) == to(wanted) || o.to == nil && !o.toAll {
		return existing, false, "already exported" + to(existing), nil
	}
	annotations := map[string]any{multicluster.ExportToAnnotation: nil}
	for name, value := range wanted.Annotations {
		annotations[name] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return nil, false, "", err
	}
	patched, err := exports.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, false, "", fmt.Errorf("failed to change ServiceExport %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	}
	if patched.Annotations[multicluster.ExportToAnnotation] == "" {
		return patched, true, "exported to all clusters", nil
	}
	return patched, true, "exported" + to(patched), nil
}

// to returns which clusters a ServiceExport lists, always in the same order; empty if it is for all.
func to(serviceExport *multiclusterxv1beta1.ServiceExport) string {
	text, given := serviceExport.Annotations[multicluster.ExportToAnnotation]
	if !given {
		return ""
	}
	var terms []string
	for term := range strings.SplitSeq(text, ",") {
		terms = append(terms, strings.TrimSpace(term))
	}
	slices.Sort(terms)
	return " to " + strings.Join(terms, ",") + " only"
}

// forOutput returns a ServiceExport as `kubectl get` prints it.
func forOutput(serviceExport *multiclusterxv1beta1.ServiceExport) *multiclusterxv1beta1.ServiceExport {
	shown := serviceExport.DeepCopy()
	shown.SetGroupVersionKind(multiclusterxv1beta1.SchemeGroupVersion.WithKind("ServiceExport"))
	shown.ManagedFields = nil
	return shown
}

// exportableNames lists the Services that can be exported and are not exported yet.
func exportableNames(ctx context.Context, c *cluster.Cluster, namespace string) ([]string, error) {
	services, err := c.Kubernetes.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	exported, err := serviceexport.Names(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	existing := sets.New(exported...)
	var names []string
	for i := range services.Items {
		if service := &services.Items[i]; isExportable(service) && !existing.Has(service.Name) {
			names = append(names, service.Name)
		}
	}
	return names, nil
}

func isExportable(service *corev1.Service) bool {
	return export.Check(service.Namespace, service.Name, service) == nil
}
