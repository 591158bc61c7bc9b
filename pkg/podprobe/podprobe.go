// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podprobe looks up a name and connects to addresses, as any program in the same Pod would. It
// is what `mcs-controller probe` does in the Pod of `kubectl mcs doctor`, and the form of its output.
package podprobe

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// Request is what to try.
type Request struct {
	// Name is looked up, without search domains. Nothing is if it is empty.
	Name string
	// ServiceAddresses with ports are those of the service. They are connected several times, because each
	// connection may lead to another endpoint.
	ServiceAddresses []string
	// Addresses with ports are those of endpoints.
	Addresses []string
	// Timeout limits each attempt.
	Timeout time.Duration
}

// Names of the flags.
const (
	NameFlag           = "name"
	ServiceAddressFlag = "service-address"
	AddressFlag        = "address"
	TimeoutFlag        = "timeout"
)

// Attempts is how often the address of a service is connected.
const Attempts = 5

// Args returns the arguments of the command for a request.
func (r Request) Args() []string {
	args := []string{"--" + TimeoutFlag + "=" + r.Timeout.String()}
	if r.Name != "" {
		args = append(args, "--"+NameFlag+"="+r.Name)
	}
	for _, address := range r.ServiceAddresses {
		args = append(args, "--"+ServiceAddressFlag+"="+address)
	}
	for _, address := range r.Addresses {
		args = append(args, "--"+AddressFlag+"="+address)
	}
	return args
}

// Outcome is how an attempt ended.
type Outcome string

// Outcomes. NotFound is for names, Refused and Unreachable are for connections.
const (
	Succeeded   Outcome = "Succeeded"
	NotFound    Outcome = "NotFound"
	TimedOut    Outcome = "TimedOut"
	Refused     Outcome = "Refused"
	Unreachable Outcome = "Unreachable"
	Failed      Outcome = "Failed"
)

// Lookup is the result of looking up a name.
type Lookup struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"`
	Outcome   Outcome  `json:"outcome"`
	Error     string   `json:"error,omitempty"`
	// Servers are those in the resolv.conf.
	Servers []string `json:"servers,omitempty"`
}

// Connection is the result of connecting to an address.
type Connection struct {
	Address      string  `json:"address"`
	Outcome      Outcome `json:"outcome"`
	Error        string  `json:"error,omitempty"`
	Milliseconds int64   `json:"milliseconds"`
}

// Line is a line of the output. One of its fields is set.
type Line struct {
	Lookup     *Lookup     `json:"lookup,omitempty"`
	Connection *Connection `json:"connection,omitempty"`
	// Done is the last line: everything was tried.
	Done bool `json:"done,omitempty"`
}

// Results is the whole output.
type Results struct {
	Lookup      *Lookup
	Connections []Connection
	// Done is false if the output is not complete.
	Done bool
}

// maxLine limits how long a line may be.
const maxLine = 1 << 20

// Parse reads the output.
func Parse(output io.Reader) (Results, error) {
	var results Results
	err := EachLine(output, func(line Line) {
		if line.Lookup != nil {
			results.Lookup = line.Lookup
		}
		if line.Connection != nil {
			results.Connections = append(results.Connections, *line.Connection)
		}
		results.Done = results.Done || line.Done
	})
	return results, err
}

// EachLine calls a function for every line of an output that is JSON. Other lines, such as those of a log,
// are ignored.
func EachLine[T any](output io.Reader, do func(T)) error {
	scanner := bufio.NewScanner(output)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var line T
		if text := strings.TrimSpace(scanner.Text()); strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &line) == nil {
			do(line)
		}
	}
	return scanner.Err()
}
