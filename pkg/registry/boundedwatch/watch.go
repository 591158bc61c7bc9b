// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boundedwatch ends watches after a while, so that whoever watches has to
// show a valid credential again.
package boundedwatch

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Longest is how long another cluster may watch with one request.
const Longest = 5 * time.Minute

// Watcher ends the watches of another.
type Watcher struct {
	rest.Watcher
}

// Watch implements rest.Watcher.
func (w Watcher) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	// Not all at once: a server that has just started has many that are equally old.
	spread := time.Duration(rand.Int64N(int64(Longest / 5))) //nolint:gosec // spreads load, hides nothing
	ctx, cancel := context.WithTimeout(ctx, Longest-spread)
	context.AfterFunc(ctx, cancel) // the request's end is the end of the context
	return w.Watcher.Watch(ctx, options)
}
