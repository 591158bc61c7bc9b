// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReadRepeatsRetryableErrorsOnly(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		succeeds int32
		repeated int
		failed   int
		slowest  time.Duration
	}{
		"unavailable for a moment": {err: apierrors.NewServiceUnavailable("gone"), succeeds: 3, repeated: 1, slowest: 2 * time.Second},
		"refused connection":       {err: syscall.ECONNREFUSED, succeeds: 2, repeated: 1, slowest: time.Second},
		"part of a response":       {err: fmt.Errorf("read: %w", http2.StreamError{Code: http2.ErrCodeInternal}), succeeds: 2, repeated: 1, slowest: time.Second},
		"unavailable for long":     {err: apierrors.NewServiceUnavailable("gone"), succeeds: 100, failed: 1, slowest: retries * retryDelay},
		"not found":                {err: apierrors.NewNotFound(schema.GroupResource{}, "name"), succeeds: 2, failed: 1},
		"other":                    {err: errors.New("other"), succeeds: 2, failed: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var calls atomic.Int32
			outcome := Read(ctx, time.Hour, func(context.Context) error {
				if calls.Add(1) < test.succeeds {
					return test.err
				}
				return nil
			})
			if outcome.Total != 1 || outcome.Repeated != test.repeated || len(outcome.Failures) != test.failed || outcome.Slowest != test.slowest {
				t.Errorf("%s: %+v", name, outcome)
			}
		})
	}
}

func TestReadDoesNotWaitForEarlierReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second-1)
		defer cancel()
		begun := time.Now()
		outcome := Read(ctx, time.Second, func(context.Context) error {
			if time.Since(begun) <= 5*time.Second {
				time.Sleep(time.Minute)
			}
			return nil
		})
		if outcome.Total != 10 || outcome.Slowest != time.Minute || outcome.LastSlow.Sub(begun) != 5*time.Second {
			t.Errorf("%+v", outcome)
		}
	})
}
