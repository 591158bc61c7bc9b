// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// setPreference sets which clusters an export prefers. One that is not valid, which was
// stored before it would have been refused, is none.
func setPreference(spec *clusterset.ExportedServiceSpec, export *multiclusterxv1beta1.ServiceExport) {
	preference, errs := clusterpreference.Parse(export.Annotations)
	if preference == nil || len(errs) > 0 {
		return
	}
	for _, tier := range preference.Tiers {
		spec.ClusterPreference = append(spec.ClusterPreference, string(tier))
	}
	spec.PreferenceMinReady = preference.MinReady
}
