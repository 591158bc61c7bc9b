// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func validService() *clusterset.ExportedService {
	return &clusterset.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web.b", Labels: clusterset.SourceLabels("b", "web")},
		Spec: clusterset.ExportedServiceSpec{
			Cluster: "b", Service: "web", ExportedAt: metav1.NewTime(time.Unix(1, 0)), Type: clusterset.ClusterSetIP,
			Ports:      []clusterset.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, AppProtocol: ptr.To("kubernetes.io/h2c")}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, SessionAffinity: corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](10800)}},
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: ptr.To("PreferSameZone"),
			ClusterPreference: []string{"cluster", "property:region.example.com", "tier-of-a:newer/release"}, PreferenceMinReady: 2,
			ExportedLabels: map[string]string{"app": "web"}, ExportedAnnotations: map[string]string{"example.com/x": "any text\n"},
			Path: []string{"b", "h"},
		},
	}
}

var year10000 = metav1.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))

func validSlice() *clusterset.ExportedEndpointSlice {
	return &clusterset.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-x1.b", Labels: clusterset.SourceLabels("b", "web")},
		Spec: clusterset.ExportedEndpointSliceSpec{
			Cluster: "b", Service: "web", AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Hostname: ptr.To("web-0"), Zone: ptr.To("z")}},
			Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}, {Name: ptr.To("")}},
		},
	}
}

// expectError verifies that the only invalid field is path, or that none is if
// path is empty.
func expectError(t *testing.T, errs field.ErrorList, path string) {
	t.Helper()
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	slices.Sort(fields)
	if fields = slices.Compact(fields); strings.Join(fields, " ") != path {
		t.Errorf("errors at %v, want %q: %v", fields, path, errs)
	}
}

func TestValidExportsAreAccepted(t *testing.T) {
	expectError(t, ValidateExportedService(validService()), "")
	expectError(t, ValidateExportedEndpointSlice(validSlice()), "")
	// R43: a headless service needs no ports; R38: the protocol is optional; R37:
	// the name of the only port is optional.
	headless := validService()
	headless.Spec.Type, headless.Spec.Ports, headless.Spec.SessionAffinityConfig = clusterset.Headless, nil, &corev1.SessionAffinityConfig{}
	expectError(t, ValidateExportedService(headless), "")
	single := validService()
	single.Spec.Ports, single.Spec.SessionAffinity = []clusterset.ServicePort{{Port: 65535}}, ""
	expectError(t, ValidateExportedService(single), "")
	empty := validSlice()
	empty.Spec.Endpoints, empty.Spec.Ports = nil, nil
	expectError(t, ValidateExportedEndpointSlice(empty), "")
	for _, audience := range []*clusterset.Audience{clusterset.NewAudience(), clusterset.NewAudience("c", "b")} {
		restricted := validService()
		restricted.Spec.Audience = audience
		expectError(t, ValidateExportedService(restricted), "")
	}
	// The truncated form of the longest names is valid.
	long := validService()
	long.Spec.Cluster, long.Spec.Service, long.Spec.Path = strings.Repeat("c", 63), strings.Repeat("s", 63), nil
	long.Name, long.Labels = clusterset.ObjectName(long.Spec.Service, long.Spec.Cluster), clusterset.SourceLabels(long.Spec.Cluster, long.Spec.Service)
	expectError(t, ValidateExportedService(long), "")
}

// R5, R35, R37, R38: every field of an exported Service is validated.
func TestInvalidServiceFieldsAreRejected(t *testing.T) {
	type service = clusterset.ExportedService
	for path, changes := range map[string][]func(*service){
		"metadata.name": {func(s *service) { s.Name = "web.c" }, func(s *service) { s.Name = "" }, func(s *service) { s.Name = "../web.b" }},
		// R366: years that cannot be decoded after they were encoded in UTC.
		"metadata.creationTimestamp": {func(s *service) { s.CreationTimestamp = year10000 }},
		"spec.effectiveAt":           {func(s *service) { s.Spec.EffectiveAt = year10000 }},
		"spec.clusterSetIP.since": {func(s *service) {
			s.Spec.ClusterSetIP = &clusterset.ClusterSetIPDecision{DecidedBy: "b", Since: year10000}
		}},
		"metadata.namespace": {func(s *service) { s.Namespace = "" }, func(s *service) { s.Namespace = "a/b" }, func(s *service) { s.Namespace = "a.b" }},
		"metadata.labels[" + multicluster.SourceClusterLabel + "]": {func(s *service) { s.Labels[multicluster.SourceClusterLabel] = "c" }},
		"metadata.labels[" + multicluster.ServiceNameLabel + "]":   {func(s *service) { delete(s.Labels, multicluster.ServiceNameLabel) }},
		"spec.exportedAt": {func(s *service) { s.Spec.ExportedAt = metav1.Time{} }},
		"spec.type":       {func(s *service) { s.Spec.Type = "ExternalName" }, func(s *service) { s.Spec.Type = "" }},
		// R509: a cluster has no Service with an IP and without ports.
		"spec.ports": {func(s *service) { s.Spec.Ports = numberedPorts(clusterset.MaxPorts + 1) }, func(s *service) { s.Spec.Ports = nil }},
		"spec.ports[0].port": {
			func(s *service) { s.Spec.Ports[0].Port = 0 }, func(s *service) { s.Spec.Ports[0].Port = -1 }, func(s *service) { s.Spec.Ports[0].Port = 65536 },
		},
		"spec.ports[0].protocol":    {func(s *service) { s.Spec.Ports[0].Protocol = "ICMP" }, func(s *service) { s.Spec.Ports[0].Protocol = "tcp" }},
		"spec.ports[0].name":        {func(s *service) { s.Spec.Ports[0].Name = "" }, func(s *service) { s.Spec.Ports[0].Name = "a.b" }},
		"spec.ports[0].appProtocol": {func(s *service) { s.Spec.Ports[0].AppProtocol = ptr.To("not a name") }},
		"spec.sessionAffinity":      {func(s *service) { s.Spec.SessionAffinity = "Cookie" }},
		"spec.sessionAffinityConfig.clientIP.timeoutSeconds": {
			func(s *service) { s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds = ptr.To[int32](0) },
			func(s *service) { s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds = ptr.To[int32](86401) },
		},
		"spec.ipFamilies[1]":         {func(s *service) { s.Spec.IPFamilies[1] = "IPv5" }, func(s *service) { s.Spec.IPFamilies[1] = corev1.IPv4Protocol }},
		"spec.internalTrafficPolicy": {func(s *service) { s.Spec.InternalTrafficPolicy = ptr.To[corev1.ServiceInternalTrafficPolicy]("Any") }},
		"spec.trafficDistribution":   {func(s *service) { s.Spec.TrafficDistribution = ptr.To("not a name") }},
		"spec.preferenceMinReady":    {func(s *service) { s.Spec.PreferenceMinReady = -1 }},
		"spec.clusterPreference":     {func(s *service) { s.Spec.ClusterPreference = slices.Repeat([]string{"cluster"}, maxTiers+1) }},
		"spec.clusterPreference[1]": {
			func(s *service) { s.Spec.ClusterPreference[1] = "" },
			func(s *service) { s.Spec.ClusterPreference[1] = "a,b" },
			func(s *service) { s.Spec.ClusterPreference[1] = "cluster" },
			func(s *service) { s.Spec.ClusterPreference[1] = strings.Repeat("x", 300) },
		},
		"spec.audience.clusters": {
			func(s *service) { s.Spec.Audience = clusterset.JoinAudience([]string{"c", "b"}) },
			func(s *service) {
				s.Spec.Audience = clusterset.JoinAudience(slices.Repeat([]string{"c"}, clusterset.MaxAudience+1))
			},
		},
		"spec.audience.clusters[0]": {
			func(s *service) { s.Spec.Audience = clusterset.NewAudience("", "b") },
			func(s *service) { s.Spec.Audience = clusterset.NewAudience("B", "b") },
			func(s *service) { s.Spec.Audience = clusterset.NewAudience(strings.Repeat("b", 64)) },
		},
		"spec.exportedLabels":      {func(s *service) { s.Spec.ExportedLabels = map[string]string{"app": "not a value!"} }},
		"spec.exportedAnnotations": {func(s *service) { s.Spec.ExportedAnnotations = map[string]string{"not a key!": ""} }, func(s *service) { s.Spec.ExportedAnnotations = map[string]string{"x": strings.Repeat("x", 300<<10)} }},
		"spec.path":                {func(s *service) { s.Spec.Path = slices.Repeat([]string{"b"}, maxPath+1) }},
		"spec.path[0]":             {func(s *service) { s.Spec.Path[0] = "c" }},
		"spec.path[1]":             {func(s *service) { s.Spec.Path[1] = "c.d" }},
	} {
		for i, change := range changes {
			service := validService()
			change(service)
			t.Run(path, func(t *testing.T) {
				expectError(t, ValidateExportedService(service), path)
				if i > 0 && t.Failed() {
					t.Logf("failed for change %d", i)
				}
			})
		}
	}
}

// The cluster ID and the Service name are part of names and labels.
func TestInvalidClusterIDsAndServiceNamesAreRejected(t *testing.T) {
	for _, id := range []string{"", "b.c", "B", strings.Repeat("b", 64), strings.Repeat("b", 300), "b/../c"} {
		service := validService()
		service.Spec.Cluster, service.Labels, service.Spec.Path = id, clusterset.SourceLabels(id, "web"), nil
		expectError(t, ValidateExportedService(service), "spec.cluster")
		slice := validSlice()
		slice.Spec.Cluster, slice.Labels = id, clusterset.SourceLabels(id, "web")
		if !strings.Contains(ValidateExportedEndpointSlice(slice).ToAggregate().Error(), "spec.cluster") {
			t.Errorf("endpoints of cluster %q are accepted", id)
		}
	}
	for _, name := range []string{"", "Web", "a.b", strings.Repeat("w", 300)} {
		service := validService()
		service.Spec.Service, service.Labels = name, clusterset.SourceLabels("b", name)
		expectError(t, ValidateExportedService(service), "spec.service")
	}
}

func TestInvalidEndpointFieldsAreRejected(t *testing.T) {
	type slice = clusterset.ExportedEndpointSlice
	addresses := func(texts ...string) func(*slice) {
		return func(s *slice) { s.Spec.Endpoints[0].Addresses = texts }
	}
	ipv6 := func(text string) func(*slice) {
		return func(s *slice) {
			s.Spec.AddressType = discoveryv1.AddressTypeIPv6
			s.Spec.Endpoints[0].Addresses = []string{text}
		}
	}
	for path, changes := range map[string][]func(*slice){
		// The last name would replace a slice of another cluster.
		"metadata.name":                  {func(s *slice) { s.Name = "" }, func(s *slice) { s.Name = "a/b.b" }, func(s *slice) { s.Name = "web-x1" }, func(s *slice) { s.Name = "web-x1.c" }},
		"metadata.namespace":             {func(s *slice) { s.Namespace = "" }},
		"spec.addressType":               {func(s *slice) { s.Spec.AddressType, s.Spec.Endpoints = discoveryv1.AddressTypeFQDN, nil }},
		"spec.endpoints":                 {func(s *slice) { s.Spec.Endpoints = make([]discoveryv1.Endpoint, maxEndpoints+1) }},
		"spec.endpoints[0].addresses":    {addresses(), addresses(slices.Repeat([]string{"10.0.0.1"}, maxAddresses+1)...)},
		"spec.endpoints[0].addresses[0]": {addresses("x"), addresses(""), addresses("fd00::1"), addresses("010.0.0.1"), addresses("10.0.0.1/8"), ipv6("10.0.0.1"), ipv6("fe80::1%eth0"), ipv6("::ffff:10.0.0.1")},
		"spec.endpoints[0].addresses[1]": {addresses("10.0.0.1", "x")},
		"spec.endpoints[0].hostname":     {func(s *slice) { s.Spec.Endpoints[0].Hostname = ptr.To("a.b") }, func(s *slice) { s.Spec.Endpoints[0].Hostname = ptr.To("") }},
		// R366: a list with it could not be read.
		"spec.changedAt":         {func(s *slice) { s.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(year10000.Time)) }},
		"spec.ports":             {func(s *slice) { s.Spec.Ports = make([]discoveryv1.EndpointPort, maxSlicePorts+1) }},
		"spec.ports[0].port":     {func(s *slice) { s.Spec.Ports[0].Port = ptr.To[int32](0) }},
		"spec.ports[0].protocol": {func(s *slice) { s.Spec.Ports[0].Protocol = ptr.To[corev1.Protocol]("x") }},
		"spec.ports[0].name":     {func(s *slice) { s.Spec.Ports[0].Name = ptr.To("a.b") }},
	} {
		for _, change := range changes {
			object := validSlice()
			change(object)
			t.Run(path, func(t *testing.T) { expectError(t, ValidateExportedEndpointSlice(object), path) })
		}
	}
	valid := validSlice()
	ipv6("fd00::1")(valid)
	expectError(t, ValidateExportedEndpointSlice(valid), "")
}

// R4, R5: the error explains that a cluster ID is a single label.
func TestInvalidClusterIDErrorExplainsTheFormat(t *testing.T) {
	errs := ValidateClusterID("east.prod", field.NewPath("x"))
	expectError(t, errs, "x")
	if !strings.Contains(errs.ToAggregate().Error(), "a cluster ID must be a single DNS label without dots") {
		t.Errorf("got %v", errs)
	}
	expectError(t, ValidateClusterID("east-1", field.NewPath("x")), "")
}

func TestAllErrorsAreReported(t *testing.T) {
	service := validService()
	service.Spec.Type, service.Spec.Ports[0].Port, service.Spec.ExportedAt = "", 0, metav1.Time{}
	expectError(t, ValidateExportedService(service), "spec.exportedAt spec.ports[0].port spec.type")
}

// R205: addresses that would direct traffic to the node itself, or to metadata services.
func TestIsEndpointAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"10.1.0.1": true, "fd00::1": true, "203.0.113.9": true,
		"127.0.0.1": false, "127.1.2.3": false, "::1": false, "::ffff:127.0.0.1": false,
		"0.0.0.0": false, "::": false, "224.0.0.1": false, "ff02::1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "255.255.255.255": false, "nonsense": false, "": false,
		// Metadata services that are not link-local.
		"fd00:ec2::254": false, "fd20:ce::254": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"fd00:ec2::253": true, "100.100.100.201": true,
		// IPv4 addresses in other forms.
		"::ffff:169.254.169.254": false, "::ffff:100.100.100.200": false, "::ffff:10.1.0.1": true,
		"64:ff9b::169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::7f00:1": false, "64:ff9b::10.1.0.1": true,
	} {
		if got := IsEndpointAddress(address); got != want {
			t.Errorf("IsEndpointAddress(%q) = %t, want %t", address, got, want)
		}
	}
}

// R204: whatever a member sends, validation ends after a few errors.
func TestValidationEndsAfterAFewErrors(t *testing.T) {
	bad := make([]string, maxAddresses)
	for i := range bad {
		bad[i] = "not an address"
	}
	long := strings.Repeat("x", 1<<20)
	entries := map[string]string{}
	for i := range 10 * maxMetadata {
		entries[strings.Repeat("!", i+1)] = "!"
	}
	sliceChanges := map[string]func(*clusterset.ExportedEndpointSlice){
		"addresses": func(s *clusterset.ExportedEndpointSlice) {
			s.Spec.Endpoints = slices.Repeat([]discoveryv1.Endpoint{{Addresses: bad}}, maxEndpoints)
		},
		"ports": func(s *clusterset.ExportedEndpointSlice) {
			s.Spec.Ports = slices.Repeat([]discoveryv1.EndpointPort{{Name: ptr.To("!"), Port: ptr.To[int32](-1)}}, maxSlicePorts)
		},
		"name":      func(s *clusterset.ExportedEndpointSlice) { s.Name = long },
		"namespace": func(s *clusterset.ExportedEndpointSlice) { s.Namespace = long },
	}
	for name, change := range sliceChanges {
		slice := validSlice()
		change(slice)
		if errs := ValidateExportedEndpointSlice(slice); len(errs) == 0 || len(errs) > 2*maxErrors || len(errs.ToAggregate().Error()) > 10_000 {
			t.Errorf("%s: %d errors of %d bytes", name, len(errs), len(errs.ToAggregate().Error()))
		}
	}
	services := map[string]func(*clusterset.ExportedService){
		"ports": func(s *clusterset.ExportedService) {
			s.Spec.Ports = make([]clusterset.ServicePort, clusterset.MaxPorts)
		},
		"families":    func(s *clusterset.ExportedService) { s.Spec.IPFamilies = make([]corev1.IPFamily, 1000) },
		"labels":      func(s *clusterset.ExportedService) { s.Spec.ExportedLabels = entries },
		"annotations": func(s *clusterset.ExportedService) { s.Spec.ExportedAnnotations = entries },
		"decision": func(s *clusterset.ExportedService) {
			s.Spec.ClusterSetIP = &clusterset.ClusterSetIPDecision{DecidedBy: "b", Since: s.Spec.ExportedAt, IPs: bad}
		},
		"adopted from": func(s *clusterset.ExportedService) {
			s.Spec.ClusterSetIP = &clusterset.ClusterSetIPDecision{DecidedBy: "b", Since: s.Spec.ExportedAt, AdoptedFrom: bad[:clusterset.MaxAdoptedFrom]}
		},
		"adopted from too many": func(s *clusterset.ExportedService) {
			s.Spec.ClusterSetIP = &clusterset.ClusterSetIPDecision{DecidedBy: "b", Since: s.Spec.ExportedAt, AdoptedFrom: slices.Repeat([]string{"c"}, clusterset.MaxAdoptedFrom+1)}
		},
		"cluster": func(s *clusterset.ExportedService) { s.Spec.Cluster = long },
		"service": func(s *clusterset.ExportedService) { s.Spec.Service = long },
	}
	for name, change := range services {
		service := validService()
		change(service)
		if errs := ValidateExportedService(service); len(errs) == 0 || len(errs) > 2*maxErrors || len(errs.ToAggregate().Error()) > 10_000 {
			t.Errorf("%s: %d errors of %d bytes", name, len(errs), len(errs.ToAggregate().Error()))
		}
	}
}

// R305
func TestValidateLostPolicy(t *testing.T) {
	for policy, valid := range map[clusterset.LostPolicy]bool{
		clusterset.LostPolicyWithdraw: true, clusterset.LostPolicyKeepLast: true, clusterset.LostPolicyKeep: true, "": false, "keep": false,
	} {
		if err := ValidateLostPolicy(policy); (err == nil) != valid {
			t.Errorf("%q: %v", policy, err)
		}
	}
}

// numberedPorts returns valid ports.
func numberedPorts(count int) []clusterset.ServicePort {
	var ports []clusterset.ServicePort
	for i := range count {
		ports = append(ports, clusterset.ServicePort{Name: fmt.Sprintf("port-%d", i), Port: int32(i + 1)})
	}
	return ports
}

// R492: the limit is that of exports and imports, and endpoints may have more ports.
func TestPortsOfAnExportAreLimited(t *testing.T) {
	for count, want := range map[int]string{clusterset.MaxPorts: "", clusterset.MaxPorts + 1: "spec.ports"} {
		exported := validService()
		exported.Spec.Ports = numberedPorts(count)
		errs := ValidateExportedService(exported)
		if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || errs[0].Field != want || !strings.Contains(errs[0].Error(), "must have at most 256 items")) {
			t.Errorf("%d ports: %v", count, errs)
		}
	}
}
