// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis decides from facts why a service of the ClusterSet does not respond, or
// what is wrong with the ClusterSet. It neither reads nor writes anything.
//
// The path from the API of mcs-apiserver to a connection has hops. Everything that is wrong is
// reported at its hop. What is explained by something wrong at an earlier hop is marked as a
// consequence of it.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Hop is a part of the path.
type Hop string

// Hops of the ClusterSet.
const (
	Registration Hop = "registration"
	Server       Hop = "server"
	API          Hop = "api"
	Controller   Hop = "controller"
	Identity     Hop = "identity"
	Credentials  Hop = "credentials"
	Members      Hop = "members"
	Clocks       Hop = "clocks"
	Versions     Hop = "versions"
)

// Hops of a service.
const (
	Export    Hop = "export"
	Endpoints Hop = "endpoints"
	Conflicts Hop = "conflicts"
	Namespace Hop = "namespace"
	Import    Hop = "import"
	Derived   Hop = "service"
	Slices    Hop = "slices"
)

// Hops of traffic. DNS and Proxy are also those of the ClusterSet.
const (
	DNS     Hop = "dns"
	Proxy   Hop = "proxy"
	Lookups Hop = "lookup"
	Pods    Hop = "pods"
	Connect Hop = "connection"
)

// Hops are all hops, in the order of the path.
var Hops = []Hop{
	Registration, Server, API, Controller, Identity, Credentials, Members, Clocks, Versions,
	Export, Endpoints, Conflicts, Namespace, Import, Derived, Slices, DNS, Proxy, Lookups, Pods, Connect,
}

// causes are the hops at which a problem explains a problem at another one.
var causes = map[Hop][]Hop{
	Server:     {Registration},
	API:        {Registration, Server},
	Controller: {Registration, Server},
	Identity:   {Registration, Server, API},
	Members:    {Registration, Server, API, Identity, Credentials},
	Export:     {Registration, Server, API, Identity, Credentials, Members},
	Endpoints:  {Credentials, Members, Export},
	Import:     {Registration, Server, API, Controller, Identity, Credentials, Members, Export, Namespace},
	Derived:    {Controller, Export, Namespace, Import, Credentials, Members, Identity, Registration, Server, API},
	Slices:     {Controller, Credentials, Members, Export, Endpoints, Namespace, Import, Derived, Registration, Server, API},
	DNS:        {Registration, Server, API},
	Proxy:      {Controller, Slices, Derived},
	Lookups:    {Endpoints, Namespace, Import, Derived, Slices, DNS, Export},
	Pods:       {Credentials, Members, Endpoints},
	Connect:    {Credentials, Members, Export, Endpoints, Import, Derived, Slices, Proxy, Pods},
}

// Result is the result of a check.
type Result string

// Results. NotChecked is for what cannot be found out, which may be a problem.
const (
	OK         Result = "OK"
	Warning    Result = "Warning"
	Broken     Result = "Broken"
	NotChecked Result = "NotChecked"
)

// Check is what was found at a hop.
type Check struct {
	Hop    Hop    `json:"hop"`
	Result Result `json:"result"`
	// ConsequenceOf is the hop with the cause, if that is another one.
	ConsequenceOf Hop `json:"consequenceOf,omitempty"`
	// Context is that of the cluster in which something is to be done, Cluster is the ID of
	// the cluster that it is about, if that is known.
	Context string `json:"context,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Object is the object that it is about, like kubectl prints it.
	Object string `json:"object,omitempty"`
	// Reason is that of a condition or an Event, as in docs/conditions.md.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Remedy says what to do, Command is the command that does it or shows more, and Docs the
	// section of the documentation that explains it.
	Remedy  string `json:"remedy,omitempty"`
	Command string `json:"command,omitempty"`
	Docs    string `json:"documentation,omitempty"`

	// elsewhere is true if it was found in the cluster of another context. Everything else is what the
	// importing cluster sees, also of other clusters.
	elsewhere bool
	// independent is true if nothing else explains it.
	independent bool
}

// Verdict summarizes all checks.
type Verdict string

// Verdicts. Unknown means that what decides could not be read.
const (
	VerdictOK      Verdict = "OK"
	VerdictBroken  Verdict = "Broken"
	VerdictUnknown Verdict = "Unknown"
)

// Report is the result of a diagnosis.
type Report struct {
	Context    string `json:"context"`
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Service    string `json:"service,omitempty"`

	Verdict Verdict `json:"verdict"`
	// FirstBroken is the first thing on the path that is broken, nil if nothing is.
	FirstBroken *Check `json:"firstBroken,omitempty"`
	// Responds is true if a Pod could connect to all ports that can be judged.
	Responds bool    `json:"responds,omitempty"`
	Checks   []Check `json:"checks"`
}

// Diagnose finds the first hop that is broken.
func Diagnose(facts Facts) Report {
	d := &diagnosis{Facts: facts}
	d.clusterSet()
	if facts.Service != "" {
		d.service()
	}
	d.traffic()
	slices.SortStableFunc(d.checks, func(a, b Check) int { return cmp.Compare(slices.Index(Hops, a.Hop), slices.Index(Hops, b.Hop)) })
	d.downgrade()
	d.attribute()
	report := Report{Context: facts.Importing.Context, Namespace: facts.Namespace, Service: facts.Service, Checks: d.checks, Responds: d.responds()}
	report.ClusterID, report.ClusterSet = d.identity()
	report.Verdict, report.FirstBroken = d.verdict()
	return report
}

// diagnosis collects the results of checks.
type diagnosis struct {
	Facts
	checks []Check
}

func (d *diagnosis) add(check Check) {
	check.Context = cmp.Or(check.Context, d.Importing.Context)
	d.checks = append(d.checks, check)
}

func (d *diagnosis) ok(hop Hop, format string, args ...any) {
	d.add(Check{Hop: hop, Result: OK, Message: fmt.Sprintf(format, args...)})
}

// unread reports what could not be read. That permissions are missing follows from nothing else.
func unread[T any](d *diagnosis, hop Hop, what string, read Read[T]) {
	d.add(Check{Hop: hop, Result: NotChecked, Message: fmt.Sprintf("%s could not be read: %s", what, read.Failure), Docs: docsDoctor, independent: !read.Unserved})
}

// has reports whether a hop has a result.
func (d *diagnosis) has(hop Hop, result Result) bool {
	return slices.ContainsFunc(d.checks, func(c Check) bool { return c.Hop == hop && c.Result == result })
}

// local returns the entry of a cluster in its own list of members, nil if there is none.
func (c *Cluster) local() *clustersetv1alpha1.Member {
	for i := range c.Members.Value {
		if member := &c.Members.Value[i]; member.Status.State == clustersetv1alpha1.MemberLocal {
			return member
		}
	}
	return nil
}

// identity returns ID and ClusterSet of the importing cluster.
func (d *diagnosis) identity() (id, clusterSet string) {
	if local := d.Importing.local(); local != nil {
		return local.Status.ClusterID, local.Status.ClusterSet
	}
	return "", ""
}

// lasting are the hops at which something stays broken although the service responds: nothing that changes
// arrives any more, or clients of other clusters see something else.
var lasting = []Hop{Registration, Server, API, Controller, Identity, Credentials, Export, Conflicts}

// downgrade turns what does not keep the service from responding into warnings.
func (d *diagnosis) downgrade() {
	if d.Service == "" || !d.responds() {
		return
	}
	for i := range d.checks {
		if check := &d.checks[i]; check.Result == Broken && (check.elsewhere || !slices.Contains(lasting, check.Hop)) {
			check.Result = Warning
		}
	}
}

// attribute marks what is explained by an earlier check. What could not be checked because of
// it is marked, too.
func (d *diagnosis) attribute() {
	for i := range d.checks {
		check := &d.checks[i]
		if check.Result != Broken && check.Result != NotChecked {
			continue
		}
		for _, earlier := range d.checks[:i] {
			if earlier.Result == Broken && d.explains(earlier, *check) {
				check.ConsequenceOf = cmp.Or(earlier.ConsequenceOf, earlier.Hop)
				break
			}
		}
	}
}

// explains reports whether a problem is the cause of another one. Problems of one cluster
// explain nothing about another one.
func (d *diagnosis) explains(cause, other Check) bool {
	relayed := cause.Hop == Members && other.Hop == Members && cause.Cluster != other.Cluster // a hub, and a cluster behind it
	switch {
	case other.independent || !relayed && !slices.Contains(causes[other.Hop], cause.Hop):
		return false
	case other.elsewhere:
		return cause.elsewhere && cause.Cluster == other.Cluster
	case cause.Cluster == "": // of the importing cluster, like the other one
		return true
	case other.Cluster != "":
		return d.dependsOn(other.Cluster, cause.Cluster)
	}
	return slices.Contains(sums, other.Hop) && d.affectsAll(cause, other.Hop)
}

// sums are the hops at which the importing cluster has what it knows of all exporting clusters together.
var sums = []Hop{Export, Import, Derived, Slices, Lookups, Pods, Connect}

// dependsOn reports whether a cluster is another one, or is relayed by it.
func (d *diagnosis) dependsOn(cluster, other string) bool {
	return cluster == other || slices.Contains(d.relays(cluster), other)
}

// affectsAll reports whether all clusters that export the service have a problem that explains one at a hop,
// and one of these problems is the cause. While nothing is exported, any member might export it.
func (d *diagnosis) affectsAll(cause Check, hop Hop) bool {
	exporters := d.exporters()
	if len(exporters) == 0 {
		if cause.Hop == Export {
			return true
		}
		for _, member := range d.peers() {
			exporters = append(exporters, member.Name)
		}
	}
	affected := func(exporter string) bool {
		return slices.ContainsFunc(d.checks, func(c Check) bool {
			return c.Result == Broken && slices.Contains(causes[hop], c.Hop) && d.dependsOn(exporter, c.Cluster)
		})
	}
	concerned := slices.ContainsFunc(exporters, func(exporter string) bool { return d.dependsOn(exporter, cause.Cluster) })
	return concerned && !slices.ContainsFunc(exporters, func(exporter string) bool { return !affected(exporter) })
}

// verdict returns the verdict and the first thing that is broken.
func (d *diagnosis) verdict() (Verdict, *Check) {
	for i := range d.checks {
		if check := &d.checks[i]; check.Result == Broken && check.ConsequenceOf == "" {
			found := *check
			return VerdictBroken, &found
		}
	}
	if slices.ContainsFunc(d.decisive(), d.unseen) {
		return VerdictUnknown, nil
	}
	return VerdictOK, nil
}

// decisive returns the hops of which something must be known. If there should be a Pod, but is none, what
// kube-proxy has of the service decides instead.
func (d *diagnosis) decisive() []Hop {
	switch {
	case d.Service == "":
		return []Hop{API, Identity, Members}
	case d.Probe.Omitted != "" && !d.Probe.Declined:
		return []Hop{API, Export, Import, Derived, Slices}
	}
	return []Hop{API, Export, Import}
}

// unseen reports whether nothing is known about a hop of the importing cluster.
func (d *diagnosis) unseen(hop Hop) bool {
	unseen := false
	for _, check := range d.checks {
		if check.Hop == hop && !check.elsewhere {
			if check.Result != NotChecked {
				return false
			}
			unseen = true
		}
	}
	return unseen
}

// ExitCode returns the exit code for a verdict.
func (v Verdict) ExitCode() int {
	switch v {
	case VerdictOK:
		return 0
	case VerdictBroken:
		return 1
	}
	return 2
}

// String describes a check in one line.
func (c Check) String() string {
	var text strings.Builder
	if c.Cluster != "" {
		text.WriteString(c.Cluster + ": ")
	}
	if c.Reason != "" && !strings.HasPrefix(c.Message, c.Reason) {
		text.WriteString(c.Reason + ": ")
	}
	text.WriteString(c.Message)
	return text.String()
}

// WhatToDo returns the remedy with its command and documentation, empty if there is none.
func (c Check) WhatToDo() string {
	var parts []string
	if c.Remedy != "" {
		parts = append(parts, c.Remedy)
	}
	if c.Command != "" {
		parts = append(parts, fmt.Sprintf("`%s`", c.Command))
	}
	if c.Docs != "" {
		parts = append(parts, "see "+c.Docs)
	}
	return strings.Join(parts, "; ")
}
