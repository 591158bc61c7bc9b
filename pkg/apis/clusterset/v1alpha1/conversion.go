// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Convert_v1alpha1_Audience_To_clusterset_Audience joins the IDs of clusters.
func Convert_v1alpha1_Audience_To_clusterset_Audience(in *Audience, out *clusterset.Audience, _ conversion.Scope) error {
	*out = *clusterset.JoinAudience(in.Clusters)
	return nil
}

// Convert_clusterset_Audience_To_v1alpha1_Audience lists the IDs of clusters.
func Convert_clusterset_Audience_To_v1alpha1_Audience(in *clusterset.Audience, out *Audience, _ conversion.Scope) error {
	out.Clusters = in.Clusters()
	return nil
}

// Convert_clusterset_ExportedEndpointSliceSpec_To_v1alpha1_ExportedEndpointSliceSpec leaves out the
// audience, which readers know from the ExportedService.
func Convert_clusterset_ExportedEndpointSliceSpec_To_v1alpha1_ExportedEndpointSliceSpec(in *clusterset.ExportedEndpointSliceSpec, out *ExportedEndpointSliceSpec, scope conversion.Scope) error {
	return autoConvert_clusterset_ExportedEndpointSliceSpec_To_v1alpha1_ExportedEndpointSliceSpec(in, out, scope)
}
