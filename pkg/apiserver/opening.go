// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// opening opens the storage while the server runs.
type opening struct {
	// migration is nil if nothing is to be moved.
	migration *migration
	opener    *opener.Opener
	running   sync.WaitGroup
}

func (c CompletedConfig) newOpening() (*opening, error) {
	migration, err := c.newMigration()
	if err != nil {
		return nil, err
	}
	o := &opening{migration: migration, opener: opener.New(c.Storage, c.StorageType, hostCluster{c.client, c.Namespace}, c.AcceptStorage)}
	if c.StorageNamespace == "" {
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
	return nil
}

// wait returns when everything that start started has ended.
func (o *opening) wait() { o.running.Wait() }
