// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boundedwatch limits the duration of watches, so that watchers have to
// present a valid credential again.
package boundedwatch

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
)

// MaxDuration is the maximum duration of one watch request.
const MaxDuration = 5 * time.Minute

// Watcher bounds the watches of another Watcher.
type Watcher struct {
	rest.Watcher
}

// Watch implements rest.Watcher.
func (w Watcher) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	// Spread the ends: many watches start at once after a restart.
	spread := time.Duration(rand.Int64N(int64(MaxDuration / 5))) //nolint:gosec // not security-sensitive
	ctx, cancel := context.WithTimeout(ctx, MaxDuration-spread)
	context.AfterFunc(ctx, cancel) // the context ends with the request
	return w.Watcher.Watch(ctx, options)
}
