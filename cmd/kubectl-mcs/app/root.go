// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the command kubectl-mcs. Each subcommand has a package of its own.
package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/accept"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attach"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/detach"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/dns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/doctor"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expel"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/export"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/gather"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/invite"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/join"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/leave"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/migrate"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/status"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/trial"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/ui"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/unexport"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/version"
)

const long = `Join clusters to a ClusterSet, export Services to it, and inspect both.

Clusters are referred to by the contexts of your kubeconfig. All of them must run
mcs-apiserver.

If a service does not respond, "kubectl mcs doctor SERVICE" finds out why. "kubectl mcs
test" tests whether all clusters reach each other.

For shell completion, kubectl_complete-mcs must be on the PATH next to kubectl-mcs.`

// Main runs the command until it completes or is interrupted, and returns its exit
// code.
func Main(streams genericiooptions.IOStreams, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)         // a second interrupt ends the process
	if !signal.Ignored(syscall.SIGHUP) { // it is with nohup
		// A terminal that is closed may send it several times: then what was created is still deleted.
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-hangups:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	// Libraries log for operators of servers. Commands report errors themselves.
	klog.SetLogger(logr.Discard())
	cmd := NewCommand(streams)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(printer.NewWriter(streams.ErrOut), "error:", err)
		return exitcode.Of(err)
	}
	return 0
}

// NewCommand returns the command with all its subcommands.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	f := cluster.NewFactory(streams)
	cmd := &cobra.Command{
		Use:           "mcs",
		Short:         "Join clusters to a ClusterSet and export Services to it",
		Long:          long,
		Version:       componentversion.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true, // Main prints errors
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mcs"},
		// Shells complete kubectl and never use the completion script of a plugin.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	f.Flags.AddFlags(cmd.PersistentFlags())
	f.Changed = cmd.PersistentFlags().Changed
	for flag, complete := range map[string]cobra.CompletionFunc{"context": f.CompleteContexts, "namespace": f.CompleteNamespaces} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag does not exist
		}
	}
	cmd.AddCommand(
		withoutNamespace(f, join.NewCommand(f)),
		invite.NewCommand(f),
		withoutNamespace(f, accept.NewCommand(f)),
		withoutNamespace(f, leave.NewCommand(f)),
		withoutNamespace(f, expel.NewCommand(f)),
		status.NewCommand(f),
		export.NewCommand(f),
		unexport.NewCommand(f),
		explain.NewCommand(f),
		doctor.NewCommand(f),
		trial.NewCommand(f),
		withoutNamespace(f, gather.NewCommand(f)),
		ui.NewCommand(f),
		withoutNamespace(f, detach.NewCommand(f)),
		withoutNamespace(f, attach.NewCommand(f)),
		withoutNamespace(f, dns.NewCommand(f)),
		withoutNamespace(f, migrate.NewCommand(f)),
		version.NewCommand(f),
	)
	return cmd
}

// withoutNamespace makes a command that changes clusters, and its subcommands, refuse a namespace,
// which would have no effect: the command finds the namespaces that it changes.
func withoutNamespace(f *cluster.Factory, cmd *cobra.Command) *cobra.Command {
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if f.Changed("namespace") {
			return fmt.Errorf("--namespace has no effect on %s, which finds where mcs-apiserver or CoreDNS is installed: remove it", cmd.CommandPath())
		}
		return nil
	}
	return cmd
}
