// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podtrial is what the Pods of `kubectl mcs test` do, with `mcs-controller trial`: a server that
// says in which cluster it runs, and a client that looks up names, sends requests over TCP and UDP, and
// prints how that ended, as any program in the same Pod would see it.
package podtrial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

// Names of the flags of `mcs-controller trial`.
const (
	KeyFlag     = "key"
	ClusterFlag = "cluster"
	PortFlag    = "port"
	PlanFlag    = "plan"
)

// Port is where the server listens, over TCP and UDP.
const Port = 8080

// Identity is what a server says about itself.
type Identity struct {
	// Cluster is the ID of its cluster.
	Cluster string `json:"cluster"`
	// Pod is the name of its Pod.
	Pod string `json:"pod,omitempty"`
}

// Network is a transport protocol.
type Network string

// Networks.
const (
	TCP Network = "TCP"
	UDP Network = "UDP"
)

// RecordType is a type of DNS records.
type RecordType string

// Record types.
const (
	A    RecordType = "A"
	AAAA RecordType = "AAAA"
	SRV  RecordType = "SRV"
)

// Query is a name to look up, without search domains.
type Query struct {
	Name string     `json:"name"`
	Type RecordType `json:"type"`
	// Want are the addresses of the name, or the targets of SRV records with their ports, as host:port.
	// The name is looked up until it has exactly these several times in a row, or the time is over.
	Want []string `json:"want"`
}

// Target is an address to which requests are sent.
type Target struct {
	Network Network `json:"network"`
	// Address has a port.
	Address string `json:"address"`
	// Requests is how many are sent once the first was answered.
	Requests int `json:"requests"`
	// Clusters are those of which each has to answer before, if there are several behind the address:
	// kube-proxy may not know all of them yet.
	Clusters []string `json:"clusters,omitempty"`
}

// Plan is what a client tries.
type Plan struct {
	// Key is known to the servers and clients of a run only.
	Key     string   `json:"key"`
	Queries []Query  `json:"queries,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	// Patience is how long names and addresses may take to appear: DNS and kube-proxy lag behind the API.
	Patience time.Duration `json:"patience"`
	// Timeout limits each attempt.
	Timeout time.Duration `json:"timeout"`
}

// Validate returns an error for a plan that cannot be tried.
func (p Plan) Validate() error {
	switch {
	case p.Key == "":
		return errors.New("the plan has no key")
	case p.Patience <= 0 || p.Timeout <= 0:
		return fmt.Errorf("the plan has patience %s and timeout %s: both must be positive", p.Patience, p.Timeout)
	}
	return nil
}

// Args returns the arguments of the command for a plan.
func (p Plan) Args() ([]string, error) {
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return []string{"--" + PlanFlag + "=" + string(encoded)}, nil
}

// Lookup is the result of a query.
type Lookup struct {
	Name string     `json:"name"`
	Type RecordType `json:"type"`
	// Got is what the name has, like Query.Want, in the first lookup in which it did not have what is
	// wanted, if any. Outcome and Error are those of the same lookup.
	Got     []string         `json:"got,omitempty"`
	Outcome podprobe.Outcome `json:"outcome"`
	Error   string           `json:"error,omitempty"`
	// Sent and Failed are the number of lookups. Attempts before the last ones in a row do not count.
	Sent   int `json:"sent"`
	Failed int `json:"failed,omitempty"`
	// Took is the median of the times of lookups that had what is wanted.
	Took time.Duration `json:"took"`
}

// Contact is the result of the requests to a target.
type Contact struct {
	Network Network `json:"network"`
	Address string  `json:"address"`
	// Outcome is that of the first request that was not answered, or Succeeded.
	Outcome podprobe.Outcome `json:"outcome"`
	Error   string           `json:"error,omitempty"`
	// Sent and Failed are the number of requests. Attempts before all clusters answered do not count.
	Sent   int `json:"sent"`
	Failed int `json:"failed,omitempty"`
	// Clusters is how many requests servers of each cluster answered.
	Clusters map[string]int `json:"clusters,omitempty"`
	// RoundTrip is the median of the times between a request and its answer, on connections that were
	// established before.
	RoundTrip time.Duration `json:"roundTrip,omitempty"`
}

// Line is a line of the output. One of its fields is set.
type Line struct {
	Lookup  *Lookup  `json:"lookup,omitempty"`
	Contact *Contact `json:"contact,omitempty"`
	// Done is the last line: everything was tried.
	Done bool `json:"done,omitempty"`
}

// Results is the whole output.
type Results struct {
	Lookups  []Lookup
	Contacts []Contact
	// Done is false if the output is not complete.
	Done bool
}

// Parse reads the output. Other lines, such as those of a log, are ignored.
func Parse(output io.Reader) (Results, error) {
	var results Results
	err := podprobe.EachLine(output, func(line Line) {
		if line.Lookup != nil {
			results.Lookups = append(results.Lookups, *line.Lookup)
		}
		if line.Contact != nil {
			results.Contacts = append(results.Contacts, *line.Contact)
		}
		results.Done = results.Done || line.Done
	})
	return results, err
}
