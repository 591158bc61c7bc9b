// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Converting a hub object to any version of any group and back loses nothing, except for the audience
// of endpoints, which is that of their Service.
func TestRoundTripEveryGroupVersion(t *testing.T) {
	fuzzers := func(serializer.CodecFactory) []any {
		return []any{
			func(audience *clusterset.Audience, random randfill.Continue) {
				*audience = *clusterset.NewAudience([]string{"east", "north", "west"}[:random.Intn(4)]...)
			},
			func(spec *clusterset.ExportedEndpointSliceSpec, random randfill.Continue) {
				random.FillNoCustom(spec)
				spec.Audience = nil
			},
		}
	}
	roundtrip.RoundTripTestForAPIGroup(t, Install, fuzzers)
}
