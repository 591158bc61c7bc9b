// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

const srvRecord = "SRV"

// clusterSetZone is the DNS zone of the ClusterSet.
const clusterSetZone = "clusterset.local"

// dnsRecord is a DNS record of the service in this cluster. It has no answers if
// the service is not imported.
type dnsRecord struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Answers are addresses, or for SRV a port number and a name.
	Answers []string `json:"answers,omitempty"`
}

// dnsRecords returns the records that the KEP specifies: first those of the
// service, then those of its ports, then those of its Pods.
func dnsRecords(facts Facts, merged multiclusterxv1beta1.ServiceImportSpec) []dnsRecord {
	domain := fmt.Sprintf("%s.%s.svc.%s", facts.Service, facts.Namespace, clusterSetZone)
	// served are the IP families with answers: those that this cluster supports, if
	// the service is imported.
	families, served := merged.IPFamilies, []corev1.IPFamily(nil)
	if facts.ServiceImport != nil {
		served = facts.ServiceImport.Spec.IPFamilies
	}
	if len(served) > 0 {
		families = served
	}
	addresses, ports := []dnsRecord{}, []dnsRecord{} // none are an empty list in JSON
	for _, family := range families {
		addresses = append(addresses, dnsRecord{Name: domain, Type: addressRecord(family)})
	}
	for _, port := range merged.Ports {
		if port.Name != "" { // unnamed ports have no record
			ports = append(ports, dnsRecord{Name: fmt.Sprintf("_%s._%s.%s", port.Name, strings.ToLower(string(port.Protocol)), domain), Type: srvRecord})
		}
	}
	records := append(addresses, ports...)
	if merged.Type == multiclusterxv1beta1.Headless || facts.ServiceImport != nil && facts.ServiceImport.Spec.Type == multiclusterxv1beta1.Headless {
		return answerHeadless(records, facts, merged.Ports, served, domain)
	}
	if facts.ServiceImport != nil {
		answerIPs(records, facts.ServiceImport.Spec.IPs, merged.Ports, domain)
	}
	return records
}

// answerIPs adds the answers for a service with IPs.
func answerIPs(records []dnsRecord, ips []string, ports []multiclusterxv1beta1.ServicePort, domain string) {
	for i := range records {
		record := &records[i]
		for _, ip := range ips {
			if record.Type == addressRecord(familyOf(ip)) {
				record.Answers = append(record.Answers, ip)
			}
		}
		if port := portOf(*record, ports); port != nil && len(ips) > 0 {
			record.Answers = []string{fmt.Sprintf("%d %s", port.Port, domain)}
		}
	}
}

// answerHeadless adds the answers for a headless service: all ready endpoints that
// are used, and records for the Pods that have a host name.
func answerHeadless(records []dnsRecord, facts Facts, ports []multiclusterxv1beta1.ServicePort, served []corev1.IPFamily, domain string) []dnsRecord {
	var hosts []dnsRecord
	forEachReady(facts, served, func(cluster *clustersetv1alpha1.ExportedServiceSpec, slice *clustersetv1alpha1.ExportedEndpointSliceSpec, endpoint discoveryv1.Endpoint) {
		family, host := addressRecord(corev1.IPFamily(slice.AddressType)), hostName(endpoint, cluster.Cluster, domain)
		for i := range records {
			record := &records[i]
			if record.Type == family {
				record.Answers = append(record.Answers, endpoint.Addresses...)
			}
			port := portOf(*record, ports)
			if port == nil || host == "" {
				continue
			}
			number, ok := merge.TargetPort(cluster.Ports, slice.Ports, port.Protocol, port.Port)
			if answer := fmt.Sprintf("%d %s", number, host); ok && !slices.Contains(record.Answers, answer) {
				record.Answers = append(record.Answers, answer)
			}
		}
		if host != "" {
			hosts = addAnswers(hosts, dnsRecord{Name: host, Type: family, Answers: endpoint.Addresses})
		}
	})
	return append(records, hosts...)
}

// forEachReady calls a function for every ready endpoint of these families that is
// used.
func forEachReady(facts Facts, families []corev1.IPFamily, visit func(*clustersetv1alpha1.ExportedServiceSpec, *clustersetv1alpha1.ExportedEndpointSliceSpec, discoveryv1.Endpoint)) {
	for i := range facts.Exports {
		export := &facts.Exports[i].Spec
		if member := members.Find(facts.Members, export.Cluster); member != nil && IsWithdrawn(&member.Status) {
			continue
		}
		for j := range facts.Slices {
			slice := &facts.Slices[j].Spec
			if slice.Cluster != export.Cluster || !slices.Contains(families, corev1.IPFamily(slice.AddressType)) {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if exported.IsReady(endpoint) {
					visit(export, slice, endpoint)
				}
			}
		}
	}
}

// addAnswers adds a record, or its answers to the record with its name and type.
func addAnswers(records []dnsRecord, record dnsRecord) []dnsRecord {
	at := slices.IndexFunc(records, func(other dnsRecord) bool { return other.Name == record.Name && other.Type == record.Type })
	if at < 0 {
		return append(records, dnsRecord{record.Name, record.Type, slices.Clone(record.Answers)})
	}
	records[at].Answers = append(records[at].Answers, record.Answers...)
	return records
}

// hostName returns the DNS name of a Pod. It is empty if the Pod has no host name
// or if the name is too long for DNS.
func hostName(endpoint discoveryv1.Endpoint, cluster, domain string) string {
	if endpoint.Hostname == nil || *endpoint.Hostname == "" {
		return ""
	}
	name := fmt.Sprintf("%s.%s.%s", *endpoint.Hostname, cluster, domain)
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return ""
	}
	return name
}

// portOf returns the port of an SRV record, or nil for other records.
func portOf(record dnsRecord, ports []multiclusterxv1beta1.ServicePort) *multiclusterxv1beta1.ServicePort {
	for i := range ports {
		if record.Type == srvRecord && ports[i].Name != "" && strings.HasPrefix(record.Name, "_"+ports[i].Name+"._") {
			return &ports[i]
		}
	}
	return nil
}

// familyOf returns the IP family of an address. The constants of k8s.io/utils/net
// are not those of the Kubernetes API.
func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func addressRecord(family corev1.IPFamily) string {
	if family == corev1.IPv6Protocol {
		return "AAAA"
	}
	return "A"
}
