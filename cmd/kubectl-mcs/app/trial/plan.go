// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

const (
	// attemptTimeout limits a lookup or a request.
	attemptTimeout = 3 * time.Second
	// requests is how many are sent to a single server, once it has answered.
	requests = 5
	// requestsPerCluster is how many are sent to an IP behind which all clusters are, per cluster: it is
	// up to chance who answers. maxRequests limits them.
	requestsPerCluster = 5
	maxRequests        = 50
)

var families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}

var networks = []podtrial.Network{podtrial.TCP, podtrial.UDP}

var recordTypes = map[corev1.IPFamily]podtrial.RecordType{corev1.IPv4Protocol: podtrial.A, corev1.IPv6Protocol: podtrial.AAAA}

// imported is what a cluster imported of a service.
type imported struct {
	// ips are those of the import, none of a headless service.
	ips []string
	// families are those of the import; all if empty.
	families []corev1.IPFamily
	// endpoints are the addresses of ready endpoints, by cluster ID.
	endpoints map[string][]string
	// incomplete says what is missing, and of which clusters; empty if nothing is.
	incomplete string
}

// facts is what is known of a cluster when the clients start.
type facts struct {
	context, id string
	// families are those of Pods and Services.
	families []corev1.IPFamily
	// service and headless are the imports of both services.
	service, headless imported
}

func (f *facts) has(family corev1.IPFamily) bool { return slices.Contains(f.families, family) }

// ofFamily returns the addresses of a family, sorted.
func ofFamily(addresses []string, family corev1.IPFamily) []string {
	var found []string
	for _, address := range addresses {
		if parsed, err := netip.ParseAddr(address); err == nil && parsed.Unmap().Is4() == (family == corev1.IPv4Protocol) {
			found = append(found, parsed.Unmap().String())
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// expectChecks returns everything that is to be checked. Results of checks that do not apply, or fail without
// being tried, are set.
func expectChecks(r run, clusters []facts) []Check {
	var checks []Check
	for i := range clusters {
		checks = append(checks, expectService(r, &clusters[i], clusters)...)
		checks = append(checks, expectHeadless(r, &clusters[i], clusters)...)
	}
	return checks
}

// expectService returns the checks of the service with an IP from one cluster.
func expectService(r run, from *facts, clusters []facts) []Check {
	name, count := r.dnsName(r.service()), min(maxRequests, requestsPerCluster*len(clusters))
	var checks []Check
	for _, family := range families {
		ips := ofFamily(from.service.ips, family)
		var answering []string
		for i := range clusters {
			if result, _ := applies(from, from.service, &clusters[i], family); result == Pending {
				answering = append(answering, clusters[i].id)
			}
		}
		result, reason := Pending, ""
		switch {
		case len(from.service.ips) == 0 && from.has(family):
			result, reason = Failed, from.service.incomplete
		case !from.has(family):
			result, reason = NotApplicable, fmt.Sprintf("cluster %s has no %s", from.id, family)
		case len(ips) == 0:
			result, reason = NotApplicable, fmt.Sprintf("the import has no %s address", family)
		}
		checks = append(checks, Check{
			From: from.id, Path: ClusterSetIP, Means: DNS, Family: family, Name: name, Record: recordTypes[family], Want: ips, Result: result, Reason: reason,
		})
		if result == Pending && from.service.incomplete != "" { // some clusters cannot answer
			result, reason = Failed, from.service.incomplete
		}
		for _, network := range networks {
			checks = append(checks, Check{
				From: from.id, Path: ClusterSetIP, Means: Means(network), Family: family, Addresses: withPort(ips), Requests: count, Answering: answering, Result: result, Reason: reason,
			})
		}
	}
	return append(checks, expectSRV(from, ClusterSetIP, name, []string{name}, len(from.service.ips) > 0, from.service.incomplete)...)
}

// expectHeadless returns the checks of the headless service from one cluster to all of them.
func expectHeadless(r run, from *facts, clusters []facts) []Check {
	name := r.dnsName(r.headless())
	var checks []Check
	var hosts []string
	for _, family := range families {
		var all []string
		applicable := false
		for i := range clusters {
			to := &clusters[i]
			addresses := ofFamily(from.headless.endpoints[to.id], family)
			result, reason := applies(from, from.headless, to, family)
			if !reachable(from, to) { // nothing applies, and would pass
				result, reason = Failed, fmt.Sprintf("no IP family is common to cluster %s, cluster %s and the import", from.id, to.id)
			}
			if result == Pending {
				applicable = true
				if all = append(all, addresses...); len(addresses) == 0 {
					result, reason = Failed, fmt.Sprintf("cluster %s has no %s endpoint of cluster %s", from.id, family, to.id)
					if from.headless.incomplete != "" {
						reason = from.headless.incomplete
					}
				}
			}
			checks = append(checks, Check{
				From: from.id, To: to.id, Path: Headless, Means: DNS, Family: family, Name: r.podName(to.id), Record: recordTypes[family], Want: addresses, Result: result, Reason: reason,
			})
			for _, network := range networks {
				checks = append(checks, Check{
					From: from.id, To: to.id, Path: Headless, Means: Means(network), Family: family, Addresses: withPort(addresses), Requests: requests, Answering: []string{to.id}, Result: result, Reason: reason,
				})
			}
			if result == Pending && !slices.Contains(hosts, r.podName(to.id)) {
				hosts = append(hosts, r.podName(to.id))
			}
		}
		slices.Sort(all)
		check := Check{From: from.id, Path: Headless, Means: DNS, Family: family, Name: name, Record: recordTypes[family], Want: slices.Compact(all), Result: Pending}
		switch {
		case !applicable:
			check.Result, check.Reason = NotApplicable, fmt.Sprintf("no cluster exports %s to cluster %s", family, from.id)
		case len(all) == 0:
			check.Result, check.Reason = Failed, from.headless.incomplete
		}
		checks = append(checks, check)
	}
	return append(checks, expectSRV(from, Headless, name, hosts, len(hosts) > 0, from.headless.incomplete)...)
}

// expectSRV returns the checks of the SRV records of a service.
func expectSRV(from *facts, path Path, name string, hosts []string, applicable bool, incomplete string) []Check {
	var checks []Check
	for _, network := range networks {
		port := strings.ToLower(string(network))
		check := Check{From: from.id, Path: path, Means: DNS, Name: fmt.Sprintf("_%s._%s.%s", port, port, name), Record: podtrial.SRV, Want: withPort(hosts), Result: Pending}
		if !applicable {
			check.Result, check.Reason = Failed, incomplete
		}
		checks = append(checks, check)
	}
	return checks
}

// reachable reports whether a cluster can reach another one over any family.
func reachable(from, to *facts) bool {
	return slices.ContainsFunc(families, func(family corev1.IPFamily) bool {
		result, _ := applies(from, from.headless, to, family)
		return result == Pending
	})
}

// applies reports whether a cluster can reach endpoints of another one over a family, as Pending, or why not.
func applies(from *facts, found imported, to *facts, family corev1.IPFamily) (Result, string) {
	for _, cluster := range []*facts{from, to} {
		if !cluster.has(family) {
			return NotApplicable, fmt.Sprintf("cluster %s has no %s", cluster.id, family)
		}
	}
	if len(found.families) > 0 && !slices.Contains(found.families, family) {
		return NotApplicable, fmt.Sprintf("the import has no %s", family)
	}
	return Pending, ""
}

func withPort(hosts []string) []string {
	var found []string
	for _, host := range hosts {
		found = append(found, net.JoinHostPort(host, strconv.Itoa(podtrial.Port)))
	}
	slices.Sort(found)
	return found
}

// planFor returns what the client of a cluster tries, everything once. Patience is how long DNS and kube-proxy
// may lag behind the API: caches of DNS servers keep the answer that a name does not exist for a while.
func planFor(r run, id string, patience time.Duration, checks []Check) podtrial.Plan {
	plan := podtrial.Plan{Key: r.key, Patience: patience, Timeout: attemptTimeout}
	for i := range checks {
		check := &checks[i]
		if check.From != id || check.Result != Pending {
			continue
		}
		if check.Means == DNS {
			plan.Queries = append(plan.Queries, podtrial.Query{Name: check.Name, Type: check.Record, Want: check.Want})
			continue
		}
		for _, address := range check.Addresses {
			target := podtrial.Target{Network: podtrial.Network(check.Means), Address: address, Requests: check.Requests, Clusters: check.Answering}
			if !slices.ContainsFunc(plan.Targets, func(same podtrial.Target) bool { return same.Network == target.Network && same.Address == address }) {
				plan.Targets = append(plan.Targets, target)
			}
		}
	}
	return plan
}

// durationOf returns how long a client may take for a plan, if everything fails as late as possible.
func durationOf(plan podtrial.Plan) time.Duration {
	rounds := time.Duration((len(plan.Queries)+len(plan.Targets))/podtrial.MaxFirst + 1)
	sent := 0
	for _, target := range plan.Targets {
		sent += target.Requests
	}
	return rounds*(plan.Patience+attemptTimeout) + time.Duration(sent/podtrial.MaxMeasured+1)*attemptTimeout/2
}
