// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

const exportLong = `Export a Service of the current context's cluster to its ClusterSet: create the
ServiceExport of the same name. The Service can then be reached from every cluster
that has the namespace, as SERVICE.NAMESPACE.svc.clusterset.local. Exporting a Service
that is exported already changes nothing.

Services of type ExternalName cannot be exported, nor those that stand for an import.
If other clusters export the service differently, the server warns of it at once.`

const exportExample = `  # Export the Service web of the namespace shop
  kubectl mcs export web -n shop

  # The same, and wait until the other clusters can see it
  kubectl mcs export web -n shop --wait --timeout 1m`

// exporting is what the user asked for.
type exporting struct {
	printer.Output
	streams genericiooptions.IOStreams
	wait    bool
	timeout time.Duration
}

// NewCommand returns the command.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &exporting{streams: f.Streams}
	cmd := &cobra.Command{
		Use:               "export SERVICE",
		Short:             "Export a Service to the ClusterSet",
		Long:              exportLong,
		Example:           exportExample,
		Args:              cluster.SingleServiceArg,
		ValidArgsFunction: f.CompleteName(exportable),
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
	o.AddTo(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until the other clusters can see the export.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "How long to wait with --wait.")
	return cmd
}

func (o *exporting) validate() error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be more than zero", o.timeout)
	}
	return o.Output.Validate()
}

func (o *exporting) run(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	if err := checkExportable(ctx, c, namespace, name); err != nil {
		return err
	}
	serviceExport, created, err := ensureExport(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	if o.Format == "" {
		outcome := "already exported"
		if created {
			outcome = "exported"
		}
		fmt.Fprintf(o.streams.Out, "%s%s %s\n", serviceexport.Resource, name, outcome)
	}
	if joined, known := members.InClusterSet(ctx, c); known && !joined {
		fmt.Fprintf(o.streams.ErrOut, "Warning: the cluster of context %q is in no ClusterSet, and nothing is exported until it is: %s\n", c.Context, members.JoinAdvice)
	}
	if o.wait {
		var notReady error
		if serviceExport, notReady = waitUntilReady(ctx, c, serviceExport, o.timeout); notReady != nil {
			return notReady
		}
	}
	return o.Print(o.streams.Out, presentable(serviceExport), func(out io.Writer) error {
		if o.wait {
			fmt.Fprintf(out, "%s%s ready\n", serviceexport.Resource, name)
		}
		return nil
	})
}

// checkExportable is an error if nothing would come of an export.
func checkExportable(ctx context.Context, c *cluster.Cluster, namespace, name string) error {
	service, err := c.Kubernetes.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no Service %q in namespace %q of context %q: create it first, or choose another namespace with -n; `kubectl get services -A` lists all", name, namespace, c.Context)
	case err != nil:
		return fmt.Errorf("cannot read Service %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.KubernetesUserAdvice))
	}
	if problem := export.Check(namespace, name, service); problem != nil {
		return errors.New(problem.Message)
	}
	return nil
}

// ensureExport makes a ServiceExport unless there is one, and says whether it did.
func ensureExport(ctx context.Context, c *cluster.Cluster, namespace, name string) (*multiclusterxv1beta1.ServiceExport, bool, error) {
	exports := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace)
	wanted := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	created, err := exports.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, false, fmt.Errorf("cannot export Service %q in namespace %q: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
		}
		return created, true, nil
	}
	existing, err := exports.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("cannot read ServiceExport %q in namespace %q, which exists: %w", name, namespace, c.WrapError(err, cluster.MCSUserAdvice))
	}
	if existing.DeletionTimestamp != nil {
		return nil, false, fmt.Errorf("ServiceExport %q in namespace %q is being deleted, and its finalizers %q are not done: export the Service again when it is gone",
			name, namespace, existing.Finalizers)
	}
	return existing, false, nil
}

// presentable is a ServiceExport as `kubectl get` prints it.
func presentable(serviceExport *multiclusterxv1beta1.ServiceExport) *multiclusterxv1beta1.ServiceExport {
	shown := serviceExport.DeepCopy()
	shown.SetGroupVersionKind(multiclusterxv1beta1.SchemeGroupVersion.WithKind("ServiceExport"))
	shown.ManagedFields = nil
	return shown
}

// exportable are the names of the Services that could be exported and are not.
func exportable(ctx context.Context, c *cluster.Cluster, namespace string) ([]string, error) {
	services, err := c.Kubernetes.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	exported, err := serviceexport.Names(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	without := sets.New(exported...)
	var names []string
	for i := range services.Items {
		if service := &services.Items[i]; offer(service) && !without.Has(service.Name) {
			names = append(names, service.Name)
		}
	}
	return names, nil
}

func offer(service *corev1.Service) bool {
	return export.Check(service.Namespace, service.Name, service) == nil
}
