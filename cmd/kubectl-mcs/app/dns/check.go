// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/podresolver"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

const checkLong = `Check that CoreDNS serves the names of the ClusterSet.

The command checks the Corefile, the version and the permissions of CoreDNS. It asks each
of its Pods through the Kubernetes API for the version of the DNS specification, for a
name that does not exist, and for the name of a ServiceImport, if there is one.`

const checkExample = `  # Check DNS of the ClusterSet in the cluster of context east
  kubectl mcs dns check --context east`

// Finding is the result of one check.
type Finding struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	// Remedy says what to do about a problem.
	Remedy string `json:"remedy,omitempty"`

	// err is set if a request failed.
	err error
	// unserved is true if a Pod does not serve the zone.
	unserved bool
	// unasked is true if Pods could not be asked, or not those that will serve in a moment.
	unasked bool
}

// Unknown reports whether a request failed or nobody could be asked, so that nothing is known about DNS.
func (f Finding) Unknown() bool { return f.err != nil || f.unasked }

func (f Finding) String() string {
	if f.Remedy == "" {
		return f.Message
	}
	return f.Message + ": " + f.Remedy
}

func newCheckCommand(f *cluster.Factory) *cobra.Command {
	cmd, o := newSubcommand(f, &cobra.Command{
		Use: "check", Short: "Check that CoreDNS serves the names of the ClusterSet", Long: checkLong, Example: checkExample,
	}, (*options).check)
	o.output.AddTo(cmd)
	return cmd
}

func (o *options) check(ctx context.Context, c *cluster.Cluster) error {
	findings, err := o.findings(ctx, c)
	if err != nil {
		return err
	}
	if err := o.output.Print(o.Streams.Out, map[string]any{"context": c.Context, "checks": findings}, func(out io.Writer) error {
		for _, f := range findings {
			mark := "✓"
			if !f.OK {
				mark = "✗"
			}
			fmt.Fprintf(out, "%s %s\n", mark, printer.Escape(f.String()))
		}
		return nil
	}); err != nil {
		return err
	}
	failed := 0
	for _, f := range findings {
		if !f.OK {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("DNS of the ClusterSet does not work in the cluster of context %q: %d of %d checks failed", c.Context, failed, len(findings))
	}
	return nil
}

// Check checks the DNS of a cluster like the command `kubectl mcs dns check`.
func Check(ctx context.Context, f *cluster.Factory, c *cluster.Cluster) ([]Finding, error) {
	o := &options{Factory: f, pods: &podresolver.Resolver{Config: c.Config, Client: c.Kubernetes}}
	return o.findings(ctx, c)
}

// findings checks everything. The error is for DNS that cannot be checked.
func (o *options) findings(ctx context.Context, c *cluster.Cluster) ([]Finding, error) {
	s, err := o.observe(ctx, c)
	if err != nil {
		return nil, err
	}
	if pods, err := coredns.ListPods(ctx, c.Kubernetes, s); err == nil { // askPods reports errors
		if err := o.findVersion(ctx, s, pods.Ready); err != nil {
			return nil, err
		}
	}
	pods := o.askPods(ctx, c, s)
	if !mayHaveServerBlock(s) {
		pods = slices.DeleteFunc(pods, func(f Finding) bool { return f.unserved }) // which needs no other remedy
	}
	return append(o.configuration(ctx, c, s), pods...), nil
}

// mayHaveServerBlock reports whether CoreDNS is configured to serve the zone, or nobody knows.
func mayHaveServerBlock(s *coredns.Setup) bool {
	return s.Misplaced != "" || s.Served != "" || s.Doubt != ""
}

// configuration checks what CoreDNS is configured to do.
func (o *options) configuration(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) []Finding {
	enable := fmt.Sprintf("run `%s`", o.command(c, "enable"))
	var findings []Finding
	switch err := s.CheckVersion(); {
	case err != nil:
		findings = append(findings, Finding{Message: err.Error()})
	case s.Version == nil:
		findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("CoreDNS of %s has an unknown version, with the image %q", s.Workload, s.Image)})
	default:
		findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("CoreDNS of %s is version %s", s.Workload, s.Version)})
	}
	switch {
	case s.Misplaced != "":
		findings = append(findings, Finding{Message: s.Misplaced, Remedy: fmt.Sprintf("run `%s`, and then `%s`", o.command(c, "disable"), o.command(c, "enable"))})
	case s.Served != "":
		findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("%s has a server block for %s", s.Served, coredns.Zone)})
	case s.Doubt != "": // the answers of the Pods tell
		findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("the Corefile of %s may have a server block for %s, which was not found: %s", s.Workload, coredns.Zone, s.Doubt)})
	default:
		findings = append(findings, Finding{Message: fmt.Sprintf("the Corefile of %s has no server block for %s", s.Workload, coredns.Zone), Remedy: enable})
	}
	account := fmt.Sprintf("ServiceAccount %s/%s", s.Workload.Namespace, s.Workload.ServiceAccount())
	switch allowed, err := mayRead(ctx, c, s); {
	case err != nil:
		findings = append(findings, Finding{Message: err.Error(), err: err})
	case !allowed:
		findings = append(findings, Finding{Message: account + " has no permission to list and watch ServiceImports", Remedy: enable})
	default:
		findings = append(findings, Finding{OK: true, Message: account + " may list and watch ServiceImports"})
	}
	return append(findings, nodeCaches(ctx, c)...)
}

// nodeCaches checks whether caches on the nodes ask CoreDNS for the zone.
func nodeCaches(ctx context.Context, c *cluster.Cluster) []Finding {
	caches, err := coredns.NodeCaches(ctx, c.Kubernetes)
	if err != nil {
		err = c.WrapError(err, advice)
		return []Finding{{Message: "whether there is a NodeLocal DNSCache is not known: " + err.Error(), err: err}}
	}
	var findings []Finding
	for _, cache := range caches {
		name := fmt.Sprintf("NodeLocal DNSCache (DaemonSet %s)", cache.Name)
		if cache.Forwards {
			findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("%s forwards %s", name, coredns.Zone)})
			continue
		}
		findings = append(findings, Finding{
			Message: fmt.Sprintf("%s does not forward %s to CoreDNS", name, coredns.Zone),
			Remedy:  fmt.Sprintf("add a server block for the zone to its Corefile (ConfigMap %s) that equals that of cluster.local otherwise, but without the line health, which only one server block may have", strings.Join(cache.ConfigMaps, " or ")),
		})
	}
	return findings
}

// askPods asks all Pods of CoreDNS that are ready.
func (o *options) askPods(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) []Finding {
	if s.Unasked != "" {
		return []Finding{{Message: fmt.Sprintf("Pods of %s cannot be asked through the Kubernetes API: %s", s.Workload, s.Unasked), Remedy: "resolve a name of the ClusterSet in a Pod instead", unasked: true}}
	}
	serviceImport, err := pickImport(ctx, c)
	if err != nil {
		return []Finding{{Message: err.Error(), err: err}}
	}
	pods, err := coredns.ListPods(ctx, c.Kubernetes, s)
	if err != nil {
		err = c.WrapError(err, advice)
		return []Finding{{Message: err.Error(), err: err}}
	}
	var findings []Finding
	if !pods.RolledOut {
		findings = append(findings, Finding{Message: fmt.Sprintf("%s is being rolled out", s.Workload), Remedy: "wait until all of its Pods are replaced", unasked: true})
	}
	describe := fmt.Sprintf("`kubectl --context %s describe pods -n %s` shows why", c.Context, s.Workload.Namespace)
	if len(pods.Ready) == 0 {
		findings = append(findings, Finding{Message: fmt.Sprintf("%s has no ready Pod", s.Workload), Remedy: describe})
	}
	for _, pod := range pods.NotReady {
		findings = append(findings, Finding{OK: true, Message: fmt.Sprintf("Pod %s is not ready, so that no client asks it, and was not asked", pod), Remedy: describe})
	}
	return append(findings, forEach(pods.Ready, func(pod string) Finding { return o.askPod(ctx, c, s, pod, serviceImport) })...)
}

// askPod asks one Pod for names of the ClusterSet.
func (o *options) askPod(ctx context.Context, c *cluster.Cluster, s *coredns.Setup, pod string, serviceImport *multiclusterxv1beta1.ServiceImport) Finding {
	prefix := "Pod " + pod
	logs := fmt.Sprintf("`kubectl --context %s logs -n %s %s` shows why", c.Context, s.Workload.Namespace, pod)
	ask := func(name string, kind dnsmessage.Type) (podresolver.Answer, error) {
		return o.ask(ctx, s, pod, name, kind)
	}
	failed := func(err error) Finding {
		err = c.WrapError(err, advice)
		return Finding{Message: prefix + " could not be asked: " + err.Error(), err: err}
	}
	answer, err := ask(versionName, dnsmessage.TypeTXT)
	switch {
	case err != nil:
		return failed(err)
	case !serves(answer):
		return Finding{Message: fmt.Sprintf("%s does not serve %s (%s)", prefix, coredns.Zone, codeName(answer.Code)), Remedy: "CoreDNS has not loaded the server block yet, or rejects the Corefile; " + logs, unserved: true}
	}
	if answer, err = ask("no-such-name.default.svc."+coredns.Zone, dnsmessage.TypeA); err != nil {
		return failed(err)
	} else if answer.Code != dnsmessage.RCodeNameError {
		return Finding{Message: fmt.Sprintf("%s cannot read ServiceImports (%s)", prefix, codeName(answer.Code)), Remedy: "check the permissions of CoreDNS, and that mcs-apiserver is available; " + logs}
	}
	if serviceImport == nil {
		return Finding{OK: true, Message: fmt.Sprintf("%s serves %s; no ServiceImport has an IP that it could be asked for", prefix, coredns.Zone)}
	}
	name := fmt.Sprintf("%s.%s.svc.%s", serviceImport.Name, serviceImport.Namespace, coredns.Zone)
	for _, ip := range serviceImport.Spec.IPs {
		kind := dnsmessage.TypeA
		address, err := netip.ParseAddr(ip)
		if err == nil && address.Is6() {
			kind = dnsmessage.TypeAAAA
		}
		answer, err := ask(name, kind)
		switch {
		case err != nil:
			return failed(err)
		case !slices.Contains(answer.Data, address.String()):
			return Finding{Message: fmt.Sprintf("%s answers %q for %s instead of %s", prefix, answer.Data, name, ip), Remedy: "CoreDNS does not notice changes of ServiceImports; " + logs}
		}
	}
	return Finding{OK: true, Message: fmt.Sprintf("%s serves %s: %s is %s", prefix, coredns.Zone, name, strings.Join(serviceImport.Spec.IPs, ", "))}
}

func codeName(code dnsmessage.RCode) string { return strings.TrimPrefix(code.String(), "RCode") }

// failures returns an error that names all problems. It is final if permission is missing.
func failures(findings []Finding) error {
	var errs []error
	for _, f := range findings {
		switch {
		case f.OK:
		case f.err != nil:
			errs = append(errs, final(f.err))
		default:
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// final marks an error that a retry does not solve.
func final(err error) error {
	if apierrors.IsForbidden(err) || strings.Contains(err.Error(), "is forbidden") {
		return &finalError{err}
	}
	return err
}

// pickImport returns a ServiceImport with an IP, and with a port, without which CoreDNS
// has no records, or nil if there is none.
func pickImport(ctx context.Context, c *cluster.Cluster) (*multiclusterxv1beta1.ServiceImport, error) {
	list, err := c.MCS.MulticlusterXV1beta1().ServiceImports(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ServiceImports: %w", c.WrapError(err, cluster.MCSUserAdvice))
	}
	for i := range list.Items {
		if spec := &list.Items[i].Spec; len(spec.IPs) > 0 && len(spec.Ports) > 0 {
			return &list.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}
