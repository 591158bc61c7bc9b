// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Converting a hub object to any version of any group and back loses nothing.
func TestRoundTripEveryGroupVersion(t *testing.T) {
	noCustomFuzzers := func(serializer.CodecFactory) []any { return nil }
	roundtrip.RoundTripTestForAPIGroup(t, Install, noCustomFuzzers)
}
