// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallReturnsTheAnswer(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(listener, "east-1") }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if answer, err := Call(t.Context(), "127.0.0.1", port); answer != "east-1" || err != nil {
		t.Errorf("answer is %q (%v)", answer, err)
	}
	listener.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if answer, err := Call(t.Context(), "127.0.0.1", port); err == nil {
		t.Errorf("%q answered although the server has ended", answer)
	}
}

func TestCallFailsWithoutAnAnswer(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { _ = Serve(listener, "") }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if _, err := Call(t.Context(), "127.0.0.1", port); err == nil {
		t.Error("no error")
	}
}

func TestCallerCountsAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second+time.Millisecond)
		defer cancel()
		var last Report
		var calls atomic.Int32
		recorded := make(chan Attempt, 1000)
		caller := Caller{Hosts: []string{"web"}, Report: func(report Report) { last = report }, Record: func(attempt Attempt) { recorded <- attempt }}
		caller.Call = func(ctx context.Context, _ string) (string, error) {
			switch number := calls.Add(1); {
			case number <= 10: // not counted: no answer yet
				return "", errors.New("not ready")
			case number == 12:
				<-ctx.Done() // counted as an error
				return "", ctx.Err()
			case number == 13:
				time.Sleep(2 * time.Second)
				return "west-2", nil
			}
			return "east-1", nil
		}
		caller.Run(ctx)
		result := last.Hosts["web"]
		if result.Failed != 1 || len(result.Errors) != 1 || result.From["west"] != 1 || result.Slowest != 2*time.Second {
			t.Errorf("%s, errors %v", result, result.Errors)
		}
		close(recorded)
		attempts, failed, slow := 0, 0, 0
		for attempt := range recorded {
			attempts++
			if attempt.Error != "" {
				failed++
			} else if attempt.From == "west" && attempt.Took == 2*time.Second {
				slow++
			}
		}
		if attempts != result.Attempts || failed != 1 || slow != 1 {
			t.Errorf("recorded %d attempts, of which %d failed and %d were slow", attempts, failed, slow)
		}
		if result.Attempts < 380 || result.Attempts != result.Failed+result.From["east"]+result.From["west"] {
			t.Errorf("%s", result)
		}
	})
}
