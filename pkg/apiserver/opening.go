// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// recheckInterval is the time between two checks of storage whose loss is not reported. All
// requests to which a loss matters check it as well.
const recheckInterval = 10 * time.Second

// opening opens the storage while the server runs.
type opening struct {
	// migration is nil if nothing is to be moved.
	migration *migration
	opener    *opener.Opener
	// recheck is the time between two checks, or zero if none are necessary.
	recheck time.Duration
	running sync.WaitGroup
}

func (c CompletedConfig) newOpening() (*opening, error) {
	migration, err := c.newMigration()
	if err != nil {
		return nil, err
	}
	o := &opening{migration: migration, opener: opener.New(c.Storage, c.StorageType, hostCluster{c.client, c.Namespace}, c.AcceptStorage)}
	if c.StorageNamespace == "" {
		o.recheck = recheckInterval
		return o, nil
	}
	recheck := func(object any) {
		if namespace, ok := tombstone.Unwrap(object).(*corev1.Namespace); ok && namespace.Name == c.StorageNamespace {
			o.opener.Recheck()
		}
	}
	_, err = c.generic.SharedInformerFactory.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: recheck, UpdateFunc: func(_, object any) { recheck(object) }, DeleteFunc: recheck,
	})
	return o, err
}

// start is a post-start hook. It does not wait for storage.
func (o *opening) start(hook genericapiserver.PostStartHookContext) error {
	ctx := klog.NewContext(hook.Context, klog.Background())
	o.running.Go(func() {
		if o.migration != nil {
			o.migration.run(ctx)
		}
		o.opener.Run(ctx)
	})
	if o.recheck > 0 {
		o.running.Go(func() {
			wait.UntilWithContext(ctx, func(context.Context) { o.opener.Recheck() }, o.recheck)
		})
	}
	return nil
}

// wait returns when everything that start started has ended.
func (o *opening) wait() { o.running.Wait() }
