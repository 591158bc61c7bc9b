// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// Packets to a slow peer are routed into a TUN interface of a program, which
// delays each packet and then sends it with a mark, so that it takes the usual
// route. The kernel's netem would do the same, but not every kernel has it.
const (
	slowMark  = 0x510
	slowTable = "1296"
)

// How long the program of a slow link may take to start and to stop.
const (
	startPatience = controlplane.Patience
	stopPatience  = 20 * time.Second
)

// slowLink is one direction of the link between two nodes.
type slowLink struct{ from, to *Node }

// device returns the TUN interface for packets to the peer.
func (l slowLink) device() string { return fmt.Sprintf("slow%d", l.to.host()) }

// daemon returns the program that delays packets to the peer.
func (l slowLink) daemon(delay time.Duration) process.Daemon {
	name := fmt.Sprintf("slow-link-%s-to-%s-%s", l.from.Name(), l.to.network.Cluster, l.to.Name())
	return l.from.Daemon(process.Command{
		Name: name, Path: l.from.network.fabric.Clusterset, Log: filepath.Join(l.from.network.dir, name+".log"),
		Args: []string{"slow-link", l.device(), delay.String()},
	})
}

// delay delays every packet. A delay of 0 removes the delay.
func (l slowLink) delay(ctx context.Context, delay time.Duration) error {
	daemon := l.daemon(delay)
	if _, running := daemon.Running(); running {
		if err := daemon.Stop(ctx, stopPatience); err != nil { // removes its interface and the routes through it
			return err
		}
		if err := l.route(""); err != nil {
			return err
		}
	}
	if delay == 0 {
		return nil
	}
	if err := daemon.Start(); err != nil {
		return err
	}
	if err := daemon.Await(ctx, startPatience, func(context.Context) error {
		return l.from.run("ip", "link", "set", l.device(), "txqueuelen", "10000", "up")
	}); err != nil {
		return err
	}
	// Marked packets were delayed already: they take the usual route. They are not
	// tracked again, or the kernel would treat them as another connection.
	if err := inWithInput(l.from.namespace(), fmt.Sprintf("table inet mcs_slow\ndelete table inet mcs_slow\n"+
		"table inet mcs_slow { chain output { type filter hook output priority raw; meta mark %d notrack; }; }", slowMark), "nft", "-f", "-"); err != nil {
		return err
	}
	for _, family := range []string{"-4", "-6"} {
		rule := []string{"priority", "100", "fwmark", fmt.Sprint(slowMark), "lookup", slowTable}
		_ = l.from.run(append([]string{"ip", family, "rule", "delete"}, rule...)...) // the rule may not exist
		if err := l.from.run(append([]string{"ip", family, "rule", "add"}, rule...)...); err != nil {
			return err
		}
	}
	return l.route(l.device())
}

// route routes packets for the peer into a device, or the usual way if the
// device is empty.
func (l slowLink) route(device string) error {
	var usual, wanted [][]string
	for family, node := range l.to.IPs() {
		pods := l.to.PodCIDRs()[family]
		usual = append(usual, []string{node, "dev", "eth0"}, []string{pods, "via", node, "dev", "eth0"})
		wanted = append(wanted, []string{node, "dev", device}, []string{pods, "dev", device})
	}
	if device == "" {
		wanted = usual
	}
	// The usual route first: it cannot be added once the peer itself is behind the
	// device.
	for _, route := range usual {
		if err := l.from.run(append([]string{"ip", "route", "replace", "table", slowTable}, route...)...); err != nil {
			return err
		}
	}
	for _, route := range wanted {
		if err := l.from.run(append([]string{"ip", "route", "replace"}, route...)...); err != nil {
			return err
		}
	}
	return nil
}

// waiting is a packet and the time to send it.
type waiting struct {
	due    time.Time
	packet []byte
}

// RunSlowLink creates a TUN interface and sends the packets that it receives
// after a delay, until the context is done.
func RunSlowLink(ctx context.Context, name string, delay time.Duration) error {
	tun, err := openTun(name)
	if err != nil {
		return fmt.Errorf("create interface %s: %w", name, err)
	}
	defer closeDescriptor(tun)
	var senders [2]int
	for i, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if senders[i], err = openSender(family); err != nil {
			return fmt.Errorf("open raw socket: %w", err)
		}
		defer closeDescriptor(senders[i])
	}
	queue := make(chan waiting, 1<<16)
	failed := make(chan error, 1)
	go func() { failed <- receive(tun, delay, queue) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case next := <-queue:
			time.Sleep(time.Until(next.due))
			send(senders, next.packet)
		}
	}
}

func receive(tun int, delay time.Duration, queue chan<- waiting) error {
	buffer := make([]byte, 1<<16)
	for {
		n, err := unix.Read(tun, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return fmt.Errorf("read packet: %w", err)
		}
		select {
		case queue <- waiting{time.Now().Add(delay), append([]byte(nil), buffer[:n]...)}:
		default: // a full queue drops packets, as on a real link
		}
	}
}

// send sends a packet unchanged. A packet that cannot be sent is lost, as on any link.
func send(senders [2]int, packet []byte) {
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		address := unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}
		_ = unix.Sendto(senders[0], packet, 0, &address)
	case len(packet) >= 40 && packet[0]>>4 == 6:
		address := unix.SockaddrInet6{Addr: [net.IPv6len]byte(packet[24:40])}
		_ = unix.Sendto(senders[1], packet, 0, &address)
	}
}

func closeDescriptor(descriptor int) { _ = unix.Close(descriptor) }

func openTun(name string) (int, error) {
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, errors.Join(err, unix.Close(tun))
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, request); err != nil {
		return 0, errors.Join(err, unix.Close(tun))
	}
	return tun, nil
}

// openSender opens a raw socket for packets with headers.
func openSender(family int) (int, error) {
	socket, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MARK, slowMark); err != nil {
		return 0, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}
