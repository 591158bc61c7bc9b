// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

const (
	kubernetes   = "kubernetes"
	multicluster = "multicluster"
)

// Uses reports whether a server block has a directive.
func (c *Corefile) Uses(directive string) bool {
	return slices.ContainsFunc(c.Servers, func(s Server) bool { return len(s.Named(directive)) > 0 })
}

// MultiCluster returns the server block that serves a zone from ServiceImports on one of
// the ports, or on any if none is given, or nil.
func (c *Corefile) MultiCluster(zone string, ports ...string) *Server {
	return c.find(ports, func(s *Server) bool { return s.multiCluster(zone) != nil })
}

// ForZone returns the server block whose keys have a zone, or nil.
func (c *Corefile) ForZone(zone string, ports ...string) *Server {
	return c.find(ports, func(s *Server) bool {
		return slices.ContainsFunc(s.Keys, func(key string) bool { return sameZone(splitKey(key).zone, zone) })
	})
}

// Cluster returns the server block that serves the Services of the cluster, or nil.
func (c *Corefile) Cluster(ports ...string) *Server {
	return c.find(ports, func(s *Server) bool {
		return slices.ContainsFunc(s.Named(kubernetes), func(d Directive) bool {
			return len(d.Args) == 0 || slices.ContainsFunc(d.Args, func(zone string) bool { return d.multiCluster(zone) == nil })
		})
	})
}

// ManagedServer returns the server block that Add has added to one of the files, or nil.
func (c *Corefile) ManagedServer() *Server {
	return c.find(nil, func(s *Server) bool { return s.Managed })
}

// Doubt says why it is not certain which zones have a server block, or nothing.
func (c *Corefile) Doubt() string {
	for _, i := range c.Imports {
		if !i.Read {
			return fmt.Sprintf("%s imports %q, which this command cannot read", i.At, i.Pattern)
		}
	}
	for i := range c.Servers {
		for _, key := range c.Servers[i].Keys {
			if hasVariable(key) {
				return fmt.Sprintf("the zone %q in %s depends on an environment variable", key, c.Servers[i].At)
			}
		}
	}
	return ""
}

// Named returns the directives with a name.
func (s *Server) Named(name string) []Directive {
	var found []Directive
	for _, d := range s.Directives {
		if d.Name == name {
			found = append(found, d)
		}
	}
	return found
}

// Removal says which lines to remove so that a server block does not serve a zone from
// ServiceImports. The rest of a server block that also serves other zones stays.
func (s *Server) Removal(zone string) string {
	if !slices.ContainsFunc(s.Keys, func(key string) bool { return !sameZone(splitKey(key).zone, zone) }) {
		return fmt.Sprintf("remove the server block %q, which begins in %s and ends in line %d", strings.Join(s.Keys, " "), s.At, s.End)
	}
	text := fmt.Sprintf("keep the server block %q in %s, because it serves other names too", strings.Join(s.Keys, " "), s.At)
	d := s.multiCluster(zone)
	if d == nil {
		return text
	}
	if !slices.ContainsFunc(d.Args, func(other string) bool { return !sameZone(other, zone) }) && len(d.Args) > 0 {
		return text + fmt.Sprintf(", and remove only its plugin kubernetes in %s", d.At)
	}
	return text + fmt.Sprintf("; in its plugin kubernetes, remove %s from %q in %s, and from the zones in %s", zone, multicluster, d.multiCluster(zone).At, d.At)
}

// find returns the first server block that matches and answers on one of the ports.
func (c *Corefile) find(ports []string, matches func(*Server) bool) *Server {
	for i := range c.Servers {
		s := &c.Servers[i]
		onPort := len(ports) == 0 || slices.ContainsFunc(s.Ports, func(port string) bool { return slices.Contains(ports, port) })
		if onPort && matches(s) {
			return s
		}
	}
	return nil
}

// multiCluster returns the directive that serves a zone from ServiceImports, or nil.
func (s *Server) multiCluster(zone string) *Directive {
	for i := range s.Directives {
		if d := &s.Directives[i]; d.Name == kubernetes && d.multiCluster(zone) != nil {
			return d
		}
	}
	return nil
}

// multiCluster returns the option with which a directive serves a zone from
// ServiceImports, or nil.
func (d *Directive) multiCluster(zone string) *Option {
	for i, option := range d.Options {
		if option.Words[0] == multicluster && slices.ContainsFunc(option.Words[1:], func(other string) bool { return sameZone(other, zone) }) {
			return &d.Options[i]
		}
	}
	return nil
}

// key is the key of a server block.
type key struct{ protocol, zone, port string }

func splitKey(text string) key {
	k := key{protocol: "dns", zone: text}
	if protocol, rest, ok := strings.Cut(text, "://"); ok {
		k.protocol, k.zone = protocol, rest
	}
	if zone, port, err := net.SplitHostPort(k.zone); err == nil {
		k.zone, k.port = zone, port
	}
	return k
}

// portsOf returns the ports on which a server block with keys answers DNS queries.
func portsOf(keys []string, defaultPort string) []string {
	var ports []string
	for _, key := range keys {
		k := splitKey(key)
		if k.protocol != "dns" {
			continue
		}
		if k.port == "" {
			k.port = defaultPort
		}
		if !slices.Contains(ports, k.port) {
			ports = append(ports, k.port)
		}
	}
	return ports
}

func sameZone(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
