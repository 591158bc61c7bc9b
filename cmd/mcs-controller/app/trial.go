// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

const trialLong = `Serve and call the throw-away service of "kubectl mcs test", which runs these commands in
Pods of its own. They use no API and need no permissions.`

const trialCallLong = `Look up names with the DNS servers of this Pod, and send requests to servers of
"mcs-controller trial serve" over TCP and UDP. Each result is a line of JSON. The last
line is {"done":true}.`

// newTrialCommand returns the command trial.
func newTrialCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "trial", Short: "Serve and call the service of kubectl mcs test", Long: trialLong, Args: cobra.NoArgs, SilenceUsage: true}
	cmd.AddCommand(newTrialServeCommand(), newTrialCallCommand())
	for _, each := range append(cmd.Commands(), cmd) {
		// The functions of the parent print its own flags.
		var plain cobra.Command
		each.SetUsageFunc(plain.UsageFunc())
		each.SetHelpFunc(plain.HelpFunc())
	}
	return cmd
}

func newTrialServeCommand() *cobra.Command {
	var identity podtrial.Identity
	var key string
	var port int
	cmd := &cobra.Command{
		Use:          "serve",
		Short:        "Answer requests over TCP and UDP with the ID of the cluster",
		Long:         "Answer requests of \"mcs-controller trial call\" over TCP and UDP with the ID of the\ncluster and the name of the Pod, until the command is interrupted.",
		Example:      "  mcs-controller trial serve --key=x7k2f --cluster=east",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			var err error
			if identity.Pod, err = os.Hostname(); err != nil {
				return err
			}
			if err := podtrial.Serve(ctx, net.JoinHostPort("", strconv.Itoa(port)), key, identity); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, podtrial.KeyFlag, "", "The key of the run. Requests that are not signed with it are not answered.")
	cmd.Flags().StringVar(&identity.Cluster, podtrial.ClusterFlag, "", "The ID of this cluster.")
	cmd.Flags().IntVar(&port, podtrial.PortFlag, podtrial.Port, "The port, for TCP and UDP.")
	return cmd
}

func newTrialCallCommand() *cobra.Command {
	var encoded string
	cmd := &cobra.Command{
		Use:   "call",
		Short: "Look up names and send requests over TCP and UDP",
		Long:  trialCallLong,
		Example: `  mcs-controller trial call --plan='{"key":"x7k2f","patience":10000000000,"timeout":3000000000,
    "targets":[{"network":"TCP","address":"10.2.0.1:8080","requests":5}]}'`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var plan podtrial.Plan
			if err := json.Unmarshal([]byte(encoded), &plan); err != nil {
				return fmt.Errorf("--%s: %w", podtrial.PlanFlag, err)
			}
			return podtrial.NewClient().Run(cmd.Context(), plan, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&encoded, podtrial.PlanFlag, "", "What to try, as JSON. Durations are in nanoseconds.")
	return cmd
}
