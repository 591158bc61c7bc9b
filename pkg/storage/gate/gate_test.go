// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestClosedGateAnswersWithTheReason(t *testing.T) {
	gate := New()
	expect := func(reason string) {
		t.Helper()
		err := gate.Usable()
		if seconds, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), reason) || !retry || seconds == 0 {
			t.Errorf("got %v, want 503 with Retry-After and %q", err, reason)
		}
	}
	expect("not been opened")
	gate.Close(errors.New("namespace \"mcs-storage\" does not exist"))
	expect("does not exist")
	gate.Open()
	if err := gate.Usable(); err != nil {
		t.Errorf("open: %v", err)
	}
	gate.Close(errors.New("is being deleted"))
	expect("is being deleted")
}

func TestAwaitReturnsWhenTheGateOpensOrTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := New()
		results := make(chan error, 2)
		canceled, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), canceled} {
			go func() { results <- gate.Await(ctx) }()
		}
		gate.Close(errors.New("lost"))
		synctest.Wait()
		if len(results) != 0 {
			t.Fatal("Await returned although the gate is closed")
		}
		cancel()
		if err := <-results; err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("got %v, want the reason", err)
		}
		gate.Open()
		if err := <-results; err != nil {
			t.Errorf("got %v after the gate was opened", err)
		}
	})
}
