// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

// Export is a Service as one cluster exports it, together with its endpoints.
// It is computed and passed between packages, never served.
//
// +k8s:deepcopy-gen=false
type Export struct {
	Service *ExportedService
	Slices  []*ExportedEndpointSlice
}
