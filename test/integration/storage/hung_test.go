// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/tcplink"
)

// hangingLink returns a link to an etcd.
func hangingLink(t *testing.T, address, etcdURL string) *tcplink.Link {
	t.Helper()
	link, err := tcplink.New(address, strings.TrimPrefix(etcdURL, "http://"))
	expect.NoError(t, err)
	t.Cleanup(link.Close)
	return link
}

// R173
func TestHungEtcdLeadsToErrorsAndRecovers(t *testing.T) {
	t.Parallel()
	link := hangingLink(t, "127.0.0.1:12390", externalEtcd)
	s := newEtcdSubject(t, "http://"+link.Address())
	expect.NoError(t, s.Create(t.Context(), key("before"), pod("before"), nil, 0))
	expect.NoError(t, link.Hang())

	start := time.Now()
	results := make(chan error, 2)
	go func() { results <- s.Create(t.Context(), key("during"), pod("during"), nil, 0) }()
	go func() { results <- s.Get(t.Context(), key("before"), storage.GetOptions{}, &example.Pod{}) }()
	for range cap(results) {
		if err := <-results; !apierrors.IsTimeout(err) {
			t.Errorf("got %v, want 504", err)
		}
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("errors took %s", took)
	}
	expect.NoError(t, link.Restore())
	expect.Eventually(t, "recovery", func(ctx context.Context) error {
		return s.Get(ctx, key("before"), storage.GetOptions{}, &example.Pod{})
	})
}

// A server that does not respond is given up, and another one is used.
func TestClientLeavesHungServer(t *testing.T) {
	t.Parallel()
	link := hangingLink(t, "127.0.0.1:12391", externalEtcd)
	client, err := etcd.Connect(t.Context(), storagebackend.TransportConfig{ServerList: []string{"http://" + link.Address(), externalEtcd}})
	expect.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		_, err := client.Get(ctx, "/key")
		return err
	}
	for link.Received() == 0 { // calls alternate between the servers
		expect.NoError(t, get())
	}
	expect.NoError(t, link.Hang())
	start := time.Now()
	for range 4 {
		expect.NoError(t, get())
	}
	t.Logf("used the other server after %s", time.Since(start).Round(time.Second))
}
