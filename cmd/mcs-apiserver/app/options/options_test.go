// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Comparing the watch caches with their storage is for tests, unless a flag asks
// for it.
func TestCacheInconsistencyDetectionIsOffByDefault(t *testing.T) {
	for range 2 { // New must not depend on being called only once
		options := New()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		for _, section := range options.Flags().FlagSets {
			flags.AddFlagSet(section)
		}
		if _, err := options.Complete(); err != nil {
			t.Fatal(err)
		}
		if utilfeature.DefaultFeatureGate.Enabled(features.DetectCacheInconsistency) {
			t.Error("the feature gate DetectCacheInconsistency is on")
		}
	}
}
