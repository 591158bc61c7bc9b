// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

const probeLong = `Look up a name with the DNS servers of this Pod, and connect to addresses by TCP, without
sending anything. Each result is a line of JSON. The last line is {"done":true}.

"kubectl mcs doctor" runs this command in a Pod of the namespace of a service. It uses no
API and needs no permissions.`

const probeExample = `  # Look up a name, and connect to the IP of a service and to an endpoint
  mcs-controller probe --name=web.shop.svc.clusterset.local --service-address=10.0.0.7:80 --address=10.2.0.1:8080`

// newProbeCommand returns the command probe.
func newProbeCommand() *cobra.Command {
	request := podprobe.Request{}
	cmd := &cobra.Command{
		Use:          "probe",
		Short:        "Look up a name and connect to addresses from this Pod",
		Long:         probeLong,
		Example:      probeExample,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request.Timeout <= 0 {
				return fmt.Errorf("--%s %s: must be positive", podprobe.TimeoutFlag, request.Timeout)
			}
			return podprobe.New().Run(cmd.Context(), request, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Name, podprobe.NameFlag, "", "The name to look up, without search domains.")
	flags.StringSliceVar(&request.ServiceAddresses, podprobe.ServiceAddressFlag, nil, fmt.Sprintf("Addresses of a service with ports, to which it connects %d times, because each connection may lead to another endpoint.", podprobe.Attempts))
	flags.StringSliceVar(&request.Addresses, podprobe.AddressFlag, nil, "Addresses of endpoints with ports to connect to, like 10.2.0.1:8080 or [fd00::1]:8080.")
	flags.DurationVar(&request.Timeout, podprobe.TimeoutFlag, 3*time.Second, "The length of time that each attempt may take.")
	// The functions of the parent print its own flags.
	var plain cobra.Command
	cmd.SetUsageFunc(plain.UsageFunc())
	cmd.SetHelpFunc(plain.HelpFunc())
	return cmd
}
