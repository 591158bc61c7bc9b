// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcfiles generates the files below /etc with which a container resolves names.
package etcfiles

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxHostname is the limit of Linux and the kubelet.
const maxHostname = 63

// Hostname returns the host name of a Pod.
func Hostname(pod *corev1.Pod, node string) string {
	name := pod.Name
	switch {
	case pod.Spec.HostNetwork:
		name = node
	case pod.Spec.Hostname != "":
		name = pod.Spec.Hostname
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// Hosts returns the content of /etc/hosts.
func Hosts(pod *corev1.Pod, hostname string, addresses []netip.Addr, domain string) string {
	var text strings.Builder
	text.WriteString("# Written by the test node agent.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	names := hostname
	if pod.Spec.Subdomain != "" {
		names = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", hostname, pod.Spec.Subdomain, pod.Namespace, domain, hostname)
	}
	for _, address := range addresses {
		fmt.Fprintf(&text, "%s\t%s\n", address, names)
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return text.String()
}

// DNS is the DNS configuration of a node.
type DNS struct {
	Servers []string
	Domain  string
	// Host is the content of the node's own /etc/resolv.conf.
	Host string
}

// resolver is the content of a resolv.conf.
type resolver struct {
	servers, searches, options []string
}

// Resolv returns the content of a Pod's /etc/resolv.conf.
func (d DNS) Resolv(pod *corev1.Pod) string {
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	var r resolver
	switch policy {
	case corev1.DNSDefault:
		r = parse(d.Host)
	case corev1.DNSNone:
	default:
		r = resolver{
			servers:  slices.Clone(d.Servers),
			searches: []string{pod.Namespace + ".svc." + d.Domain, "svc." + d.Domain, d.Domain},
			options:  []string{"ndots:5"},
		}
	}
	if config := pod.Spec.DNSConfig; config != nil {
		r.servers = appendNew(r.servers, config.Nameservers)
		r.searches = appendNew(r.searches, config.Searches)
		r.options = mergeOptions(r.options, config.Options)
	}
	return r.text()
}

func (r resolver) text() string {
	var text strings.Builder
	if len(r.searches) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(r.searches, " "))
	}
	for _, server := range r.servers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	if len(r.options) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(r.options, " "))
	}
	return text.String()
}

func parse(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			r.servers = append(r.servers, words[1])
		case "search": // the last one has precedence
			r.searches = words[1:]
		case "options":
			r.options = append(r.options, words[1:]...)
		}
	}
	return r
}

func appendNew(list, more []string) []string {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// mergeOptions replaces options of the same name and adds the others.
func mergeOptions(options []string, more []corev1.PodDNSConfigOption) []string {
	for _, option := range more {
		text := option.Name
		if option.Value != nil && *option.Value != "" {
			text += ":" + *option.Value
		}
		same := slices.IndexFunc(options, func(other string) bool {
			name, _, _ := strings.Cut(other, ":")
			return name == option.Name
		})
		if same >= 0 {
			options[same] = text
		} else {
			options = append(options, text)
		}
	}
	return options
}
