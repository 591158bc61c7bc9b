// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates the exports of other clusters. A member may run
// another release, or be compromised.
package validation

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

const (
	maxEndpoints = 1000 // the limit of EndpointSlices
	// maxSlicePorts is how many ports an EndpointSlice may have. It may have more than its
	// Service, which are ignored.
	maxSlicePorts = 1000
	maxAddresses  = 100 // the limit of endpoints
	maxPath       = 16
	// maxMetadata is how many exported labels, or annotations, there may be.
	maxMetadata = 1000
	maxFamilies = 2
	// maxTiers is how many tiers a preference may have, which may be one of a newer release.
	maxTiers = 32
	// maxErrors is after how many errors validation of a list ends: a member could
	// make millions of them.
	maxErrors = 10
	// maxAffinitySeconds is the limit of Services: one day.
	maxAffinitySeconds = 86400
)

var (
	protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	families  = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
)

// ValidateClusterID validates a cluster ID.
func ValidateClusterID(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(id) {
		errs = append(errs, field.Invalid(path, id, "a cluster ID must be a single DNS label without dots: "+problem))
	}
	return errs
}

// metadataAddresses are those of the metadata services of clouds, as far as they are
// not link-local. They hand out credentials of the node that asks.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

// nat64 addresses contain an IPv4 address that they are translated to.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// IsEndpointAddress reports whether text is a valid address for an endpoint of another
// cluster. Loopback, link-local, multicast and unspecified addresses would direct
// traffic to the node itself or to hosts on its network, and metadata services hand
// out credentials. It does not matter how an IPv4 address is written.
func IsEndpointAddress(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && isEndpointAddress(address)
}

func isEndpointAddress(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if nat64.Contains(address) {
		bytes := address.As16()
		return isEndpointAddress(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	return !address.IsLoopback() && !address.IsUnspecified() && !address.IsMulticast() && !address.IsLinkLocalUnicast() &&
		address != broadcast && !slices.Contains(metadataAddresses, address)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// ValidateExportedService validates an ExportedService of another cluster.
func ValidateExportedService(service *clusterset.ExportedService) field.ErrorList {
	spec, path := &service.Spec, field.NewPath("spec")
	errs := validateOrigin(&service.ObjectMeta, spec.Cluster, spec.Service, spec.Path)
	if len(errs) == 0 { // service and cluster, which make up the name, are valid
		if want := clusterset.ObjectName(spec.Service, spec.Cluster); service.Name != want {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), service.Name, fmt.Sprintf("must be %q", want)))
		}
	}
	if spec.ExportedAt.IsZero() {
		errs = append(errs, field.Required(path.Child("exportedAt"), "the age of an export determines its precedence"))
	}
	errs = append(errs, validateTime(spec.ExportedAt, path.Child("exportedAt"))...)
	errs = append(errs, validateTime(spec.EffectiveAt, path.Child("effectiveAt"))...)
	errs = append(errs, supported(path.Child("type"), spec.Type, clusterset.ClusterSetIP, clusterset.Headless)...)
	errs = append(errs, validatePorts(spec.Ports, path.Child("ports"))...)
	if len(spec.Ports) == 0 && spec.Type == clusterset.ClusterSetIP {
		errs = append(errs, field.Required(path.Child("ports"), "only headless services have none"))
	}
	if spec.SessionAffinity != "" {
		errs = append(errs, supported(path.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)...)
	}
	if config := spec.SessionAffinityConfig; config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil {
		if seconds := *config.ClientIP.TimeoutSeconds; seconds < 1 || seconds > maxAffinitySeconds {
			errs = append(errs, field.Invalid(path.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), seconds, fmt.Sprintf("must be between 1 and %d", maxAffinitySeconds)))
		}
	}
	errs = append(errs, validateFamilies(spec.IPFamilies, path.Child("ipFamilies"))...)
	if policy := spec.InternalTrafficPolicy; policy != nil {
		errs = append(errs, supported(path.Child("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if distribution := spec.TrafficDistribution; distribution != nil {
		for _, problem := range validation.IsQualifiedName(*distribution) {
			errs = append(errs, field.Invalid(path.Child("trafficDistribution"), *distribution, problem))
		}
	}
	errs = append(errs, validatePreference(spec, path)...)
	errs = append(errs, validateAudience(spec.Audience, path.Child("audience", "clusters"))...)
	if spec.ClusterSetIP != nil {
		errs = append(errs, validateDecision(spec.ClusterSetIP, path.Child("clusterSetIP"))...)
	}
	return append(errs, validateMetadata(spec, path)...)
}

func validateFamilies(given []corev1.IPFamily, path *field.Path) field.ErrorList {
	if len(given) > maxFamilies {
		return field.ErrorList{field.TooMany(path, len(given), maxFamilies)}
	}
	var errs field.ErrorList
	for i, family := range given {
		errs = append(errs, supported(path.Index(i), family, families...)...)
		if slices.Contains(given[:i], family) {
			errs = append(errs, field.Duplicate(path.Index(i), family))
		}
	}
	return errs
}

// validateAudience validates which clusters may read an object.
func validateAudience(audience *clusterset.Audience, path *field.Path) field.ErrorList {
	if audience.Len() > clusterset.MaxAudience {
		return field.ErrorList{field.TooMany(path, audience.Len(), clusterset.MaxAudience)}
	}
	clusters := audience.Clusters()
	if !slices.IsSorted(clusters) {
		return field.ErrorList{field.Invalid(path, len(clusters), "must be sorted")}
	}
	var errs field.ErrorList
	for i, cluster := range clusters {
		if len(errs) >= maxErrors {
			break
		}
		errs = append(errs, ValidateClusterID(cluster, path.Index(i))...)
	}
	return errs
}

// validatePreference validates which clusters an export prefers. A newer release may know other
// tiers.
func validatePreference(spec *clusterset.ExportedServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.PreferenceMinReady < 0 {
		errs = append(errs, field.Invalid(path.Child("preferenceMinReady"), spec.PreferenceMinReady, "must not be negative"))
	}
	path = path.Child("clusterPreference")
	if count := len(spec.ClusterPreference); count > maxTiers {
		return append(errs, field.TooMany(path, count, maxTiers))
	}
	for i, tier := range spec.ClusterPreference {
		switch {
		case len(tier) > clusterpreference.MaxTierLength:
			errs = append(errs, field.TooLong(path.Index(i), "", clusterpreference.MaxTierLength))
		case !tierText.MatchString(tier):
			errs = append(errs, field.Invalid(path.Index(i), tier, "must consist of letters, digits and the characters -._:/="))
		case slices.Contains(spec.ClusterPreference[:i], tier):
			errs = append(errs, field.Duplicate(path.Index(i), tier))
		}
	}
	return errs
}

// tierText is what tiers of this release and of newer ones look like. They are separated by commas.
var tierText = regexp.MustCompile(`^[-._:/=a-zA-Z0-9]+$`)

// validateMetadata validates what is exported of the metadata of the Service.
func validateMetadata(spec *clusterset.ExportedServiceSpec, path *field.Path) field.ErrorList {
	if count := len(spec.ExportedLabels); count > maxMetadata {
		return field.ErrorList{field.TooMany(path.Child("exportedLabels"), count, maxMetadata)}
	}
	if count := len(spec.ExportedAnnotations); count > maxMetadata {
		return field.ErrorList{field.TooMany(path.Child("exportedAnnotations"), count, maxMetadata)}
	}
	errs := metav1validation.ValidateLabels(spec.ExportedLabels, path.Child("exportedLabels"))
	return append(errs, apivalidation.ValidateAnnotations(spec.ExportedAnnotations, path.Child("exportedAnnotations"))...)
}

// validateDecision validates the decision about a shared ClusterSet IP. The
// importing cluster checks the addresses against its ClusterSet IP range.
func validateDecision(decision *clusterset.ClusterSetIPDecision, path *field.Path) field.ErrorList {
	errs := ValidateClusterID(decision.DecidedBy, path.Child("decidedBy"))
	if decision.Since.IsZero() {
		errs = append(errs, field.Required(path.Child("since"), "the age of a decision determines its precedence"))
	}
	errs = append(errs, validateTime(decision.Since, path.Child("since"))...)
	if len(decision.IPs) > maxFamilies {
		return append(errs, field.TooMany(path.Child("ips"), len(decision.IPs), maxFamilies))
	}
	errs = append(errs, validateAdoptedFrom(decision.AdoptedFrom, path.Child("adoptedFrom"))...)
	seen := map[bool]bool{}
	for i, text := range decision.IPs {
		at := path.Child("ips").Index(i)
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil || ip.String() != text || ip.Is4In6() || ip.Zone() != "":
			errs = append(errs, field.Invalid(at, text, "must be an IP address in canonical form"))
		case seen[ip.Is4()]:
			errs = append(errs, field.Invalid(at, text, "must not contain more than one IP per IP family"))
		default:
			seen[ip.Is4()] = true
		}
	}
	return errs
}

// validateAdoptedFrom returns the first error only.
func validateAdoptedFrom(clusters []string, path *field.Path) field.ErrorList {
	if len(clusters) > clusterset.MaxAdoptedFrom {
		return field.ErrorList{field.TooMany(path, len(clusters), clusterset.MaxAdoptedFrom)}
	}
	for i, cluster := range clusters {
		if errs := ValidateClusterID(cluster, path.Index(i)); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// ValidateExportedEndpointSlice validates an ExportedEndpointSlice of another cluster.
func ValidateExportedEndpointSlice(slice *clusterset.ExportedEndpointSlice) field.ErrorList {
	spec, path := &slice.Spec, field.NewPath("spec")
	errs := validateOrigin(&slice.ObjectMeta, spec.Cluster, spec.Service, spec.Path)
	if len(slice.Name) > validation.DNS1123SubdomainMaxLength {
		return errs
	}
	for _, problem := range apivalidation.NameIsDNSSubdomain(slice.Name, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), slice.Name, problem))
	}
	if !strings.HasSuffix(slice.Name, "."+spec.Cluster) { // otherwise it could replace a slice of another cluster
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), slice.Name, fmt.Sprintf("must end with %q", "."+spec.Cluster)))
	}
	if spec.ChangedAt != nil {
		errs = append(errs, validateTime(metav1.NewTime(spec.ChangedAt.Time), path.Child("changedAt"))...)
	}
	errs = append(errs, supported(path.Child("addressType"), spec.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	if len(spec.Endpoints) > maxEndpoints {
		errs = append(errs, field.TooMany(path.Child("endpoints"), len(spec.Endpoints), maxEndpoints))
		return errs
	}
	for i := range spec.Endpoints {
		if len(errs) >= maxErrors {
			return errs
		}
		errs = append(errs, validateEndpoint(&spec.Endpoints[i], spec.AddressType, path.Child("endpoints").Index(i))...)
	}
	if len(spec.Ports) > maxSlicePorts {
		return append(errs, field.TooMany(path.Child("ports"), len(spec.Ports), maxSlicePorts))
	}
	for i, port := range spec.Ports {
		if len(errs) >= maxErrors {
			return errs
		}
		at := path.Child("ports").Index(i)
		if port.Port != nil {
			errs = append(errs, validateNumber(*port.Port, at.Child("port"))...)
		}
		if port.Protocol != nil {
			errs = append(errs, supported(at.Child("protocol"), *port.Protocol, protocols...)...)
		}
		if port.Name != nil && *port.Name != "" {
			errs = append(errs, validateLabel(*port.Name, at.Child("name"))...)
		}
	}
	return errs
}

// validateOrigin validates the fields that identify the origin of an object.
func validateOrigin(metadata *metav1.ObjectMeta, cluster, service string, path []string) field.ErrorList {
	spec := field.NewPath("spec")
	for _, name := range []struct {
		path *field.Path
		text string
	}{
		{field.NewPath("metadata", "name"), metadata.Name},
		{field.NewPath("metadata", "namespace"), metadata.Namespace},
		{spec.Child("cluster"), cluster},
		{spec.Child("service"), service},
	} {
		if len(name.text) > validation.DNS1123SubdomainMaxLength { // no part of it matters
			return field.ErrorList{field.TooLong(name.path, "", validation.DNS1123SubdomainMaxLength)}
		}
	}
	errs := ValidateClusterID(cluster, spec.Child("cluster"))
	errs = append(errs, validateLabel(service, spec.Child("service"))...)
	errs = append(errs, validateLabel(metadata.Namespace, field.NewPath("metadata", "namespace"))...)
	errs = append(errs, validateTime(metadata.CreationTimestamp, field.NewPath("metadata", "creationTimestamp"))...)
	for key, value := range clusterset.SourceLabels(cluster, service) {
		if metadata.Labels[key] != value {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "labels").Key(key), metadata.Labels[key], fmt.Sprintf("must be %q", value)))
		}
	}
	if len(path) > maxPath {
		return append(errs, field.TooMany(spec.Child("path"), len(path), maxPath))
	}
	for i, id := range path {
		errs = append(errs, ValidateClusterID(id, spec.Child("path").Index(i))...)
	}
	if len(path) > 0 && path[0] != cluster {
		errs = append(errs, field.Invalid(spec.Child("path").Index(0), path[0], "must be the ID of the exporting cluster"))
	}
	return errs
}

func validatePorts(ports []clusterset.ServicePort, path *field.Path) field.ErrorList {
	if len(ports) > clusterset.MaxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), clusterset.MaxPorts)}
	}
	var errs field.ErrorList
	for i, port := range ports {
		if len(errs) >= maxErrors {
			return errs
		}
		at := path.Index(i)
		errs = append(errs, validateNumber(port.Port, at.Child("port"))...)
		if port.Protocol != "" {
			errs = append(errs, supported(at.Child("protocol"), port.Protocol, protocols...)...)
		}
		if port.Name != "" || len(ports) > 1 {
			errs = append(errs, validateLabel(port.Name, at.Child("name"))...)
		}
		if port.AppProtocol != nil {
			for _, problem := range validation.IsQualifiedName(*port.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *port.AppProtocol, problem))
			}
		}
	}
	return errs
}

func validateEndpoint(endpoint *discoveryv1.Endpoint, addressType discoveryv1.AddressType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(endpoint.Addresses) == 0 {
		errs = append(errs, field.Required(path.Child("addresses"), "must contain at least one address"))
	}
	if len(endpoint.Addresses) > maxAddresses {
		return append(errs, field.TooMany(path.Child("addresses"), len(endpoint.Addresses), maxAddresses))
	}
	for i, text := range endpoint.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.Is4In6() || address.Is4() != (addressType == discoveryv1.AddressTypeIPv4) {
			errs = append(errs, field.Invalid(path.Child("addresses").Index(i), text, fmt.Sprintf("must be an %s address", addressType)))
			break // the others are of the same kind
		}
	}
	if endpoint.Hostname != nil {
		errs = append(errs, validateLabel(*endpoint.Hostname, path.Child("hostname"))...)
	}
	return errs
}

// IsEncodable reports whether a time can be decoded after it was encoded, which is in UTC:
// 9999-12-31T23:59:59-01:00 cannot. A list or a record with such a time could not be read.
func IsEncodable(t metav1.Time) bool {
	year := t.UTC().Year()
	return t.IsZero() || year >= 0 && year <= 9999
}

func validateTime(t metav1.Time, path *field.Path) field.ErrorList {
	if IsEncodable(t) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, t.UTC().String(), "must be between the years 0 and 9999 in UTC")}
}

func validateNumber(number int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsValidPortNum(int(number)) {
		errs = append(errs, field.Invalid(path, number, problem))
	}
	return errs
}

func validateLabel(value string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(value) {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

func supported[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}

// ValidateLostPolicy validates what happens to the endpoints of a lost member.
func ValidateLostPolicy(policy clusterset.LostPolicy) error {
	switch policy {
	case clusterset.LostPolicyWithdraw, clusterset.LostPolicyKeepLast, clusterset.LostPolicyKeep:
		return nil
	}
	return fmt.Errorf("%q must be %s, %s or %s", policy, clusterset.LostPolicyWithdraw, clusterset.LostPolicyKeepLast, clusterset.LostPolicyKeep)
}
