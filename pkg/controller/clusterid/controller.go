// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterid gives a cluster an id where nobody else has: whoever looks
// for the claim id.k8s.io finds one, in a ClusterSet or not.
package clusterid

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multicluster/v1"
)

// Controller asserts the id.
type Controller struct {
	host   kubernetes.Interface
	client versioned.Interface
	// wanted is the id that was asked for; empty for the default.
	wanted string
	queue  loop.Queue
	synced cache.InformerSynced
	claims multiclusterlisters.ClusterClaimLister
}

// New returns a controller. wanted is the id to assert; if it is empty, that is
// the UID of the namespace kube-system, which no other cluster has.
func New(host kubernetes.Interface, client versioned.Interface, wanted string, own mcsinformers.SharedInformerFactory) (*Controller, error) {
	claims := own.Multicluster().V1().ClusterClaims()
	c := &Controller{host: host, client: client, wanted: wanted, queue: loop.NewQueue("clusterid"), claims: claims.Lister()}
	registration, err := claims.Informer().AddEventHandler(loop.OnChange(func(metav1.Object) { c.queue.Add(theID) }))
	if err != nil {
		return nil, err
	}
	c.synced = registration.HasSynced
	return c, nil
}

// theID is the one key that there is.
var theID = types.NamespacedName{Name: multicluster.ClusterIDClaim}

// Run works until the context ends. One replica at a time runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "clusterid"))
	c.queue.Add(theID) // there may be no claim that could announce itself
	loop.Run(ctx, c.queue, 1, []cache.InformerSynced{c.synced}, c.sync)
	return nil
}

func (c *Controller) sync(ctx context.Context, _ types.NamespacedName) error {
	id, err := c.find(multicluster.ClusterIDClaim)
	if err != nil {
		return err
	}
	if id != nil && (c.wanted == "" || id.Spec.Value == c.wanted) {
		return nil // the usual case, without asking the cluster
	}
	clusterSet, err := c.find(multicluster.ClusterSetClaim)
	if err != nil {
		return err
	}
	system, err := c.host.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the UID of the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	api, logger := c.client.MulticlusterV1().ClusterClaims(), klog.FromContext(ctx)
	switch claim := desired(id, clusterSet, c.wanted, system.UID); {
	case claim == nil:
		logger.Info("The cluster has another id than --cluster-id says, and keeps it: change the flag, or the claim while the cluster is in no ClusterSet",
			"cluster", id.Spec.Value, "wanted", c.wanted)
	case id == nil:
		if _, err := api.Create(ctx, claim, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil // somebody was quicker, as the cache is about to tell
		} else if err != nil {
			return fmt.Errorf("claim an id for the cluster: %w", err)
		}
		logger.Info("Gave the cluster an id", "cluster", claim.Spec.Value)
	default:
		if _, err := api.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("replace the default id of the cluster: %w", err)
		}
		logger.Info("Replaced the default id of the cluster", "cluster", claim.Spec.Value, "before", id.Spec.Value)
	}
	return nil
}

func (c *Controller) find(name string) (*multiclusterv1.ClusterClaim, error) {
	claim, err := c.claims.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return claim, err
}

// desired is the id as it should be; nil if it has to stay as it is. An id that
// somebody chose is never replaced, and none is in a ClusterSet.
func desired(id, clusterSet *multiclusterv1.ClusterClaim, wanted string, system types.UID) *multiclusterv1.ClusterClaim {
	claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterIDClaim}}
	if id != nil {
		if clusterSet != nil || id.Spec.Value != string(system) {
			return nil
		}
		claim = id.DeepCopy()
	}
	claim.Spec.Value = wanted
	if wanted == "" {
		claim.Spec.Value = string(system)
	}
	return claim
}
