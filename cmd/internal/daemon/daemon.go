// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package daemon implements what the commands of the servers share: flags in sections,
// logging, --version, and graceful termination on a signal.
package daemon

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"   // build information
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // metrics of queues
	"k8s.io/component-base/term"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
)

func init() {
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
}

// NewCommand returns a command that takes flags and no arguments, and runs until it
// returns or is terminated by a signal.
func NewCommand(name, long string, sections cliflag.NamedFlagSets, logOptions *logs.Options, run func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:          name,
		Long:         long,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Lookup("version").Value.String() == string(verflag.VersionTrue) {
				fmt.Fprintln(cmd.OutOrStdout(), name, version.Get()) // verflag would print Kubernetes
				return nil
			}
			verflag.PrintAndExitIfRequested()
			if err := logsapi.ValidateAndApply(logOptions, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			ctx := genericapiserver.SetupSignalContext()
			klog.FromContext(ctx).Info("Starting "+name, "version", version.Get().GitVersion)
			return run(ctx)
		},
	}
	logsapi.AddFlags(logOptions, sections.FlagSet("logs"))
	verflag.AddFlags(sections.FlagSet("global"))
	globalflag.AddGlobalFlags(sections.FlagSet("global"), name)
	for _, section := range sections.Order { // of two flags of the same name, the first counts
		cmd.Flags().AddFlagSet(sections.FlagSets[section])
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sections, columns)
	return cmd
}
