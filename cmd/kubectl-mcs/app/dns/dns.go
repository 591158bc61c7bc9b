// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dns implements `kubectl mcs dns`.
package dns

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/podresolver"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const long = `Serve the names of the ClusterSet in the DNS of a cluster.

CoreDNS serves clusterset.local from ServiceImports if its Corefile has a server block
for the zone, and if it has permission to read ServiceImports. It must be CoreDNS ` + coredns.MinVersion + `
or later.

The commands use the cluster of the current context, or of --context.`

const (
	// observeTimeout limits how long the observation may take, unless the user sets a
	// timeout.
	observeTimeout = 30 * time.Second
	// defaultTimeout is longer than a kubelet and CoreDNS take to notice a change of
	// a ConfigMap.
	defaultTimeout = 3 * time.Minute
	// documentation is for administrators of DNS that cannot be changed.
	documentation = "docs/clustersets.md#dns"
)

var advice = cluster.Advice{
	Forbidden:   "the permissions that `kubectl mcs dns` requires are listed in " + documentation,
	ServerError: cluster.KubernetesAdminAdvice.ServerError,
}

type options struct {
	*cluster.Factory
	service        string
	coreDNSVersion string
	dryRun, yes    bool
	timeout        time.Duration
	output         printer.Output
	// pods replaces requests through the Kubernetes API in tests.
	pods podClient
}

// NewCommand returns the command dns.
func NewCommand(f *cluster.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Serve the names of the ClusterSet in the DNS of a cluster",
		Long:  long,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEnableCommand(f), newDisableCommand(f), newCheckCommand(f))
	return cmd
}

// newSubcommand returns a command that is run for the cluster of the current context.
func newSubcommand(f *cluster.Factory, cmd *cobra.Command, run func(*options, context.Context, *cluster.Cluster) error) (*cobra.Command, *options) {
	o := &options{Factory: f}
	cmd.Args = cobra.NoArgs
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		c, _, err := f.Current()
		if err != nil {
			return err
		}
		if o.pods == nil {
			o.pods = &podresolver.Resolver{Config: c.Config, Client: c.Kubernetes}
		}
		return run(o, cmd.Context(), c)
	}
	cmd.Flags().StringVar(&o.service, "service", "", "The Service of CoreDNS as NAMESPACE/NAME, if it is not that of the cluster DNS.")
	return cmd, o
}

// addChangeFlags adds the flags of commands that change a cluster.
func (o *options) addChangeFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the plan, without changing anything.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "If true, do not ask for confirmation.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", defaultTimeout, "The length of time to wait until CoreDNS uses the change.")
}

var namespacedName = regexp.MustCompile(`^[^/]+/[^/]+$`)

func (o *options) validate() error {
	if o.service != "" && !namespacedName.MatchString(o.service) {
		return fmt.Errorf("--service %q: must be NAMESPACE/NAME", o.service)
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %s: must not be negative", o.timeout)
	}
	return o.output.Validate()
}

// command returns a command line for the same DNS as that of this one.
func (o *options) command(c *cluster.Cluster, verb string) string {
	text := fmt.Sprintf("kubectl mcs dns %s --context %s", verb, c.Context)
	if o.service != "" {
		text += " --service " + o.service
	}
	return text
}

// observe returns how the DNS of a cluster is configured.
func (o *options) observe(ctx context.Context, c *cluster.Cluster) (*coredns.Setup, error) {
	ctx, cancel, err := o.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if err != nil {
		return nil, err
	}
	setup, err := coredns.Observe(ctx, c.Kubernetes, o.service)
	var unsupported *coredns.UnsupportedError
	if errors.As(err, &unsupported) {
		return nil, fmt.Errorf("context %q: %w: install CoreDNS and let the cluster DNS forward %s to it, as described in %s, then choose its Service with --service", c.Context, err, coredns.Zone, documentation)
	}
	if err != nil {
		return nil, c.WrapError(err, advice)
	}
	return setup, nil
}
