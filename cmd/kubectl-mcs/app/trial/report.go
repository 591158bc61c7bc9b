// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

// Path is how a service is reached.
type Path string

// Paths.
const (
	ClusterSetIP Path = "ClusterSetIP"
	Headless     Path = "Headless"
)

// Means is what is tried: a lookup, or requests over a transport protocol.
type Means string

// Means.
const (
	DNS Means = "DNS"
	TCP Means = Means(podtrial.TCP)
	UDP Means = Means(podtrial.UDP)
)

// Result is the result of a check.
type Result string

// Results. Pending is for checks that a client will decide.
const (
	Pending       Result = ""
	OK            Result = "OK"
	Failed        Result = "Failed"
	NotApplicable Result = "NotApplicable"
	NotTried      Result = "NotTried"
)

// Check is a cell of the matrix.
type Check struct {
	// From is the cluster of the client.
	From string `json:"from"`
	// To is the cluster that should answer, empty if any of them may.
	To     string          `json:"to,omitempty"`
	Path   Path            `json:"path"`
	Means  Means           `json:"means"`
	Family corev1.IPFamily `json:"family,omitempty"`
	Result Result          `json:"result"`
	// Reason is why the check failed, or does not apply.
	Reason string `json:"reason,omitempty"`
	// LatencyMilliseconds is the median of the times of lookups, or of the round-trip times of requests.
	LatencyMilliseconds *float64 `json:"latencyMilliseconds,omitempty"`
	// Name and Record are what is looked up, and Want what it should have.
	Name   string              `json:"name,omitempty"`
	Record podtrial.RecordType `json:"record,omitempty"`
	Want   []string            `json:"want,omitempty"`
	// Addresses are those to which requests are sent.
	Addresses []string `json:"addresses,omitempty"`
	Requests  int      `json:"-"`
	// Answering are the clusters that should answer.
	Answering []string `json:"-"`
	// Sent is the number of lookups or requests, Unanswered of those without the right answer, and AnsweredBy
	// of those that each cluster answered.
	Sent       int            `json:"sent,omitempty"`
	Unanswered int            `json:"unanswered,omitempty"`
	AnsweredBy map[string]int `json:"answeredBy,omitempty"`
}

// Cluster is a cluster that takes part.
type Cluster struct {
	Context   string            `json:"context"`
	ClusterID string            `json:"clusterID"`
	Families  []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// Image is that of its Pods.
	Image string `json:"image,omitempty"`
	// Node is where its client ran.
	Node string `json:"node,omitempty"`
}

// Report is the result of a run.
type Report struct {
	ClusterSet string    `json:"clusterSet"`
	Namespace  string    `json:"namespace"`
	Service    string    `json:"service"`
	Clusters   []Cluster `json:"clusters"`
	// NotTested are the members without a context.
	NotTested []string `json:"notTested,omitempty"`
	Passed    bool     `json:"passed"`
	Checks    []Check  `json:"checks"`
}

// outcome is what a client saw, or why there is nothing.
type outcome struct {
	results podtrial.Results
	failure string
}

// judge sets the results of pending checks. Outcomes are by cluster ID.
func judge(checks []Check, outcomes map[string]outcome) []Check {
	judged := slices.Clone(checks)
	for i := range judged {
		check := &judged[i]
		seen, found := outcomes[check.From]
		switch {
		case check.Result != Pending:
		case !found:
			check.Result, check.Reason = NotTried, "there was no client in this cluster"
		case seen.failure != "":
			check.Result, check.Reason = NotTried, seen.failure
		case check.Means == DNS:
			check.judgeLookup(seen.results)
		default:
			check.judgeContacts(seen.results)
		}
	}
	judgeBalance(judged)
	return judged
}

// judgeBalance sees that each cluster behind an IP answered requests. A few over TCP or UDP alone may all have
// led to others by chance.
func judgeBalance(checks []Check) {
	type answer struct {
		from, cluster string
		family        corev1.IPFamily
	}
	answered := map[answer]bool{}
	for i := range checks {
		for cluster := range checks[i].AnsweredBy {
			if checks[i].Path == ClusterSetIP {
				answered[answer{checks[i].From, cluster, checks[i].Family}] = true
			}
		}
	}
	for i := range checks {
		check := &checks[i]
		if check.Path != ClusterSetIP || check.Means == DNS || check.Result != OK {
			continue
		}
		silent := slices.DeleteFunc(slices.Clone(check.Answering), func(cluster string) bool { return answered[answer{check.From, cluster, check.Family}] })
		if len(silent) > 0 {
			check.Result, check.LatencyMilliseconds = Failed, nil
			check.Reason = fmt.Sprintf("%s never answered as a server of cluster %s", strings.Join(check.Addresses, ", "), strings.Join(silent, ", "))
		}
	}
}

func (c *Check) judgeLookup(results podtrial.Results) {
	at := slices.IndexFunc(results.Lookups, func(lookup podtrial.Lookup) bool { return lookup.Name == c.Name && lookup.Type == c.Record })
	if at < 0 {
		c.Result, c.Reason = NotTried, "the client did not look it up"
		return
	}
	lookup := results.Lookups[at]
	c.Sent, c.Unanswered = lookup.Sent, lookup.Failed
	switch {
	case lookup.Outcome != podprobe.Succeeded:
		c.Result, c.Reason = Failed, fmt.Sprintf("%s %s: %s", c.Name, c.Record, describe(lookup.Outcome, lookup.Error))+some(lookup.Failed, lookup.Sent, "lookups")
	case !slices.Equal(slices.Sorted(slices.Values(c.Want)), slices.Sorted(slices.Values(lookup.Got))):
		c.Result, c.Reason = Failed, fmt.Sprintf("%s %s is %s instead of %s", c.Name, c.Record, orNothing(lookup.Got), orNothing(c.Want))+some(lookup.Failed, lookup.Sent, "lookups")
	default:
		c.Result, c.LatencyMilliseconds = OK, milliseconds(lookup.Took)
	}
}

func orNothing(items []string) string { return cmp.Or(strings.Join(items, ", "), "nothing") }

// judgeContacts judges requests, which all have to be answered, and by the right cluster.
func (c *Check) judgeContacts(results podtrial.Results) {
	c.Result = OK
	var slowest time.Duration
	for _, address := range c.Addresses {
		at := slices.IndexFunc(results.Contacts, func(contact podtrial.Contact) bool {
			return contact.Network == podtrial.Network(c.Means) && contact.Address == address
		})
		if at < 0 {
			c.Result, c.Reason = NotTried, fmt.Sprintf("the client did not try %s", address)
			return
		}
		contact := results.Contacts[at]
		c.Sent, c.Unanswered, slowest = c.Sent+contact.Sent, c.Unanswered+contact.Failed, max(slowest, contact.RoundTrip)
		for cluster, count := range contact.Clusters {
			if c.AnsweredBy == nil {
				c.AnsweredBy = map[string]int{}
			}
			c.AnsweredBy[cluster] += count
			if !slices.Contains(c.Answering, cluster) {
				c.Result, c.Reason = Failed, fmt.Sprintf("%s answered as a server of cluster %s instead of %s: both clusters use this address", address, cluster, strings.Join(c.Answering, ", "))
			}
		}
		if contact.Outcome != podprobe.Succeeded && c.Result == OK {
			c.Result, c.Reason = Failed, fmt.Sprintf("%s: %s", address, describe(contact.Outcome, contact.Error))+some(contact.Failed, contact.Sent, "requests")
		}
	}
	if c.Result == OK {
		c.LatencyMilliseconds = milliseconds(slowest)
	}
}

// some says how many failed, unless all of them did.
func some(failed, sent int, what string) string {
	if failed == sent {
		return ""
	}
	return fmt.Sprintf(" (%d of %d %s)", failed, sent, what)
}

func milliseconds(duration time.Duration) *float64 {
	value := float64(duration.Round(10*time.Microsecond)) / float64(time.Millisecond)
	return &value
}

var outcomes = map[podprobe.Outcome]string{
	podprobe.NotFound: "the name does not exist", podprobe.TimedOut: "timed out", podprobe.Refused: "refused: nothing listens there, or a firewall rejects",
	podprobe.Unreachable: "unreachable: there is no route",
}

func describe(outcome podprobe.Outcome, message string) string {
	return cmp.Or(outcomes[outcome], message, string(outcome))
}

// passed reports whether everything that applies works. If nothing applies, nothing is known to.
func passed(checks []Check) bool {
	worked := false
	for i := range checks {
		switch checks[i].Result {
		case OK:
			worked = true
		case NotApplicable:
		default:
			return false
		}
	}
	return worked
}

// failure is a reason why checks failed, and what they have in common.
type failure struct {
	from, to, reason string
	what             []string
	tried            bool
}

// failuresOf returns what failed, one entry for each reason.
func failuresOf(checks []Check) []failure {
	var found []failure
	for i := range checks {
		check := &checks[i]
		if check.Result != Failed && check.Result != NotTried {
			continue
		}
		at := slices.IndexFunc(found, func(f failure) bool { return f.from == check.From && f.to == check.To && f.reason == check.Reason })
		if at < 0 {
			at = len(found)
			found = append(found, failure{from: check.From, to: check.To, reason: check.Reason, tried: check.Result == Failed})
		}
		found[at].what = append(found[at].what, check.title())
	}
	return found
}

// title says what is checked.
func (c *Check) title() string {
	switch {
	case c.Record == podtrial.SRV:
		return fmt.Sprintf("%s SRV", c.Path)
	case c.Means == DNS:
		return fmt.Sprintf("%s DNS/%s", c.Path, c.Family)
	}
	return fmt.Sprintf("%s %s/%s", c.Path, c.Means, c.Family)
}

// answeredBy returns how many requests each cluster answered, as text.
func answeredBy(checks []Check) string {
	sum := map[string]int{}
	for i := range checks {
		for cluster, count := range checks[i].AnsweredBy {
			sum[cluster] += count
		}
	}
	var parts []string
	for _, cluster := range slices.Sorted(maps.Keys(sum)) {
		parts = append(parts, fmt.Sprintf("%s %d", cluster, sum[cluster]))
	}
	return strings.Join(parts, ", ")
}
