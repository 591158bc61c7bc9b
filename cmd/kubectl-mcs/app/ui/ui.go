// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui implements `kubectl mcs ui`, a page that shows the ClusterSet.
//
// Clusters are watched (view), what changes becomes entries (board, by the functions of model.go), and
// open pages receive the entries that changed (store, server). The files of the page are in assets.
package ui

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
)

const long = `Show the ClusterSet on a page in your browser, as the cluster of the current context sees it.

The page has a graph of the clusters with their states, and a list of all services with
their exporters, importers, endpoints and conflicts. It follows all changes. For a service,
it also shows what "kubectl mcs explain" and "kubectl mcs doctor" print.

Contexts of other clusters (--contexts) add how these clusters see the others, and which
services they import.

The command watches with your own permissions, in all namespaces, or in that of
--namespace. What you may not read is listed on the page, and the rest is shown.

The page is served on the loopback interface only, until you interrupt the command. The
URL that is printed contains a token: keep it to yourself. Other users of the machine and
other pages in your browser have no access without it. Its host name is another one every
time, so that nothing that was at the same port before has access to the page in your
browser. The page loads nothing from elsewhere, and changes nothing but for the Pod of the
doctor, if you ask for it.`

const example = `  # Show the ClusterSet as the cluster of the current context sees it
  kubectl mcs ui

  # Show how three clusters see each other
  kubectl mcs ui --context east --contexts west,north

  # Show the services of a namespace, with permissions in it only
  kubectl mcs ui -n shop

  # Use the same port every time, for example to forward it over SSH
  kubectl mcs ui --port 8001`

type options struct {
	*cluster.Factory
	contexts []string
	port     int
}

// NewCommand returns the command ui.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "ui",
		Short:   "Show the ClusterSet on a page in your browser",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringSliceVar(&o.contexts, "contexts", nil, "Contexts of other clusters of the ClusterSet, whose view is shown, too.")
	cmd.Flags().IntVar(&o.port, "port", 0, "The port of the loopback interface at which the page is served. By default, a free one.")
	if err := cmd.RegisterFlagCompletionFunc("contexts", f.CompleteContextList); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if o.port < 0 || o.port > 65535 {
		return fmt.Errorf("--port %d: must be between 0 and 65535", o.port)
	}
	clusters, err := o.clusters()
	if err != nil {
		return err
	}
	namespace := ""
	if o.Changed("namespace") {
		namespace = *o.Flags.Namespace
	}
	listeners, err := listenLoopback(ctx, o.port)
	if err != nil {
		return fmt.Errorf("failed to listen on the loopback interface: choose another --port (%w)", err)
	}
	for _, listener := range listeners {
		defer listener.Close()
	}
	b := newBoard(clusters, namespace)
	s := newServer(b, func(ctx context.Context, question doctor.Question) (diagnosis.Report, error) {
		return doctor.Diagnose(ctx, o.Factory, question)
	})
	token, at := newToken(), newAddress(newHost(), portOf(listeners[0]), o.port != 0, resolvesLocalhost(ctx))
	fmt.Fprintf(o.Streams.Out, "Serving the ClusterSet, as the cluster of context %s sees it, at:\n\n%s\n", clusters[0].Context, at.text(token))
	fmt.Fprintln(o.Streams.Out, "Keep the URL to yourself: it gives access with your permissions. Interrupt the command to end it.")
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { b.run(ctx) })
	return s.serve(ctx, listeners, newGuard(token, at.origins(), s.handler()), func() {
		fmt.Fprintln(o.Streams.Out, "Waiting for diagnoses to end, and to delete their Pods.")
	})
}

// clusters returns the clusters to watch, that of the current context first.
func (o *options) clusters() ([]*cluster.Cluster, error) {
	current, err := o.CurrentContext()
	if err != nil {
		return nil, err
	}
	var clusters []*cluster.Cluster
	for _, name := range append([]string{current}, o.contexts...) {
		if slices.ContainsFunc(clusters, func(c *cluster.Cluster) bool { return c.Context == name }) {
			continue
		}
		c, err := o.ForContext(name)
		if err != nil {
			return nil, err
		}
		if c, err = watching(c); err != nil {
			return nil, fmt.Errorf("context %q: %w", name, err)
		}
		clusters = append(clusters, c)
	}
	return clusters, nil
}
