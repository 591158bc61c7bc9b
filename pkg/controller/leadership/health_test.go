// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// R155: a replica leads only after its server has been ready for a moment, and tolerates
// short failures.
func TestHealthChangesOnlyAfterLastingResults(t *testing.T) {
	type result struct {
		at      time.Duration
		success bool
		healthy bool
	}
	for _, test := range []struct {
		name    string
		results []result
	}{
		{"never ready", []result{{0, false, false}, {time.Hour, false, false}}},
		{"ready at once", []result{{0, true, false}, {settling - 1, true, false}, {settling, true, true}}},
		{"ready late", []result{{0, false, false}, {9 * settling, true, false}, {10 * settling, true, true}}},
		{"interrupted while settling", []result{{0, true, false}, {settling - 1, false, false}, {settling, true, false}, {2*settling - 1, true, false}, {2 * settling, true, true}}},
		{"short failure", []result{{0, true, false}, {settling, true, true}, {10 * time.Second, false, true}, {10*time.Second + tolerance - 1, false, true}, {10*time.Second + tolerance, true, true}}},
		{"two short failures", []result{{0, true, false}, {settling, true, true}, {10 * time.Second, false, true}, {11 * time.Second, true, true}, {11*time.Second + tolerance - 1, false, true}, {13 * time.Second, false, true}}},
		{"lasting failure", []result{{0, true, false}, {settling, true, true}, {10 * time.Second, false, true}, {10*time.Second + tolerance, false, false}, {13 * time.Second, true, false}, {13*time.Second + settling, true, true}}},
	} {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var record probes
		for _, result := range test.results {
			at := start.Add(result.at)
			if record = record.next(at, at, result.success); record.healthy != result.healthy {
				t.Errorf("%s: healthy is %t after %s", test.name, record.healthy, result.at)
			}
		}
	}
}

// A probe that does not return is noticed as quickly as one that fails.
func TestHangingProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var hanging atomic.Bool
		health := NewHealth(func(ctx context.Context) error {
			if !hanging.Load() {
				return nil
			}
			<-ctx.Done()
			return errors.New("no response")
		})
		ended := make(chan error)
		go func() { ended <- health.Run(ctx) }()
		able, cancel := health.Await(ctx)
		defer cancel()
		time.Sleep(time.Minute + probePeriod/2) // between two probes
		if able.Err() != nil {
			t.Error("replica with a ready server is unhealthy")
		}
		hanging.Store(true)
		begun := time.Now()
		<-able.Done()
		if took := time.Since(begun); took > tolerance+probePeriod {
			t.Errorf("a hanging probe was noticed after %s", took)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
