// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Every hub object survives the way to each version of each group and back.
func TestRoundTripEveryGroupVersion(t *testing.T) {
	noneOfOurOwn := func(serializer.CodecFactory) []any { return nil }
	roundtrip.RoundTripTestForAPIGroup(t, Install, noneOfOurOwn)
}
