// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
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
	gate      *gate.Gate
	// recheck is the time between two checks, or zero if none are necessary.
	recheck time.Duration
	// marker follows the storage marker in the host cluster; nil if the storage is elsewhere.
	marker  cache.SharedIndexInformer
	running sync.WaitGroup
}

func (c CompletedConfig) newOpening() (*opening, error) {
	migration, err := c.newMigration()
	if err != nil {
		return nil, err
	}
	o := &opening{
		migration: migration, gate: c.Storage.Gate(),
		opener: opener.New(c.Storage, c.StorageType, hostCluster{c.client, c.Namespace}, c.AcceptStorage),
	}
	if c.StorageNamespace == "" {
		o.recheck = recheckInterval
		return o, nil
	}
	return o, o.follow(c.informed, c.StorageNamespace, c.generic.SharedInformerFactory)
}

// follow checks storage in the host cluster whenever its namespace or its marker changes.
// A server of a new Deployment changes the marker when it has moved the objects elsewhere.
func (o *opening) follow(client kubernetes.Interface, namespace string, host informers.SharedInformerFactory) error {
	o.marker = coreinformers.NewFilteredConfigMapInformer(client, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, marker.Name).String()
	})
	for informer, name := range map[cache.SharedIndexInformer]string{host.Core().V1().Namespaces().Informer(): namespace, o.marker: marker.Name} {
		recheck := func(object any) {
			if object, ok := tombstone.Unwrap(object).(metav1.Object); ok && object.GetName() == name {
				o.opener.Recheck()
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: recheck, UpdateFunc: func(_, object any) { recheck(object) }, DeleteFunc: recheck,
		}); err != nil {
			return err
		}
	}
	return nil
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
	if o.marker != nil {
		o.running.Go(func() {
			if o.gate.Await(ctx) == nil { // before, there may be neither a namespace nor permission
				o.marker.RunWithContext(ctx)
			}
		})
	}
	if o.recheck > 0 {
		o.running.Go(func() {
			wait.UntilWithContext(ctx, func(context.Context) { o.opener.Recheck() }, o.recheck)
		})
	}
	return nil
}

// wait returns when everything that start started has ended.
func (o *opening) wait() { o.running.Wait() }
