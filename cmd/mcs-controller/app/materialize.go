// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/clusterid"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/credential"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/dataplane"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/exportstatus"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/memberlease"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

// materialize runs the controllers that turn what mcs-apiserver computes into objects of
// the cluster and that maintain its membership. Only the leader runs them.
func materialize(ctx context.Context, client kubernetes.Interface, config *rest.Config, opts *Options, recorder events.EventRecorder) error {
	computed, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client for mcs-apiserver: %w", err)
	}
	host := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	installed := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(opts.Namespace), informers.WithTransform(withoutManagedFields))
	own := mcsinformers.NewSharedInformerFactoryWithOptions(computed, 0, mcsinformers.WithTransform(withoutManagedFields))

	materialized, err := dataplane.New(client, clock.RealClock{}, host, own)
	if err != nil {
		return err
	}
	statuses, err := exportstatus.New(computed, clock.RealClock{}, recorder, host, own)
	if err != nil {
		return err
	}
	leases, err := memberlease.New(client, opts.Namespace, installed, own)
	if err != nil {
		return err
	}
	id, err := clusterid.New(client, computed, opts.ClusterID, own)
	if err != nil {
		return err
	}
	credentials, err := credential.New(client, opts.Namespace, clock.RealClock{}, recorder)
	if err != nil {
		return err
	}
	// The first controller that fails stops the informers and all others.
	group, ctx := errgroup.WithContext(ctx)
	for _, factory := range []interface {
		StartWithContext(context.Context)
		Shutdown()
	}{host, installed, own} {
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
	}
	for _, controller := range []interface {
		Run(context.Context) error
	}{materialized, statuses, leases, id, credentials} {
		group.Go(func() error { return controller.Run(ctx) })
	}
	return group.Wait()
}

// withoutManagedFields removes managed fields, which are half of what caches hold.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}
