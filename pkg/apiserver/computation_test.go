// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// Readiness says why the records of imports cannot be loaded, for example which of them
// cannot be decoded.
func TestReadinessSaysWhyRecordsCannotBeLoaded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := recordtest.New()
	store.Before(func(context.Context, recordtest.Call) error {
		cancel()
		return errors.New("ConfigMap x is corrupt")
	})
	c := &computation{failure: &informerFailure{}, lives: importidentity.New(importidentity.Config{Store: store, Clock: clock.RealClock{}})}
	if err := c.ready(nil); err == nil || strings.Contains(err.Error(), "corrupt") {
		t.Errorf("before the first attempt, readiness is %v", err)
	}
	if _, err := c.lives.Load(ctx); err == nil {
		t.Fatal("the records were loaded")
	}
	if err := c.ready(nil); err == nil || !strings.Contains(err.Error(), "ConfigMap x is corrupt") {
		t.Errorf("readiness is %v", err)
	}
	c.computed.Store(true)
	if err := c.ready(nil); err != nil {
		t.Errorf("readiness is %v", err)
	}
}
