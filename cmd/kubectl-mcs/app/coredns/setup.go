// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coredns finds out how the DNS of a cluster is configured.
package coredns

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/corefile"
)

const (
	// Zone is the DNS zone of the ClusterSet.
	Zone = "clusterset.local"
	// Manager is the value of the label app.kubernetes.io/managed-by of objects that
	// this program creates.
	Manager = "kubectl-mcs"
	// MinVersion is the first version of CoreDNS that serves ServiceImports.
	MinVersion = "1.12.2"
	// ownKey is the name of a key, before the suffix that CoreDNS imports.
	ownKey = "mcs-apiserver"
)

// plainWord matches ports, addresses, interfaces, networks and environment variables.
var plainWord = regexp.MustCompile(`^[\w.:%{}$/*-]+$`)

// copied are the plugins of the cluster's server block that also apply to the zone:
// where it is served, to whom, in which order, and what is measured.
var copied = []string{"bind", "acl", "loadbalance", "prometheus"}

// Setup is how the DNS of a cluster is configured.
type Setup struct {
	Workload *Workload
	// Image is that of CoreDNS, and Version its version, or nil if it is unknown.
	Image   string
	Version *version.Version
	// MemoryLimit is that of the container, or nil.
	MemoryLimit *resource.Quantity
	// Port is the port of the Pods to which the Service sends queries.
	Port string
	// MetricsPort is the port of the metrics, or empty.
	MetricsPort string
	// Reloads is true if CoreDNS notices changes.
	Reloads bool
	// Served is where the zone is served from ServiceImports: a ConfigMap and its key.
	// It is empty if the zone is not served.
	Served string
	// Managed is true if it is served by the server block in Target.
	Managed bool
	// Misplaced says why clients do not reach the server block that serves the zone, or
	// nothing.
	Misplaced string
	// Removal says how to stop serving the zone by hand.
	Removal string
	// Target is what is to be changed.
	Target Target
	// Block is the server block.
	Block string
	// Owner is who restores Target, or nil.
	Owner *Owner
	// Doubt says why Target cannot be changed with certainty, or nothing.
	Doubt string
	// Unasked says why Pods cannot be asked through the Kubernetes API, or nothing.
	Unasked string
}

// Target is a key of a ConfigMap.
type Target struct {
	Namespace, Name, Key string
	// Existing is the ConfigMap, or nil if it does not exist.
	Existing *corev1.ConfigMap
}

func (t *Target) String() string {
	return fmt.Sprintf("key %s of ConfigMap %s/%s", t.Key, t.Namespace, t.Name)
}

// Text returns the text of the target, which is empty if it does not exist.
func (t *Target) Text() string {
	if t.Existing == nil {
		return ""
	}
	return t.Existing.Data[t.Key]
}

// corefilePath returns the container of CoreDNS and the path of its Corefile.
func corefilePath(w *Workload) (*corev1.Container, string, error) {
	container := w.container()
	if container == nil {
		return nil, "", &UnsupportedError{fmt.Sprintf("%s does not run CoreDNS", w)}
	}
	file := flag(container, "/Corefile", "conf")
	if !path.IsAbs(file) {
		file = path.Join("/", container.WorkingDir, file)
	}
	return container, path.Clean(file), nil
}

// configMapsOf returns the names of all ConfigMaps of a workload.
func configMapsOf(w *Workload) []string {
	var names []string
	for _, volume := range w.Template.Spec.Volumes {
		found, _ := w.configMaps(volume.Name)
		for _, c := range found {
			if !slices.Contains(names, c.name) {
				names = append(names, c.name)
			}
		}
	}
	return names
}

// UnsupportedError is the error for DNS that cannot serve ServiceImports.
type UnsupportedError struct{ reason string }

func (e *UnsupportedError) Error() string { return e.reason }

// decide returns how CoreDNS is configured by a workload and its ConfigMaps, behind a
// Service.
func decide(w *Workload, service *corev1.Service, configMaps map[string]*corev1.ConfigMap) (*Setup, error) {
	container, file, err := corefilePath(w)
	if err != nil {
		return nil, err
	}
	port, err := dnsPort(service, container)
	if err != nil {
		return nil, err
	}
	byHand := corefile.Block(Zone, []string{port}, nil)
	from := &files{w, container, configMaps}
	main, ok := from.list()[file]
	if !ok {
		return nil, fmt.Errorf("the Corefile %s of %s is not from a ConfigMap: add the server block to it where it comes from:\n%s", file, w, byHand)
	}
	target := from.target(main)
	text, ok := from.text(main)
	if !ok {
		return nil, fmt.Errorf("%s does not exist, but is the Corefile of %s: restore it", &target, w)
	}
	parsed, err := corefile.ParseFiles(corefile.File{Path: file, Text: text}, flag(container, "53", "dns.port", "p"), from.read)
	if err != nil {
		return nil, fmt.Errorf("the Corefile in %s, or a file that it imports, cannot be read: %w", &target, err)
	}
	cluster := parsed.Cluster(port)
	if cluster == nil {
		return nil, fmt.Errorf("the Corefile in %s has no server block with the plugin kubernetes for DNS on port %s, to which Service %s/%s sends queries: if it is that of the cluster DNS, add this server block by hand:\n%s", &target, port, service.Namespace, service.Name, byHand)
	}
	s := &Setup{
		Workload: w, Image: container.Image, Version: versionOf(container.Image), MemoryLimit: container.Resources.Limits.Memory(),
		Port: port, MetricsPort: metricsPort(cluster), Target: target, Doubt: parsed.Doubt(), Unasked: unasked(port, cluster),
	}
	if err := s.describe(parsed, cluster, from); err != nil {
		return nil, err
	}
	s.chooseTarget(parsed, from)
	s.Reloads = parsed.Uses("reload") && s.isUpdated(from)
	return s, s.checkTarget()
}

// describe sets the server block, and finds one that exists.
func (s *Setup) describe(parsed *corefile.Corefile, cluster *corefile.Server, from *files) error {
	var directives []corefile.Directive
	for _, name := range copied {
		directives = append(directives, cluster.Named(name)...)
	}
	for _, d := range directives {
		for _, word := range wordsOf(d) {
			if !plainWord.MatchString(word) {
				return fmt.Errorf("%q of the plugin %s in %s of %s cannot be used in another server block: write it without quotes", word, d.Name, d.At, &s.Target)
			}
		}
	}
	s.Block = corefile.Block(Zone, cluster.Ports, directives)
	if s.Doubt == "" && len(cluster.Unread) > 0 {
		s.Doubt = fmt.Sprintf("%s imports %q, which this command cannot read", cluster.Unread[0].At, cluster.Unread[0].Pattern)
	}
	server := parsed.MultiCluster(Zone, s.Port)
	if server == nil {
		// The port of the cluster DNS was another one when it was added.
		if server = parsed.ManagedServer(); server != nil {
			s.Misplaced = fmt.Sprintf("the server block in %s is for port %s, but queries are sent to port %s", server.At, strings.Join(server.Ports, " and "), s.Port)
		}
	}
	if server != nil {
		at := from.target(from.list()[server.At.File])
		s.Served, s.Managed, s.Removal = at.String(), server.Managed, server.Removal(Zone)
		return nil
	}
	if server := parsed.ForZone(Zone, cluster.Ports...); server != nil {
		at := from.target(from.list()[server.At.File])
		return fmt.Errorf("the server block %q in %s of %s does not serve ServiceImports: remove it, or change it to\n%s", strings.Join(server.Keys, " "), server.At, &at, s.Block)
	}
	return nil
}

func wordsOf(d corefile.Directive) []string {
	words := slices.Clone(d.Args)
	for _, option := range d.Options {
		words = append(words, option.Words...)
	}
	return words
}

// chooseTarget sets the target to the key that has the server block; if none has it, to
// a key of its own in a ConfigMap from which CoreDNS imports server blocks, if there is
// one.
func (s *Setup) chooseTarget(parsed *corefile.Corefile, from *files) {
	if server := parsed.ManagedServer(); server != nil {
		s.Target = from.target(from.list()[server.At.File])
	} else {
		for _, i := range parsed.Imports {
			if key, ok := from.newKey(i.At.File, i.Pattern, ownKey); ok && i.Read {
				s.Target = from.target(key)
				break
			}
		}
	}
	if s.Target.Existing != nil {
		s.Owner = ownerOf(s.Target.Existing)
	}
}

// isUpdated reports whether the file of the target follows the ConfigMap.
func (s *Setup) isUpdated(from *files) bool {
	for _, source := range from.list() {
		if source.configMap == s.Target.Name && source.key == s.Target.Key {
			return source.updated
		}
	}
	return true
}

// checkTarget returns an error for targets that nobody can change as intended.
func (s *Setup) checkTarget() error {
	if s.Owner != nil && s.Owner.unsupported {
		return &UnsupportedError{fmt.Sprintf("ConfigMap %s/%s belongs to %s, who allows no other plugins", s.Target.Namespace, s.Target.Name, s.Owner.Name)}
	}
	if existing := s.Target.Existing; s.Doubt == "" && existing != nil && existing.Immutable != nil && *existing.Immutable {
		s.Doubt = fmt.Sprintf("ConfigMap %s/%s is immutable", s.Target.Namespace, s.Target.Name)
	}
	return nil
}

// target returns a key of a ConfigMap.
func (f *files) target(s source) Target {
	return Target{Namespace: f.workload.Namespace, Name: s.configMap, Key: s.key, Existing: f.configMaps[s.configMap]}
}

// dnsPort returns the port of a container to which a Service sends DNS queries.
func dnsPort(service *corev1.Service, container *corev1.Container) (string, error) {
	for _, p := range service.Spec.Ports {
		if p.Port != 53 {
			continue
		}
		switch {
		case p.TargetPort.IntVal > 0:
			return strconv.Itoa(int(p.TargetPort.IntVal)), nil
		case p.TargetPort.StrVal == "":
			return "53", nil
		}
		for _, port := range container.Ports {
			if port.Name == p.TargetPort.StrVal {
				return strconv.Itoa(int(port.ContainerPort)), nil
			}
		}
	}
	return "", fmt.Errorf("Service %s/%s has no port 53 with a port of the container %q: choose the Service of CoreDNS with --service", service.Namespace, service.Name, container.Name) //nolint:staticcheck // the kind of an object is capitalized
}

// metricsPort returns the port of the plugin prometheus, or nothing.
func metricsPort(cluster *corefile.Server) string {
	for _, d := range cluster.Named("prometheus") {
		address := "localhost:9153"
		if len(d.Args) > 0 {
			address = d.Args[0]
		}
		port := address[strings.LastIndex(address, ":")+1:]
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return port
		}
	}
	return ""
}

// unasked says why Pods cannot be asked: what the Kubernetes API forwards arrives at
// addresses of the loopback interface.
func unasked(port string, cluster *corefile.Server) string {
	binds := cluster.Named("bind")
	if len(binds) == 0 {
		return ""
	}
	var addresses []string
	for _, d := range binds {
		addresses = append(addresses, d.Args...)
	}
	for _, address := range addresses {
		if ip, err := netip.ParseAddr(address); address == "lo" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
			return ""
		}
	}
	return fmt.Sprintf("CoreDNS listens on port %s of %s only (plugin bind in %s)", port, strings.Join(addresses, ", "), binds[0].At)
}

// Enabled returns the text of the target with the server block.
func (s *Setup) Enabled() (string, error) { return corefile.Add(s.Target.Text(), s.Block) }

// Disabled returns the text of the target without the server block.
func (s *Setup) Disabled() (string, error) {
	text, removed, err := corefile.Remove(s.Target.Text())
	if err == nil && !removed {
		err = errors.New("the server block does not exist")
	}
	return text, err
}
