// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R154: a server that is terminated is not ready from then on, so that it leaves the
// endpoints of its Service, and serves until the delay is over. Then watches end without
// an error, so that clients continue at another replica, requests in flight are finished,
// and later ones are refused with an error that clients retry.
func TestTerminatedServerServesUntilItHasLeftTheEndpoints(t *testing.T) {
	const delay = 6 * time.Second
	installed := running(t)
	replica := installed.APIServers[0]
	expect.NoError(t, replica.Stop(30*time.Second))
	installed.APIServerFlags = []string{"--shutdown-delay-duration=" + delay.String(), "--shutdown-send-retry-after"}
	t.Cleanup(func() { installed.APIServerFlags = nil })
	restart(t, installed)
	expect.NoError(t, replica.AwaitReady(t.Context()))
	config := expect.Must(replica.Config())(t)
	config.QPS = -1
	health := expect.Must(kubernetes.NewForConfig(config))(t).Discovery().RESTClient()
	exports := expect.Must(versioned.NewForConfig(config))(t).MulticlusterXV1beta1()
	watching := expect.Must(exports.ServiceExports("default").Watch(t.Context(), metav1.ListOptions{}))(t)
	read := startReading(t, exports.RESTClient())

	terminated, stopped := time.Now(), make(chan error, 1)
	go func() { stopped <- replica.Stop(30 * time.Second) }()
	expect.Eventually(t, "readiness ends", func(ctx context.Context) error {
		if health.Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return errors.New("server is ready")
		}
		return nil
	})
	if took := time.Since(terminated); took > delay {
		t.Errorf("server was ready for %s after it was terminated", took)
	}
	for event := range watching.ResultChan() {
		if event.Type == watch.Error {
			t.Errorf("watch ended with %+v", event.Object)
		}
	}
	served := time.Since(terminated)
	if served < delay {
		t.Errorf("watch ended %s after the server was terminated", served)
	}
	last, reads := read()
	if last.Sub(terminated) < delay {
		t.Errorf("last of %d reads succeeded %s after the server was terminated", reads, last.Sub(terminated))
	}
	expect.NoError(t, <-stopped)
	if err := replica.Err(); err != nil {
		t.Errorf("exited with %v, want a clean exit", err)
	}
	t.Logf("watches ended after %s, the last of %d reads succeeded after %s, and the server exited after %s",
		served.Round(time.Millisecond), reads, last.Sub(terminated).Round(time.Millisecond), time.Since(terminated).Round(time.Millisecond))
}

// startReading lists ServiceExports concurrently until the server refuses it. Any other error
// than one that says so is reported. The returned function waits for the end, and
// returns when the last successful read ended, and how many there were.
//
// A connection that the server had not yet accepted when it closed its listener is reset by
// its kernel, which refuses it like one that comes a moment later. The client may have begun
// its TLS handshake by then, but has not sent a request.
func startReading(t *testing.T, client rest.Interface) func() (last time.Time, reads int64) {
	t.Helper()
	var running sync.WaitGroup
	var reads, last atomic.Int64
	for range 8 {
		running.Go(func() {
			for {
				var connected atomic.Bool
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
				})
				err := client.Get().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/serviceexports").MaxRetries(0).Do(ctx).Error()
				switch {
				case err == nil:
					reads.Add(1)
					last.Store(time.Now().UnixNano())
					continue
				case apierrors.IsTooManyRequests(err), utilnet.IsConnectionRefused(err):
				case utilnet.IsConnectionReset(err) && !connected.Load():
				default:
					t.Errorf("read failed (sent: %t): %v", connected.Load(), err)
				}
				return
			}
		})
	}
	return func() (time.Time, int64) {
		running.Wait()
		return time.Unix(0, last.Load()), reads.Load()
	}
}
