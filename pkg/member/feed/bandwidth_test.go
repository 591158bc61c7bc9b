// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// endless is a member that answers every request with as many bytes as are read.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(zeros{})}, nil
}

type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) { return len(buffer), nil }

// R276: a member that keeps sending is read at a limited rate, with all requests together,
// and a probe is answered meanwhile. What it may export is read at once.
func TestBytesOfAMemberAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 20
		member := transport{next: endless{}, feed: New(Config{Budget: NewBudget(limit), Clock: clock.RealClock{}})}
		request := func(ctx context.Context) io.Reader {
			response, err := member.RoundTrip((&http.Request{Header: http.Header{}}).WithContext(ctx)) //nolint:bodyclose // nothing is open
			if err != nil {
				t.Fatal(err)
			}
			return response.Body
		}
		begun := time.Now()
		if _, err := io.CopyN(io.Discard, request(t.Context()), limit); err != nil || time.Since(begun) > time.Second {
			t.Errorf("everything that it may export took %s: %v", time.Since(begun), err)
		}

		const streams, seconds = 4, 10
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var read [streams]bytes.Buffer
		done := make(chan struct{})
		for i := range read {
			go func() {
				_, _ = io.Copy(&read[i], request(ctx))
				done <- struct{}{}
			}()
		}
		time.Sleep(seconds * time.Second / 2)
		probe, stop := context.WithTimeout(t.Context(), probeTimeout)
		defer stop()
		begun = time.Now()
		if _, err := io.CopyN(io.Discard, request(probe), 4096); err != nil || time.Since(begun) > time.Second {
			t.Errorf("a probe took %s: %v", time.Since(begun), err)
		}
		total := 0
		for range streams {
			<-done
		}
		for i := range read {
			total += read[i].Len()
		}
		if most := (seconds + 1) * limit / fillTime; total > most || total < most/2 {
			t.Errorf("read %d bytes in %d seconds, want %d at most", total, seconds, most)
		}
	})
}

// R276: feeds of one member start once a second, and share what may be read.
func TestFeedsOfAMemberShareItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, count = 8 << 20, 4
		budget := NewBudget(limit)
		var feeds [count]*Feed
		begun := time.Now()
		for i := range feeds {
			feeds[i] = New(Config{Budget: budget, Clock: clock.RealClock{}, Client: &rest.Config{Host: "%"}, Sink: &testSink{}})
			feeds[i].Run(t.Context()) // it cannot connect
		}
		if took := time.Since(begun); took != (count-1)*startInterval {
			t.Errorf("%d feeds start within %s", count, took)
		}
		begun = time.Now()
		for _, f := range feeds {
			response, err := transport{next: endless{}, feed: f}.RoundTrip((&http.Request{Header: http.Header{}}).WithContext(t.Context())) //nolint:bodyclose // nothing is open
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, response.Body, limit); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < (count-1)*fillTime*time.Second {
			t.Errorf("%d feeds read all that they may hold within %s", count, took)
		}
	})
}
