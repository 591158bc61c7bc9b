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
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/export"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/join"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/leave"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/status"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/unexport"
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
	f := cluster.NewFactory(streams)
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
	f.Flags.AddFlags(cmd.PersistentFlags())
	f.Given = cmd.PersistentFlags().Changed
	for flag, complete := range map[string]cobra.CompletionFunc{"context": f.CompleteContexts, "namespace": f.CompleteNamespaces} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // there is no such flag
		}
	}
	cmd.AddCommand(
		join.NewCommand(f),
		leave.NewCommand(f),
		status.NewCommand(f),
		export.NewCommand(f),
		unexport.NewCommand(f),
		explain.NewCommand(f),
	)
	return cmd
}
