// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
)

// opening opens the storage while the server runs.
type opening struct {
	opener  *opener.Opener
	storage *gate.Gate
	running sync.WaitGroup
}

func (c CompletedConfig) newOpening() *opening {
	return &opening{
		opener:  opener.New(c.Storage, hostCluster{c.client, c.Namespace}, c.AcceptStorage),
		storage: c.Storage.Gate(),
	}
}

// start is a post-start hook. It does not wait for storage.
func (o *opening) start(hook genericapiserver.PostStartHookContext) error {
	ctx := klog.NewContext(hook.Context, klog.Background())
	o.running.Go(func() { o.opener.Run(ctx) })
	return nil
}

// ready is a readiness check.
func (o *opening) ready(*http.Request) error { return o.storage.Usable() }

// wait returns when everything that start started has ended.
func (o *opening) wait() { o.running.Wait() }
