// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/testutil"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// The watch cache can compare itself with its storage. Here it does so
// continuously, and objects change after every comparison. A comparison that
// overlaps with a change or a heartbeat is not counted.
func TestWatchCacheAgreesWithTheStore(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DetectCacheInconsistency, true)
	metrics.Register()
	period := cacher.ConsistencyCheckPeriod
	cacher.ConsistencyCheckPeriod = time.Millisecond
	defer func() { cacher.ConsistencyCheckPeriod = period }()
	checks := func(result string) float64 {
		resource := multicluster.XResource("serviceimports")
		count, err := testutil.GetCounterMetricValue(metrics.StorageConsistencyCheckTotal.WithLabelValues(resource.Group, resource.Resource, result))
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	passed, failed := checks("success"), checks("failure")

	r := newSyncedReplica(t)
	defer r.end() // before the period is restored
	random := rand.New(rand.NewPCG(3, 4))
	changes, seen := 0, -1.0
	eventually(t, "fifty checks passed", func() bool {
		now := checks("success") - passed
		for ; seen < now; seen++ {
			for range 20 {
				changeAtRandom(random, r.Store, changes)
				changes++
			}
		}
		return now >= 50 || checks("failure") > failed
	})
	if found := checks("failure") - failed; found > 0 {
		t.Errorf("%g checks found an inconsistency", found)
	}
}
