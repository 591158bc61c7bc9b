// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// distributionField is the field that a host names when it does not support a
// traffic distribution.
const distributionField = "spec.trafficDistribution"

// distributionFallback is the traffic distribution of a derived Service whose
// import has one that the host does not support.
type distributionFallback struct {
	// value is the distribution to use, nil for none. It counts only if problem is set.
	value *string
	// problem is why the distribution of the import is not used.
	problem string
}

// equivalentDistributions are older values of the same meaning: PreferClose was
// renamed PreferSameZone.
var equivalentDistributions = map[string]string{
	corev1.ServiceTrafficDistributionPreferSameZone: corev1.ServiceTrafficDistributionPreferClose,
}

// knownDistribution returns the traffic distribution of an import if this build
// knows it, nil otherwise: a value of a newer release must not prevent the creation
// of the derived Service.
func knownDistribution(distribution *string) *string {
	switch ptr.Deref(distribution, "") {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
		return distribution
	}
	return nil
}

// distributionFor returns the replacement for the traffic distribution of an import
// that the host refused. It is empty if the distribution was not refused.
func distributionFor(distribution *string, refused func(value string) bool) distributionFallback {
	wanted := knownDistribution(distribution)
	if wanted == nil || !refused(*wanted) {
		return distributionFallback{}
	}
	if equivalent, ok := equivalentDistributions[*wanted]; ok && !refused(equivalent) {
		return distributionFallback{ptr.To(equivalent), fmt.Sprintf("trafficDistribution %q is not supported by this cluster, using the equivalent %q", *wanted, equivalent)}
	}
	return distributionFallback{nil, fmt.Sprintf("trafficDistribution %q is not supported by this cluster, using the default distribution", *wanted)}
}

// refusesDistribution reports whether the host refused the traffic distribution of
// a Service.
func refusesDistribution(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == distributionField {
			return true
		}
	}
	return false
}
