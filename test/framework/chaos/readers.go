// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A client repeats a read as often as client-go repeats requests, and waits as long.
const (
	retries    = 10
	retryDelay = time.Second
)

// Reads is the outcome of reads.
type Reads struct {
	// Total is the number of reads. Repeated is how many of them the caller had to repeat,
	// because client-go returned a retryable error, and succeeded.
	Total, Repeated int
	// Failures are the errors of reads that failed.
	Failures []string
	// Slowest is how long the slowest read took, repetitions included.
	Slowest time.Duration
	// LastSlow is when the last read began that took longer than Slow.
	LastSlow time.Time
}

// Slow is how long a read may take before it counts as slow.
const Slow = 5 * time.Second

// Read reads again and again at a fixed rate, whether or not earlier reads have returned, until
// the context is done and all reads have returned.
func Read(ctx context.Context, period time.Duration, read func(context.Context) error) Reads {
	var (
		mu      sync.Mutex
		outcome Reads
		running sync.WaitGroup
	)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ctx.Err() == nil {
		running.Go(func() {
			begun := time.Now()
			repetitions, err := readPatiently(context.WithoutCancel(ctx), read)
			mu.Lock()
			defer mu.Unlock()
			outcome.add(repetitions, err, begun, time.Now())
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	running.Wait()
	return outcome
}

func (r *Reads) add(repetitions int, err error, begun, ended time.Time) {
	r.Total++
	r.Slowest = max(r.Slowest, ended.Sub(begun))
	if ended.Sub(begun) > Slow && begun.After(r.LastSlow) {
		r.LastSlow = begun
	}
	switch {
	case err != nil:
		r.Failures = append(r.Failures, fmt.Sprintf("after %d repetitions and %s: %v", repetitions, ended.Sub(begun).Round(time.Millisecond), err))
	case repetitions > 0:
		r.Repeated++
	}
}

// readPatiently reads until the error is not retryable.
func readPatiently(ctx context.Context, read func(context.Context) error) (repetitions int, err error) {
	for ; ; repetitions++ {
		if err = read(ctx); err == nil || !retryable(err) || repetitions == retries {
			return repetitions, err
		}
		time.Sleep(retryDelay)
	}
}

// retryable reports whether a client may repeat a read that failed with an error: the server,
// or the connection to it, is not available for the moment.
func retryable(err error) bool {
	var stream http2.StreamError // the server died after it had sent a part of the response
	return errors.As(err, &stream) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}
