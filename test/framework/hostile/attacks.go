// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"iter"
	"slices"
	"time"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Target is what a hostile member attacks.
type Target struct {
	// ID is the ID of the hostile member, Importer that of the cluster that reads it,
	// and Honest that of another member.
	ID, Importer, Honest string
	// ClusterSet is the ClusterSet of all of them.
	ClusterSet string
	// Namespace is a namespace of the importer, and Services are those that the honest
	// member exports there.
	Namespace string
	Services  []string
	// Own are addresses of Nodes, Services and Pods of the importer.
	Own []string
	// SharedIP is the shared ClusterSet IP of a service of the importer, and FreeIP is one
	// that the importer could allocate.
	SharedIP, FreeIP string
	// Elsewhere is the URL of a server that must not receive any request.
	Elsewhere string
}

// Attack is something that a hostile member does.
type Attack struct {
	// Name is a DNS label, so that it can be the ID of the member, too.
	Name string
	// Behavior returns what the member does.
	Behavior func(Target) Behavior
	// Secret has additional keys of the member Secret.
	Secret map[string]string
	// Reported is the condition of the Member that reports it, nil if none is promised.
	Reported *Report
	// Reporter is the number of the cluster behind the hostile member whose Member reports it,
	// zero for that of the hostile member itself.
	Reporter int
	// Imported is how many Services of the member are imported nevertheless, at least; -1
	// if any number may be. If it is 0, none is.
	Imported int
	// Sent is how often something must have been sent, at least; once by default.
	Sent int
	// Most is how often anything may be sent, at most: it is not read as fast as it is
	// sent. If it is 0, there is no limit.
	Most int
	// Lasts is how long it takes until what it does could be seen, at least.
	Lasts time.Duration
}

// Report is a condition of a Member that is not True.
type Report struct {
	Condition, Reason string
	// Parts are parts of the message.
	Parts []string
}

// Behind returns the ID of a cluster that a hostile member relays as a hub.
func Behind(id string, number int) string { return fmt.Sprintf("%s-behind-%d", id, number) }

// ReportingMember returns the name of the Member that reports the attack.
func (a Attack) ReportingMember() string {
	if a.Reporter > 0 {
		return Behind(a.Name, a.Reporter)
	}
	return a.Name
}

// Identities returns the ID of a hostile member and those of the clusters behind it.
func Identities(id string) []string { return []string{id, Behind(id, 1), Behind(id, 2)} }

// Attacks returns all attacks.
func Attacks() []Attack {
	return slices.Concat(connectionAttacks(), sizeAttacks(), floodAttacks(), contentAttacks(), identityAttacks(), tokenAttacks(), DecisionAttacks())
}

// refused is the report of objects that are refused for a reason.
func refused(reason string, parts ...string) *Report {
	return &Report{"Synced", "InvalidObjects", append([]string{reason + ": "}, parts...)}
}

// unsynced is the report of a feed that cannot be read.
func unsynced(reason string, parts ...string) *Report { return &Report{"Synced", reason, parts} }

// numbered returns objects with numbers from 0.
func numbered(count int, object func(number int) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for number := range count {
			if !yield(object(number)) {
				return
			}
		}
	}
}

// services returns Services of the member, named service-0, service-1 and so on.
func (t Target) services(count int) Resource {
	return Resource{Objects: numbered(count, func(number int) string { return t.service(number) })}
}

func (t Target) service(number int, changes ...func(*clustersetv1alpha1.ExportedService)) string {
	return Service(t.Namespace, fmt.Sprintf("service-%d", number), t.ID, changes...)
}

// slice returns an EndpointSlice of service-0, service-1 and so on.
func (t Target) slice(service int, addresses []string, changes ...func(*clustersetv1alpha1.ExportedEndpointSlice)) string {
	name := fmt.Sprintf("service-%d", service)
	return Slice(t.Namespace, name, name, t.ID, addresses, changes...)
}

// PodCIDRs returns the CIDRs of all addresses that Pods of the member may have.
func PodCIDRs() []string { return []string{"10.20.0.0/14", "10.24.0.0/13", "10.32.0.0/14"} }

// podAddress returns an address that a Pod of the member may have.
func podAddress(number int) string {
	return fmt.Sprintf("10.%d.%d.%d", 20+number>>16&0xf, number>>8&0xff, number&0xff)
}

func podAddresses(first, count int) []string {
	var addresses []string
	for number := range count {
		addresses = append(addresses, podAddress(first+number))
	}
	return addresses
}
