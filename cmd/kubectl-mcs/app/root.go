// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the command kubectl-mcs: one file per subcommand.
package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

const long = `kubectl mcs joins clusters to a ClusterSet, exports Services to it, and tells how
both are doing. The clusters are contexts of your kubeconfig, and run mcs-apiserver.

kubectl completes what belongs to it, such as contexts and Services, when
kubectl_complete-mcs is on the PATH beside kubectl-mcs.`

// Main runs the command until it is done or interrupted, and returns its exit code.
func Main(streams genericiooptions.IOStreams, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	// What libraries log is for those who run servers: what matters is in errors.
	klog.SetLogger(logr.Discard())
	cmd := NewCommand(streams)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(streams.ErrOut, "error:", err)
		return 1
	}
	return 0
}

// NewCommand returns the command with all its subcommands.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	f := &factory{flags: configFlags(), streams: streams, progress: newProgress(streams.Out)}
	f.warnings = rest.NewWarningWriter(f.progress.beside(streams.ErrOut), rest.WarningWriterOptions{Deduplicate: true})
	cmd := &cobra.Command{
		Use:           "mcs",
		Short:         "Join clusters to a ClusterSet and export Services to it",
		Long:          long,
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true, // Main prints them
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mcs"},
		// A shell completes kubectl, and never asks a plugin for a script.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	f.flags.AddFlags(cmd.PersistentFlags())
	f.given = cmd.PersistentFlags().Changed
	for flag, complete := range map[string]cobra.CompletionFunc{"context": f.completeContexts, "namespace": f.completeNamespaces} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // there is no such flag
		}
	}
	cmd.AddCommand(
		newJoinCommand(f),
		newLeaveCommand(f),
		newStatusCommand(f),
		newExportCommand(f),
		newUnexportCommand(f),
		newExplainCommand(f),
	)
	return cmd
}

// configFlags are those of kubectl that make sense when a command is about
// several clusters: not those that say how to reach or enter one.
func configFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(false)
	return &genericclioptions.ConfigFlags{
		KubeConfig: flags.KubeConfig, Context: flags.Context, Namespace: flags.Namespace, Timeout: flags.Timeout,
		Impersonate: flags.Impersonate, ImpersonateUID: flags.ImpersonateUID, ImpersonateGroup: flags.ImpersonateGroup,
	}
}
