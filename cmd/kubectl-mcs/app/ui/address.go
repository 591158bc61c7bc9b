// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// resolveTimeout limits how long it may take to find out whether a name resolves.
const resolveTimeout = 2 * time.Second

// address is where a page is served.
type address struct {
	// hosts are those of its URLs, the best one first.
	hosts []string
	port  int
	// note is what the user should know about them.
	note string
}

// newHost returns a host name that no page had before: what an earlier page at the same port left behind
// in the browser, such as a service worker, is of another origin.
func newHost() string { return strings.ToLower(rand.Text()) + ".localhost" }

// newAddress returns the address of a page with a new host name. Some browsers resolve names below
// localhost themselves; if the machine does not, they are the only ones. Others use the IP, but only at a
// port that nobody could choose: another program may have been at one that is always the same.
func newAddress(host string, port int, fixed, resolves bool) address {
	found := address{hosts: []string{host}, port: port}
	switch {
	case resolves:
	case fixed:
		found.note = "Names below localhost do not resolve on this machine. Chromium and Firefox open the URL nevertheless.\n" +
			"For another browser, leave --port out: the URL then also exists with an IP."
	default:
		found.hosts = append(found.hosts, "127.0.0.1")
		found.note = "Names below localhost do not resolve on this machine. Chromium and Firefox open the first URL\n" +
			"nevertheless; use the second one only for another browser."
	}
	return found
}

// origins returns the hosts with their port, as browsers write them.
func (a address) origins() []string {
	var origins []string
	for _, host := range a.hosts {
		if a.port != 80 { // browsers leave it out
			host = net.JoinHostPort(host, strconv.Itoa(a.port))
		}
		origins = append(origins, host)
	}
	return origins
}

// text returns what is printed about the address.
func (a address) text(token string) string {
	var text strings.Builder
	for _, origin := range a.origins() {
		fmt.Fprintf(&text, "  http://%s/#token=%s\n", origin, token)
	}
	if a.note != "" {
		text.WriteString("\n" + a.note + "\n")
	}
	return text.String()
}

// resolvesLocalhost reports whether names below localhost are this machine. The name that is looked up is
// not that of the page, because it may be sent to a DNS server.
func resolvesLocalhost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", newHost())
	return err == nil && allLoopback(ips)
}

func allLoopback(ips []netip.Addr) bool {
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return len(ips) > 0
}
