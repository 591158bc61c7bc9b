// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor implements `kubectl mcs doctor`.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
)

const long = `Find out why a service of the ClusterSet does not respond, or what is wrong with the
ClusterSet.

The command walks the path from the registration of the API, over claims, credentials,
members, clocks and versions, the exports, their endpoints and conflicts, the namespace,
the import, the derived Service, imported EndpointSlices, DNS and kube-proxy, to a lookup
and connections from a Pod. It names the first hop that is broken, and what to do. What
follows from it is marked as a consequence (↳).

Without SERVICE, everything that does not depend on a service is checked.

The view is that of the cluster of the current context. What other clusters export is
known there; contexts of these clusters (--contexts) add what only they know, such as a
Service that has no ServiceExport, and let the command compare clocks.

The command uses your own permissions. What you may not read is not checked (?). With
SERVICE, it creates a Pod in the namespace, with the image of mcs-controller, that looks
up the name of the service and connects to its IP and to some of its endpoints. The Pod
sends nothing else, has no credentials, and is deleted in any case. If it may not be
created, or with --probe=false, the rest is checked. NetworkPolicies select Pods by their
labels: --probe-labels gives the Pod those of an application.

The command exits with 0 if nothing is broken, with 1 if something is, and with 2 if it
could not find out: wrong arguments, no access to the cluster, or no permission to read
what decides.`

const example = `  # Find out why the service web in namespace shop does not respond
  kubectl mcs doctor web -n shop

  # Also ask the clusters that export it
  kubectl mcs doctor web -n shop --contexts west,north

  # Connect like the Pods of an application with the label app=shop
  kubectl mcs doctor web -n shop --probe-labels app=shop

  # Check the ClusterSet, as the cluster of context west sees it
  kubectl mcs doctor --context west

  # Print the first hop that is broken
  kubectl mcs doctor web -n shop -o json | jq .firstBroken`

// couldNotLook is the exit code of everything that keeps the doctor from finding out.
const couldNotLook = 2

type options struct {
	*cluster.Factory
	output   printer.Output
	contexts []string
	probe    bool
	// declined is why there is no Pod if probe is false, the flag if it is empty.
	declined string
	image    string
	labels   map[string]string
	timeout  time.Duration
}

// NewCommand returns the command doctor.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "doctor [SERVICE]",
		Short:   "Find out why a service of the ClusterSet does not respond",
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exitcode.Set(cluster.SingleServiceArg(cmd, args), couldNotLook)
		},
		ValidArgsFunction: f.CompleteName(importedNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			service := ""
			if len(args) > 0 {
				service = args[0]
			}
			return o.run(cmd.Context(), service)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitcode.Set(err, couldNotLook) })
	cmd.Flags().StringSliceVar(&o.contexts, "contexts", nil, "Contexts of other clusters of the ClusterSet, which are asked, too.")
	cmd.Flags().BoolVar(&o.probe, "probe", true, "If true, create a Pod that looks up the service and connects to it.")
	cmd.Flags().StringVar(&o.image, "probe-image", "", "The image of the Pod. The default is that of the installed mcs-controller.")
	cmd.Flags().StringToStringVar(&o.labels, "probe-labels", nil, "Labels of the Pod, such as app=web. With those of an application, the same NetworkPolicies apply to the Pod. It is never ready, so that Services do not lead to it.")
	cmd.Flags().DurationVar(&o.timeout, "probe-timeout", time.Minute, "The length of time to wait until the Pod has completed.")
	if err := cmd.RegisterFlagCompletionFunc("contexts", f.CompleteContextList); err != nil {
		panic(err) // the flag does not exist
	}
	o.output.AddTo(cmd)
	return cmd
}

func (o *options) run(ctx context.Context, service string) error {
	report, err := o.diagnose(ctx, service)
	if err != nil {
		return exitcode.Set(err, couldNotLook)
	}
	if err := o.output.Print(o.Streams.Out, report, func(w io.Writer) error { return writeReport(w, report) }); err != nil {
		return exitcode.Set(err, couldNotLook)
	}
	return exitcode.Set(verdict(report), report.Verdict.ExitCode())
}

// verdict returns an error unless nothing is broken.
func verdict(report diagnosis.Report) error {
	subject := "the ClusterSet"
	if report.Service != "" {
		subject = fmt.Sprintf("service %q in namespace %q", report.Service, report.Namespace)
	}
	switch found := report.FirstBroken; {
	case found != nil:
		return fmt.Errorf("%s: the first broken hop is %s: %s", subject, found.Hop, printer.Escape(short(*found)))
	case report.Verdict != diagnosis.VerdictOK:
		return fmt.Errorf("%s: nothing is known to be broken, but what decides could not be read", subject)
	}
	return nil
}

// diagnose collects the facts, and decides. The error is that nothing could be found out.
func (o *options) diagnose(ctx context.Context, service string) (diagnosis.Report, error) {
	if err := o.output.Validate(); err != nil {
		return diagnosis.Report{}, err
	}
	if o.timeout <= 0 {
		return diagnosis.Report{}, fmt.Errorf("--probe-timeout %s: must be positive", o.timeout)
	}
	if err := validateLabels(o.labels); err != nil {
		return diagnosis.Report{}, err
	}
	current, namespace, err := o.Current()
	if err != nil {
		return diagnosis.Report{}, err
	}
	return o.diagnoseIn(ctx, current, namespace, service)
}

// diagnoseIn is diagnose for a cluster and a namespace.
func (o *options) diagnoseIn(ctx context.Context, current *cluster.Cluster, namespace, service string) (diagnosis.Report, error) {
	clusters := []*cluster.Cluster{current}
	for _, name := range o.contexts {
		if slices.ContainsFunc(clusters, func(c *cluster.Cluster) bool { return c.Context == name }) {
			continue
		}
		c, err := o.ForContext(name)
		if err != nil {
			return diagnosis.Report{}, err
		}
		clusters = append(clusters, c)
	}
	facts := diagnosis.Facts{Client: componentversion.Get().GitVersion, Service: service}
	if service != "" {
		facts.Namespace = namespace
	}
	found := make([]diagnosis.Cluster, len(clusters))
	var group errgroup.Group
	for i, c := range clusters {
		group.Go(func() (err error) {
			found[i], err = observe(ctx, o.Factory, &observer{Cluster: c, namespace: facts.Namespace, service: service, podLabels: podLabels(o.labels)}, i == 0)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return diagnosis.Report{}, err
	}
	facts.Importing, facts.Others, facts.Now = found[0], found[1:], time.Now()
	if facts.Importing.Silent != "" {
		return diagnosis.Report{}, fmt.Errorf("context %q: %s", current.Context, facts.Importing.Silent)
	}
	if service != "" {
		facts.Probe = o.see(ctx, current, facts)
	}
	if ctx.Err() != nil {
		err := fmt.Errorf("interrupted: %w", ctx.Err())
		if left := facts.Probe.Leftover(); left != "" {
			err = fmt.Errorf("%w; %s: delete it with `%s`", err, left, facts.DeleteLeftover())
		}
		return diagnosis.Report{}, err
	}
	return diagnosis.Diagnose(facts), nil
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
