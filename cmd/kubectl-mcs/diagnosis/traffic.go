// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

// traffic checks DNS and kube-proxy and, for a service, what a Pod sees of it.
func (d *diagnosis) traffic() {
	d.dns()
	d.proxy()
	if d.Service == "" {
		return
	}
	d.leftover()
	d.lookup()
	d.pods()
	d.connection()
}

// dns checks the configuration of DNS. It is right whatever it is if a Pod resolves the name.
func (d *diagnosis) dns() {
	command := "kubectl mcs dns check --context " + d.Importing.Context
	for _, finding := range d.Importing.Host.DNS {
		check := Check{Hop: DNS, Result: Broken, Message: finding.Message}.do(finding.Remedy, command, docsDNS)
		switch {
		case finding.OK:
			check = Check{Hop: DNS, Result: OK, Message: finding.Message}
		case finding.Unknown:
			check = check.with(NotChecked).byItself()
		case d.resolves():
			check.Result = Warning
		}
		d.add(check)
	}
}

func (d *diagnosis) resolves() bool {
	return d.Probe.Lookup != nil && d.Probe.Lookup.Outcome == podprobe.Succeeded && d.wrongAnswer() == ""
}

// proxy checks the configuration of kube-proxy, and whether it routes the service: if all endpoints of an IP
// family that were tried answer a Pod, but the IP of the service does not, nothing else is between them.
func (d *diagnosis) proxy() {
	host := d.Importing.Host
	for _, finding := range host.Unobserved {
		if finding.Check == plan.CheckProxy {
			d.found(Proxy, finding, docsDoctor)
		}
	}
	for _, finding := range plan.ProxyFindings(host) {
		d.found(Proxy, finding, docsProviders)
	}
	viaIP, direct := d.attempts()
	failed := slices.DeleteFunc(unanswered(viaIP), func(c Connection) bool {
		same := slices.DeleteFunc(slices.Clone(direct), func(other Connection) bool { return isIPv6(other) != isIPv6(c) })
		return len(same) == 0 || slices.ContainsFunc(same, hasFailed)
	})
	switch {
	case len(failed) == 0, d.restricts(failed):
		return
	case d.usesLocalEndpoints():
		d.add(Check{
			Hop: Proxy, Result: NotChecked,
			Message: fmt.Sprintf("the IP of the service does not answer a Pod on %s (%s), which may be right: with internalTrafficPolicy Local, it leads only to endpoints on the same node", d.node(), describe(failed)),
		}.do("", "", docsProviders))
		return
	}
	d.add(Check{
		Hop: Proxy, Result: Broken,
		Message: fmt.Sprintf("endpoints answer a Pod on %s, but the IP of the service does not (%s): kube-proxy, or what replaces it, does not route it", d.node(), describe(failed)),
	}.do("see that kube-proxy runs on the node, and its log", fmt.Sprintf("kubectl --context %s get pods -n kube-system -l k8s-app=kube-proxy -o wide", d.Importing.Context), docsProviders))
}

func (d *diagnosis) node() string {
	if d.Probe.Node == "" {
		return "an unknown node"
	}
	return "node " + d.Probe.Node
}

// attempts returns the connections to the IPs of the service, and those to endpoints.
func (d *diagnosis) attempts() (viaIP, direct []Connection) {
	for _, connection := range d.Probe.Connections {
		if connection.Cluster == "" {
			viaIP = append(viaIP, connection)
		} else {
			direct = append(direct, connection)
		}
	}
	return viaIP, direct
}

func hasFailed(c Connection) bool { return c.Outcome != podprobe.Succeeded }

func isIPv6(c Connection) bool { return strings.HasPrefix(c.Address, "[") }

// unanswered returns one attempt for each address of which every attempt failed.
func unanswered(connections []Connection) []Connection {
	var failed []Connection
	for _, connection := range connections {
		said := slices.ContainsFunc(failed, func(c Connection) bool { return c.Address == connection.Address })
		if !said && !slices.ContainsFunc(connections, func(c Connection) bool { return c.Address == connection.Address && !hasFailed(c) }) {
			failed = append(failed, connection)
		}
	}
	return failed
}

// usesLocalEndpoints reports whether the IP of the service leads only to endpoints on the node of the client.
func (d *diagnosis) usesLocalEndpoints() bool {
	var policy *corev1.ServiceInternalTrafficPolicy
	if derived := d.Importing.Path.Derived.Value; derived != nil {
		policy = derived.Spec.InternalTrafficPolicy
	}
	if imported := d.Importing.Path.Import.Value; imported != nil && imported.Spec.InternalTrafficPolicy != nil {
		policy = imported.Spec.InternalTrafficPolicy
	}
	return policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal
}

// failing reports whether all endpoints of a cluster, a port and an IP family failed.
func (d *diagnosis) failing(direct []Connection) bool {
	answered := map[string]bool{}
	for _, connection := range direct {
		key := fmt.Sprintf("%s %s %t", connection.Cluster, portOf(connection.Address), isIPv6(connection))
		answered[key] = answered[key] || !hasFailed(connection)
	}
	return slices.Contains(slices.Collect(maps.Values(answered)), false)
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// describe lists addresses with the outcomes of the attempts.
func describe(connections []Connection) string {
	var texts []string
	for _, connection := range connections {
		if text := fmt.Sprintf("%s: %s", connection.Address, outcomeText(connection.Outcome)); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// outcomeText describes an outcome.
func outcomeText(outcome podprobe.Outcome) string {
	switch outcome {
	case podprobe.Succeeded:
		return "connected"
	case podprobe.NotFound:
		return "no such name"
	case podprobe.TimedOut:
		return "no answer in time"
	case podprobe.Refused:
		return "connection refused"
	case podprobe.Unreachable:
		return "no route"
	}
	return "failed"
}

// Leftover says that the Pod could not be deleted, empty if it was.
func (p Probe) Leftover() string {
	if p.LeftBehind == "" {
		return ""
	}
	return fmt.Sprintf("Pod %s could not be deleted: %s", p.LeftBehind, p.Undeleted)
}

// DeleteLeftover returns the command that deletes the Pod.
func (f Facts) DeleteLeftover() string {
	return fmt.Sprintf("kubectl --context %s delete pod -n %s %s", f.Importing.Context, f.Namespace, f.Probe.LeftBehind)
}

// leftover reports a Pod that could not be deleted.
func (d *diagnosis) leftover() {
	if left := d.Probe.Leftover(); left != "" {
		d.add(Check{Hop: Lookups, Result: Warning, Object: "pod/" + d.Probe.LeftBehind, Message: left}.do("delete it", d.DeleteLeftover(), docsDoctor))
	}
}

// omitted reports that nothing was seen from a Pod.
func (d *diagnosis) omitted(hop Hop) bool {
	if d.Probe.Omitted == "" {
		return false
	}
	d.add(Check{Hop: hop, Result: NotChecked, Message: "not tried from a Pod: " + d.Probe.Omitted, independent: !d.Probe.Pointless}.do(d.Probe.Remedy, "", docsDoctor))
	return true
}

// lookup checks what the DNS server of a Pod answers.
func (d *diagnosis) lookup() {
	lookup := d.Probe.Lookup
	if d.omitted(Lookups) || lookup == nil {
		return
	}
	command := "kubectl mcs dns check --context " + d.Importing.Context
	base := Check{Hop: Lookups, Result: Broken}
	servers := strings.Join(lookup.Servers, ", ")
	switch wrong := d.wrongAnswer(); {
	case lookup.Outcome == podprobe.Succeeded && wrong == "":
		d.ok(Lookups, "%s is %s in a Pod on %s", lookup.Name, strings.Join(lookup.Addresses, ", "), d.node())
	case lookup.Outcome == podprobe.Succeeded:
		d.add(base.at(Lookups, "%s is %s in a Pod on %s, but %s", lookup.Name, strings.Join(lookup.Addresses, ", "), d.node(), wrong).do("DNS has an old answer, or another server serves the zone", command, docsDNS))
	case lookup.Outcome == podprobe.NotFound:
		d.add(base.at(Lookups, "the DNS server %s of a Pod on %s has no name %s", servers, d.node(), lookup.Name).do("", command, docsDNS))
	case lookup.Outcome == podprobe.TimedOut && d.restricted() != "":
		d.add(base.with(NotChecked).at(Lookups, "the DNS server %s does not answer a Pod on %s, which may be right: %s", servers, d.node(), d.restricted()).do(chooseLabels, "", docsDoctor))
	case lookup.Outcome == podprobe.TimedOut:
		d.add(base.at(Lookups, "the DNS server %s of a Pod on %s does not answer in time: %s", servers, d.node(), lookup.Error).
			do(d.policies("a NetworkPolicy of the namespace may keep Pods from the DNS server"), command, docsDNS))
	default:
		d.add(base.at(Lookups, "the DNS server %s of a Pod on %s does not resolve %s: %s", servers, d.node(), lookup.Name, lookup.Error).do("", command, docsDNS))
	}
}

// wrongAnswer says what the answer should be, empty if it is right.
func (d *diagnosis) wrongAnswer() string {
	imported := d.Importing.Path.Import.Value
	if imported == nil || d.Probe.Lookup == nil {
		return ""
	}
	answers := d.Probe.Lookup.Addresses
	if imported.Spec.Type == multiclusterxv1beta1.Headless {
		return "" // endpoints change at any time
	}
	for _, ip := range imported.Spec.IPs {
		if !slices.Contains(answers, ip) {
			return fmt.Sprintf("the import has %s", strings.Join(imported.Spec.IPs, ", "))
		}
	}
	return ""
}

// policies adds the NetworkPolicies of the namespace that restrict what the Pod connects to.
func (d *diagnosis) policies(text string) string {
	if names := d.Importing.Path.Egress.Value; len(names) > 0 {
		text += fmt.Sprintf("; NetworkPolicies of namespace %s that restrict egress of the Pod: %s", d.Namespace, strings.Join(names, ", "))
	}
	return text
}

// chooseLabels is what to do if NetworkPolicies restrict the Pod.
const chooseLabels = "give the Pod the labels of an application with --probe-labels, so that the same NetworkPolicies apply"

// restricted says which NetworkPolicies restrict the Pod, unless the user made it like an application. Others
// may apply to applications.
func (d *diagnosis) restricted() string {
	names := d.Importing.Path.Egress.Value
	if d.Probe.Labeled || len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the Pod is restricted by NetworkPolicies of namespace %s (%s), and applications may not be", d.Namespace, strings.Join(names, ", "))
}

// restricts reports whether NetworkPolicies may be why connections failed: all of them had no answer.
func (d *diagnosis) restricts(failed []Connection) bool {
	return d.restricted() != "" && !slices.ContainsFunc(failed, func(c Connection) bool { return c.Outcome != podprobe.TimedOut })
}

// pods checks whether endpoints accept connections from a Pod.
func (d *diagnosis) pods() {
	_, direct := d.attempts()
	if d.omitted(Pods) {
		return
	}
	byCluster := map[string][]Connection{}
	for _, connection := range direct {
		byCluster[connection.Cluster] = append(byCluster[connection.Cluster], connection)
	}
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		d.podsOf(cluster, byCluster[cluster])
	}
}

// podsOf checks the endpoints of one cluster.
func (d *diagnosis) podsOf(cluster string, connections []Connection) {
	failed := slices.DeleteFunc(slices.Clone(connections), func(c Connection) bool { return !hasFailed(c) })
	if len(failed) == 0 {
		d.add(Check{Hop: Pods, Result: OK, Cluster: cluster, Message: fmt.Sprintf("%d endpoints accept connections from a Pod on %s", len(connections), d.node())})
		return
	}
	context, describeService := d.describeService(cluster)
	check := Check{Hop: Pods, Result: Broken, Cluster: cluster, Context: context}
	if !d.failing(connections) {
		check.Result = Warning
	}
	if d.restricts(failed) {
		d.add(check.with(NotChecked).at(Pods, "endpoints do not answer a Pod on %s (%s), which may be right: %s", d.node(), describe(failed), d.restricted()).do(chooseLabels, "", docsDoctor))
		return
	}
	if slices.ContainsFunc(failed, func(c Connection) bool { return c.Outcome != podprobe.Refused }) {
		check.Context = ""
		d.add(check.at(Pods, "endpoints do not accept connections from a Pod on %s (%s): packets are dropped or have no route", d.node(), describe(failed)).
			do(d.policies("check NetworkPolicies and firewalls of both clusters, and the routes between their Pod networks"),
				fmt.Sprintf("kubectl --context %s get networkpolicies -n %s", d.Importing.Context, d.Namespace), docsPodNetworks))
		return
	}
	d.add(check.at(Pods, "Pods refuse connections (%s): nothing listens on the port, or a policy rejects the connection", describe(failed)).about("service/"+d.Service).
		do(fmt.Sprintf("compare targetPort of the Service in cluster %s with the port on which its Pods listen", cluster), describeService, docsExporting))
}

// connection checks whether the IP of the service accepts connections from a Pod.
func (d *diagnosis) connection() {
	imported := d.Importing.Path.Import.Value
	if imported != nil {
		for _, port := range imported.Spec.Ports {
			if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
				d.add(Check{Hop: Connect, Result: NotChecked, Message: fmt.Sprintf("port %s cannot be judged by a connection: only the application knows what an answer is", exported.PortText(port.Name, port.Port, port.Protocol))})
			}
		}
	}
	if d.omitted(Connect) {
		return
	}
	viaIP, _ := d.attempts()
	failed := unanswered(viaIP)
	base := Check{Hop: Connect, Result: Broken}.do("", fmt.Sprintf("kubectl mcs explain %s -n %s --context %s", d.Service, d.Namespace, d.Importing.Context), docsPodNetworks)
	switch {
	case len(viaIP) == 0: // a headless service has no IP: its endpoints were asked
	case len(failed) > 0 && d.usesLocalEndpoints():
		d.add(base.with(NotChecked).at(Connect, "no endpoint on %s answers at the IP of the service (%s)", d.node(), describe(failed)))
	case len(failed) > 0 && d.restricts(failed):
		d.add(base.with(NotChecked).at(Connect, "the IP of the service does not answer a Pod on %s (%s), which may be right: %s", d.node(), describe(failed), d.restricted()).do(chooseLabels, "", docsDoctor))
	case len(failed) > 0:
		d.add(base.at(Connect, "the IP of the service does not accept connections from a Pod on %s (%s)", d.node(), describe(failed)))
	case slices.ContainsFunc(viaIP, hasFailed):
		d.add(base.with(Warning).at(Connect, "the IP of the service does not accept every connection from a Pod on %s (%s)", d.node(), describe(viaIP)))
	default:
		d.ok(Connect, "%s", describe(viaIP))
	}
}

// responds reports whether a Pod resolved the name and connected to everything that it tried.
func (d *diagnosis) responds() bool {
	return d.resolves() && len(d.Probe.Connections) > 0 && !slices.ContainsFunc(d.Probe.Connections, hasFailed)
}
