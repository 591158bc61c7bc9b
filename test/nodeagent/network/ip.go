// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peerFile is the name under which ip sees the first file that is passed to it.
const peerFile = "/proc/self/fd/3"

// runIP runs ip commands in the network namespace of this thread. Files are passed from
// descriptor 3 on.
func runIP(ctx context.Context, commands []string, files ...*os.File) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	cmd.ExtraFiles = files
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip of iproute2: %w: %s\nin these commands:\n  %s", err, output, strings.Join(commands, "\n  "))
	}
	return nil
}

// linkAlias returns the alias of an interface, which tells what created it.
func linkAlias(ctx context.Context, name string) (string, error) {
	output, err := exec.CommandContext(ctx, "ip", "-json", "link", "show", "dev", name).Output()
	if err != nil {
		return "", fmt.Errorf("ip link show dev %s: %w", name, err)
	}
	var links []struct {
		Alias string `json:"ifalias"`
	}
	if err := json.Unmarshal(output, &links); err != nil || len(links) != 1 {
		return "", fmt.Errorf("ip link show dev %s: unexpected output %q", name, output)
	}
	return links[0].Alias, nil
}

// bridgeCommands return commands that set the addresses of a bridge; they are idempotent. A
// bridge without a fixed hardware address takes that of one of its ports, and changes it with
// the ports, while Pods still send to the former address.
func bridgeCommands(bridge *net.Interface, gateways []netip.Prefix) []string {
	commands := []string{fmt.Sprintf("link set dev %s address %s up", bridge.Name, bridge.HardwareAddr)}
	for _, gateway := range gateways {
		command := fmt.Sprintf("address replace %s dev %s", gateway, bridge.Name)
		if gateway.Addr().Is6() {
			command += " nodad"
		}
		commands = append(commands, command)
	}
	// Pods of an earlier agent may have had the same addresses.
	return append(commands, "neighbor flush dev "+bridge.Name)
}

// attachCommands returns commands that create a pair of interfaces: one at the bridge, and
// eth0 in the namespace of a Pod, which is passed as a file.
func attachCommands(bridge, link string) []string {
	return []string{
		fmt.Sprintf("link add dev %s type veth peer name %s netns %s", link, podInterface, peerFile),
		fmt.Sprintf("link set dev %s master %s up", link, bridge),
	}
}

// podCommands returns commands that set up the namespace of a Pod. Its addresses are single
// hosts, so that traffic between Pods passes through the node, where kube-proxy translates the
// addresses of Services in both directions.
func podCommands(addresses, gateways []netip.Addr) []string {
	commands := []string{"link set dev lo up", "link set dev " + podInterface + " up"}
	for i, address := range addresses {
		gateway := gateways[i]
		if address.Is6() {
			commands = append(commands,
				fmt.Sprintf("address add %s/128 dev %s nodad", address, podInterface),
				fmt.Sprintf("route add %s/128 dev %s", gateway, podInterface),
				fmt.Sprintf("route add ::/0 via %s dev %s", gateway, podInterface))
			continue
		}
		commands = append(commands,
			fmt.Sprintf("address add %s/32 dev %s", address, podInterface),
			fmt.Sprintf("route add %s/32 dev %s scope link", gateway, podInterface),
			fmt.Sprintf("route add default via %s dev %s", gateway, podInterface))
	}
	return commands
}

// setSysctls sets kernel parameters in the network namespace of this thread.
func setSysctls(values [][2]string) error {
	for _, value := range values {
		path := filepath.Join("/proc/sys/net", value[0])
		if err := os.WriteFile(path, []byte(value[1]), 0); err != nil {
			return fmt.Errorf("set kernel parameter %s to %s: %w", path, value[1], err)
		}
	}
	return nil
}

// routeOnly ensures that packets between Pods are routed. Otherwise Linux may apply the rules of
// kube-proxy on the bridge itself, which does not send a packet back to the Pod that it came
// from, as a Service may require.
func routeOnly() error {
	for _, name := range []string{"bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"} {
		err := setSysctls([][2]string{{name, "0"}})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // then Linux routes these packets anyway
			return err
		}
	}
	return nil
}

// nodeSysctls enable forwarding between Pods and other networks, and disable redirects that
// would bypass kube-proxy.
func nodeSysctls(bridge string, ipv6 bool) [][2]string {
	values := [][2]string{
		{"ipv4/ip_forward", "1"},
		{"ipv4/conf/all/send_redirects", "0"},
		{"ipv4/conf/" + bridge + "/send_redirects", "0"},
	}
	if ipv6 {
		values = append(values,
			[2]string{"ipv6/conf/all/forwarding", "1"},
			[2]string{"ipv6/conf/" + bridge + "/disable_ipv6", "0"},
			// Before duplicate address detection of its link-local address has completed, Linux
			// does not resolve neighbors.
			[2]string{"ipv6/conf/" + bridge + "/accept_dad", "0"})
	}
	return values
}

// podSysctls are the settings of common container runtimes, without duplicate address detection
// for IPv6.
func podSysctls(ipv6 bool) [][2]string {
	values := [][2]string{
		{"ipv4/ip_unprivileged_port_start", "0"},
		{"ipv4/ping_group_range", "0 2147483647"},
		{"ipv4/conf/all/accept_redirects", "0"},
		{"ipv4/conf/" + podInterface + "/accept_redirects", "0"},
	}
	if ipv6 {
		values = append(values,
			[2]string{"ipv6/conf/lo/disable_ipv6", "0"},
			[2]string{"ipv6/conf/" + podInterface + "/disable_ipv6", "0"},
			[2]string{"ipv6/conf/" + podInterface + "/accept_dad", "0"},
			[2]string{"ipv6/conf/" + podInterface + "/accept_ra", "0"},
			[2]string{"ipv6/conf/" + podInterface + "/accept_redirects", "0"})
	}
	return values
}
