// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package boundedwatch

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
)

// deadline is a watcher that reports the remaining duration of its context.
type deadline chan time.Duration

func (d deadline) Watch(ctx context.Context, _ *internalversion.ListOptions) (watch.Interface, error) {
	until, _ := ctx.Deadline()
	d <- time.Until(until)
	return watch.NewEmptyWatch(), nil
}

// A watch must not outlive a revoked credential for long.
func TestWatchesAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lengths := make(deadline, 1)
	for range 100 {
		if _, err := (Watcher{lengths}).Watch(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-lengths; got > MaxDuration || got < MaxDuration/2 {
			t.Fatalf("a watch lasts %s, want between half of the maximum and the maximum", got)
		}
	}
}
