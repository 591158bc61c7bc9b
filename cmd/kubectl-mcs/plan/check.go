// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// Facts are what is known about a cluster before it joins.
type Facts struct {
	Context string
	// Silent is true if the kube-apiserver did not answer: nothing else is known.
	Silent bool
	// Membership is nil if it cannot be observed. Failure says why.
	Membership *Cluster
	Failure    string
	// Unobserved are the parts that could not be observed, and why.
	Unobserved []Finding
	// Access and Unverified are how other clusters will reach the cluster.
	Access     Access
	Unverified bool
	Server     Server
	// Hub is true if the user makes the cluster the hub of the others.
	Hub bool
	// Kubernetes and MCS are the versions of the kube-apiserver and of mcs-apiserver.
	Kubernetes, MCS string
	// API is what keeps the API of mcs-apiserver from being served.
	API API
	// Clock is nil if the kube-apiserver does not tell the time.
	Clock    *Clock
	Networks Networks
	Proxy    *Proxy
	DNS      []DNSFinding
	// Reachable has what mcs-apiserver says about its members, by cluster ID.
	Reachable map[string]Reachable
}

// API is how the API of mcs-apiserver is registered.
type API struct {
	// Observed is false if it is not known.
	Observed bool
	// Detached is true if an administrator detached the API.
	Detached bool
	// Conflicts describe what serves a part of the API instead, and what to do.
	Conflicts []string
	// Hidden are the CustomResourceDefinitions whose objects the API hides.
	Hidden []string
	// Unavailable is why the API is not available, empty if it is.
	Unavailable string
}

// Clock is by how much the clock of a kube-apiserver is ahead of the one of this machine: at
// least and at most, since a request takes time and a server tells the second only.
type Clock struct{ Least, Most time.Duration }

// Proxy is how kube-proxy is configured.
type Proxy struct {
	// Mode is empty if the configuration does not say: it depends on the platform then.
	Mode string
	// Source is the ConfigMap that says so, empty if there is none.
	Source string
}

// DNSFinding is a result of `kubectl mcs dns check`.
type DNSFinding struct {
	OK bool
	// Unknown is true if a request failed, so that nothing is known.
	Unknown         bool
	Message, Remedy string
}

// Reachable is what mcs-apiserver says about whether it reaches a member.
type Reachable struct {
	// Known is false if it has not tried yet.
	Known, Answers  bool
	Reason, Message string
}

// Result is the result of a check.
type Result string

// Results. NotChecked is for what cannot be found out, which may be a problem.
const (
	OK         Result = "OK"
	Warning    Result = "Warning"
	Problem    Result = "Problem"
	NotChecked Result = "NotChecked"
)

// The parts of a check, in the order of the findings.
const (
	CheckMembership   = "membership"
	CheckAPI          = "api"
	CheckVersions     = "versions"
	CheckClocks       = "clocks"
	CheckNetworks     = "networks"
	CheckReachability = "reachability"
	CheckProxy        = "proxy"
	CheckDNS          = "dns"
)

var checks = []string{CheckMembership, CheckAPI, CheckVersions, CheckClocks, CheckNetworks, CheckReachability, CheckProxy, CheckDNS}

// Finding is what a check found.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	// Contexts are the clusters that it is about, empty if it is about all of them.
	Contexts []string `json:"contexts,omitempty"`
	Message  string   `json:"message"`
	// Remedy says what to do.
	Remedy string `json:"remedy,omitempty"`
}

// String describes the finding.
func (f Finding) String() string {
	text := f.Message
	if len(f.Contexts) > 0 {
		text = strings.Join(f.Contexts, ", ") + ": " + text
	}
	if f.Remedy != "" {
		text += ": " + f.Remedy
	}
	return text
}

// Joining is what the user asks for.
type Joining struct {
	ClusterSet string
	// IDs are the IDs that clusters get, by context.
	IDs map[string]string
	// Repoint is true if members may get another server.
	Repoint bool
	// ClientVersion is the version of this program.
	ClientVersion string
}

// Check checks whether clusters are ready to join.
func Check(joining Joining, all []Facts) []Finding {
	findings := checkMembership(joining, all)
	answered := slices.DeleteFunc(slices.Clone(all), func(f Facts) bool { return f.Silent })
	for _, f := range answered {
		findings = append(findings, f.Unobserved...)
		findings = append(findings, checkAPI(f)...)
		findings = append(findings, VersionFindings(f)...)
		findings = append(findings, ProxyFindings(f)...)
		findings = append(findings, checkDNS(f)...)
	}
	findings = append(findings, compareVersions(joining.ClientVersion, answered)...)
	findings = append(findings, ClockFindings(answered)...)
	findings = append(findings, checkNetworks(answered)...)
	findings = append(findings, checkReachability(joining.IDs, answered)...)
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(checks, a.Check), slices.Index(checks, b.Check))
	})
	return findings
}

// checkMembership checks what join checks before it changes anything.
func checkMembership(joining Joining, all []Facts) []Finding {
	var findings []Finding
	var clusters []Cluster
	for _, f := range all {
		switch {
		case f.Membership != nil:
			c := *f.Membership
			c.PodCIDRs = nil // what is known about networks is checked, too
			if len(all) == 1 {
				c.Known = nil // nobody claims to have named all clusters
			}
			clusters = append(clusters, c)
		case f.API.Detached || len(f.API.Conflicts) > 0:
			// The failure is a consequence.
		default:
			findings = append(findings, inContext(Finding{Check: CheckMembership, Result: Problem, Message: f.Failure}, all))
		}
	}
	planned, err := Join(joining.ClusterSet, clusters, joining.IDs)
	if err == nil && !joining.Repoint {
		err = CheckRepointing(clusters, joining.IDs)
	}
	for _, err := range flatten(err) {
		findings = append(findings, inContext(Finding{Check: CheckMembership, Result: Problem, Message: err.Error()}, all))
	}
	if err != nil || len(clusters) < len(all) {
		return findings // the plan depends on all of them
	}
	for _, warning := range slices.Concat(planned.Warnings, planned.Notes) {
		findings = append(findings, inContext(Finding{Check: CheckMembership, Result: Warning, Message: warning}, all))
	}
	return append(findings, canJoin(joining, clusters, planned)...)
}

// canJoin says that clusters can join, or have joined.
func canJoin(joining Joining, clusters []Cluster, planned Plan) []Finding {
	ok := func(format string, args ...any) Finding {
		return Finding{Check: CheckMembership, Result: OK, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(clusters) == 1:
		finding := ok("nothing in the cluster keeps it from joining ClusterSet %q", joining.ClusterSet)
		if clusters[0].ClusterSet != "" {
			finding = ok("the cluster is in ClusterSet %q", joining.ClusterSet)
		}
		finding.Contexts = []string{clusters[0].Context}
		return []Finding{finding, {
			Check: CheckMembership, Result: NotChecked, Contexts: finding.Contexts,
			Message: "the cluster was not compared with others: IDs, networks, clocks, and whether they reach each other",
			Remedy:  "name their contexts, too, or let `kubectl mcs accept` check their invitations",
		}}
	case len(planned.Steps) == 0:
		return []Finding{ok("the clusters are already members of ClusterSet %q", joining.ClusterSet)}
	}
	return []Finding{ok("the clusters can join ClusterSet %q, in %d steps", joining.ClusterSet, len(planned.Steps))}
}

// flatten returns the errors that are joined in an error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // not errors.As: what wraps joined errors adds to their messages
	if !ok {
		return []error{err}
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		errs = append(errs, flatten(err)...)
	}
	return errs
}

// inContext moves the context with which a message begins to the contexts of the finding.
func inContext(finding Finding, all []Facts) Finding {
	for _, f := range all {
		if message, found := strings.CutPrefix(finding.Message, fmt.Sprintf("context %q: ", f.Context)); found {
			finding.Contexts, finding.Message = []string{f.Context}, message
		}
	}
	return finding
}

// checkAPI checks whether mcs-apiserver serves its API, and nothing else does.
func checkAPI(f Facts) []Finding {
	var findings []Finding
	add := func(result Result, message, remedy string) {
		findings = append(findings, Finding{CheckAPI, result, []string{f.Context}, message, remedy})
	}
	for _, conflict := range f.API.Conflicts {
		add(Problem, conflict, "")
	}
	for _, crd := range f.API.Hidden {
		add(Warning, fmt.Sprintf("CustomResourceDefinition %s is hidden by the API of mcs-apiserver, and so are its objects", crd), "delete it when you no longer need them")
	}
	switch {
	case !f.API.Observed:
	case f.API.Detached:
		add(Problem, "the API of mcs-apiserver is detached", fmt.Sprintf("attach it with `kubectl mcs attach %s`", f.Context))
	case len(f.API.Conflicts) > 0:
	case f.API.Unavailable != "":
		add(Problem, f.API.Unavailable, fmt.Sprintf("`kubectl --context %s get deployments -A -l app.kubernetes.io/name=mcs-apiserver` shows whether it is installed and ready", f.Context))
	default:
		add(OK, "the API of mcs-apiserver is registered and available", "")
	}
	return findings
}

// minKubernetes is the first Kubernetes with the API ServiceCIDR.
var minKubernetes = version.MustParseGeneric("1.33")

// VersionFindings checks the version of Kubernetes.
func VersionFindings(f Facts) []Finding {
	if f.Kubernetes == "" {
		return nil
	}
	contexts := []string{f.Context}
	switch parsed, err := version.ParseGeneric(f.Kubernetes); {
	case err != nil:
		return []Finding{{CheckVersions, NotChecked, contexts, fmt.Sprintf("version %q of the kube-apiserver is not a version", f.Kubernetes), fmt.Sprintf("it must be Kubernetes %s or newer", minKubernetes)}}
	case parsed.LessThan(minKubernetes):
		return []Finding{{CheckVersions, Problem, contexts, fmt.Sprintf("the kube-apiserver is version %s, and Kubernetes %s or newer is required", f.Kubernetes, minKubernetes), "upgrade the cluster"}}
	}
	return []Finding{{CheckVersions, OK, contexts, "the kube-apiserver is version " + f.Kubernetes, ""}}
}

// compareVersions compares the versions of mcs-apiserver. Different ones work together.
func compareVersions(client string, all []Facts) []Finding {
	var findings []Finding
	versions := map[string][]string{}
	for _, f := range all {
		switch {
		case f.MCS != "":
			versions[f.MCS] = append(versions[f.MCS], f.Context)
		case f.Membership != nil:
			findings = append(findings, Finding{CheckVersions, NotChecked, []string{f.Context}, "mcs-apiserver does not tell its version",
				fmt.Sprintf("`kubectl mcs version %s` shows it when the cluster has an ID", f.Context)})
		}
	}
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		texts = append(texts, fmt.Sprintf("%s in %s", v, strings.Join(versions[v], ", ")))
	}
	switch message := "mcs-apiserver is version " + strings.Join(texts, " and ") + ", kubectl mcs is version " + client; {
	case len(versions) == 0:
		return findings
	case len(versions) == 1 && len(versions[client]) > 0:
		return append(findings, Finding{CheckVersions, OK, nil, message, ""})
	default:
		return append(findings, Finding{CheckVersions, Warning, nil, message, "different versions work together, but not with everything that is new: upgrade one cluster after another"})
	}
}

// tolerableDifference is by how much clocks may differ without a warning. The ages of exports,
// which decide conflicts, differ as much.
const tolerableDifference = 10 * time.Second

// ClockFindings compares the clocks of the kube-apiservers in pairs.
func ClockFindings(all []Facts) []Finding {
	var findings []Finding
	var compared []string
	for i, f := range all {
		if f.Clock == nil {
			findings = append(findings, Finding{CheckClocks, NotChecked, []string{f.Context}, "the kube-apiserver does not tell the time", "make sure that the clocks of its nodes are synchronized"})
			continue
		}
		compared = append(compared, f.Context)
		for _, other := range all[:i] {
			if other.Clock == nil {
				continue
			}
			ahead, least := f.Context, f.Clock.Least-other.Clock.Most
			if behind := other.Clock.Least - f.Clock.Most; behind > least {
				ahead, least = other.Context, behind
			}
			result, consequence := Warning, "the older of two exports that conflict is not certain"
			switch {
			case least <= tolerableDifference:
				continue
			case least > clustersetip.MaxSkew:
				result, consequence = Problem, fmt.Sprintf("other clusters do not believe what was decided more than %s in the future, and tokens may be valid too early or too late", clustersetip.MaxSkew)
			}
			findings = append(findings, Finding{
				CheckClocks, result, []string{other.Context, f.Context},
				fmt.Sprintf("the clock of %s is ahead by %s at least: %s", ahead, least.Truncate(time.Second), consequence), "synchronize the clocks of all nodes",
			})
		}
	}
	if len(compared) > 1 && !slices.ContainsFunc(findings, func(f Finding) bool { return f.Result != NotChecked }) {
		findings = append(findings, Finding{CheckClocks, OK, nil, fmt.Sprintf("the clocks of the kube-apiservers of %s do not differ by more than %s", strings.Join(compared, ", "), tolerableDifference), ""})
	}
	return findings
}

// ProxyFindings checks that Services of imports are routed.
func ProxyFindings(f Facts) []Finding {
	if f.Proxy == nil {
		return nil
	}
	finding := Finding{Check: CheckProxy, Contexts: []string{f.Context}}
	switch mode := f.Proxy.Mode; {
	case f.Proxy.Source == "":
		finding.Result, finding.Message = NotChecked, "there is no ConfigMap with the configuration of kube-proxy: it is configured in another way, or the cluster has another proxy"
		finding.Remedy = "any proxy must route Services with EndpointSlices of other clusters' Pods, and the IPs in the status of Services of type LoadBalancer"
	case mode == "" || mode == "iptables" || mode == "nftables":
		finding.Result, finding.Message = OK, fmt.Sprintf("kube-proxy uses %s (ConfigMap %s)", cmp.Or(mode, "the default mode, iptables"), f.Proxy.Source)
	default:
		finding.Result, finding.Message = Warning, fmt.Sprintf("kube-proxy uses the mode %q (ConfigMap %s), with which mcs-apiserver is not tested", mode, f.Proxy.Source)
		finding.Remedy = "use nftables or iptables"
	}
	return []Finding{finding}
}

// checkDNS reports problems of DNS as warnings: clusters can join without.
func checkDNS(f Facts) []Finding {
	var findings []Finding
	for _, dns := range f.DNS {
		result := OK
		if !dns.OK {
			result = Warning
		}
		findings = append(findings, Finding{CheckDNS, result, []string{f.Context}, dns.Message, dns.Remedy})
	}
	return findings
}
