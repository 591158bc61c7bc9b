// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records what a test did to a ClusterSet, and what clients of its clusters
// saw, as lines of JSON. What happened is decided afterwards, from the lines alone, so that a
// run can be checked again.
package history

import (
	"encoding/json"
	"time"
)

// Entry is one line. Exactly one of the pointers is set.
type Entry struct {
	// Line is the number of the line in the file, from 1.
	Line int `json:"-"`
	// At is when the test recorded the entry. All entries have the same clock.
	At time.Time `json:"at"`

	Run        *Run        `json:"run,omitempty"`
	Invoke     *Change     `json:"invoke,omitempty"`
	Complete   *Completion `json:"complete,omitempty"`
	Fault      *Fault      `json:"fault,omitempty"`
	Watch      *Watch      `json:"watch,omitempty"`
	Lookup     *Lookup     `json:"lookup,omitempty"`
	Connection *Connection `json:"connection,omitempty"`
	Final      *Final      `json:"final,omitempty"`
}

// String returns the entry as in the file.
func (e Entry) String() string {
	line, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(line)
}

// Run is the first line: what was run, and which times were promised.
type Run struct {
	Seed     uint64   `json:"seed"`
	Clusters []string `json:"clusters"`
	// TTL is for how long a member may be silent before its endpoints are withdrawn.
	TTL time.Duration `json:"ttl"`
	// Probing is how long before a fault a member may have been seen for the last time, and
	// how long after it it may not be seen yet. Looking is how old what is known of the
	// endpoints of a silent member may be.
	Probing time.Duration `json:"probing"`
	Looking time.Duration `json:"looking"`
	// Propagation is how long a change may take to arrive everywhere while there is no fault,
	// and Recovery how long after a fault everything may take to work again.
	Propagation time.Duration `json:"propagation"`
	Recovery    time.Duration `json:"recovery"`
	// RequestTimeout is after which time a request without an answer has no effect any more.
	RequestTimeout time.Duration `json:"requestTimeout"`
}

// Operations of a Change.
const (
	CreateNamespace = "create-namespace"
	DeleteNamespace = "delete-namespace"
	CreateService   = "create-service"
	DeleteService   = "delete-service"
	Export          = "export"
	Unexport        = "unexport"
	SetEndpoints    = "set-endpoints"
)

// Service names a service in all clusters.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
}

func (s Service) String() string { return s.Namespace + "/" + s.Name }

// Change is a change that the test is about to make. Changes of one service in one cluster do
// not overlap.
type Change struct {
	ID        int    `json:"id"`
	Cluster   string `json:"cluster"`
	Operation string `json:"operation"`
	Service
	// Spec is that of a Service that is created.
	Spec *Spec `json:"spec,omitempty"`
	// Endpoints are the addresses of a Service from now on.
	Endpoints []string `json:"endpoints,omitempty"`
}

// Spec is what is merged of a Service.
type Spec struct {
	Headless        bool   `json:"headless,omitempty"`
	SessionAffinity string `json:"sessionAffinity,omitempty"`
	Ports           []Port `json:"ports"`
}

// Port is a port of a Service or an import.
type Port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
}

// Outcomes of a Change.
const (
	OK   = "ok"
	Fail = "fail"
	// Unknown means that there was no answer. If the test finds out later, another Completion
	// follows: OK if the change happened, Fail if it had not happened by then.
	Unknown = "unknown"
)

// Completion is the outcome of a Change.
type Completion struct {
	ID      int    `json:"id"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	// Created is when the ServiceExport was created, according to the API.
	Created time.Time `json:"created,omitzero"`
}

// Fault is the begin or the end of a fault.
type Fault struct {
	ID   int    `json:"id"`
	Kind string `json:"kind"`
	// Clusters are one cluster, or two: a fault of the link between them.
	Clusters []string `json:"clusters"`
	Detail   string   `json:"detail,omitempty"`
	// Cut is set if nothing crosses the link in at least one direction: neither the API of the
	// clusters nor their endpoints can be reached by each other.
	Cut bool `json:"cut,omitempty"`
	// Lossy is set if packets between the clusters are late or lost, so that endpoints that
	// are alive may seem not to answer.
	Lossy bool   `json:"lossy,omitempty"`
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

// Resources that are watched.
const (
	Imports = "serviceimports"
	Slices  = "endpointslices"
)

// Types of what a client of the API saw.
const (
	// Listed is a complete list, with which a watch begins if it goes on afterwards.
	Listed = "LISTED"
	// Resumed is a watch that goes on from a resourceVersion.
	Resumed  = "RESUMED"
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	// Closed is the end of a watch, or of a list that is not followed by a watch.
	Closed = "CLOSED"
)

// Watch is something that a client of the API saw.
type Watch struct {
	Cluster  string `json:"cluster"`
	Resource string `json:"resource"`
	// Client distinguishes clients of one resource of a cluster.
	Client          string   `json:"client"`
	Type            string   `json:"type"`
	ResourceVersion string   `json:"rv,omitempty"`
	Object          *Object  `json:"object,omitempty"`
	Items           []Object `json:"items,omitempty"`
	Error           string   `json:"error,omitempty"`
}

// Object is a ServiceImport, or an imported EndpointSlice.
type Object struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	UID       string  `json:"uid"`
	Import    *Import `json:"import,omitempty"`
	Slice     *Slice  `json:"slice,omitempty"`
}

// Import is what is compared of a ServiceImport.
type Import struct {
	Spec
	IPs      []string `json:"ips,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
}

// Slice is what is compared of an imported EndpointSlice.
type Slice struct {
	// Service is the name of the service, and Cluster its source cluster.
	Service   string   `json:"service"`
	Cluster   string   `json:"cluster"`
	Addresses []string `json:"addresses,omitempty"`
}

// Lookup is an answer of DNS.
type Lookup struct {
	Cluster string `json:"cluster"`
	Service
	// Answers are addresses. NotFound means that DNS said that the name does not exist.
	Answers  []string `json:"answers,omitempty"`
	NotFound bool     `json:"notFound,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// Connection is an attempt to connect to a service.
type Connection struct {
	Cluster string `json:"cluster"`
	Service
	Began time.Time `json:"began"`
	// Backend is where the connection arrived: a cluster, and an address in it.
	BackendCluster string `json:"backendCluster,omitempty"`
	BackendAddress string `json:"backendAddress,omitempty"`
	// Refused means that the network said that nobody serves the address.
	Refused bool   `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Final is what exists in a cluster when all changes have been made, read from its API.
type Final struct {
	Cluster  string         `json:"cluster"`
	Services []FinalService `json:"services"`
	// Namespaces are those of the test that exist.
	Namespaces []string `json:"namespaces"`
}

// FinalService is a service as it is in its cluster in the end.
type FinalService struct {
	Service
	// Spec is nil if there is no Service.
	Spec *Spec `json:"spec,omitempty"`
	// Exported is when the ServiceExport was created, and zero if there is none.
	Exported  time.Time `json:"exported,omitzero"`
	Endpoints []string  `json:"endpoints,omitempty"`
}
