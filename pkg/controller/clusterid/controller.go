// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterid ensures that a cluster has an ID: it creates the ClusterClaim
// id.k8s.io unless a user did, whether the cluster is in a ClusterSet or not.
package clusterid

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multicluster/v1"
)

// Controller writes the ClusterClaim id.k8s.io.
type Controller struct {
	host   kubernetes.Interface
	client versioned.Interface
	// wanted is the ID of --cluster-id, empty for the default.
	wanted   string
	queue    loop.Queue
	handlers loop.Handlers
	claims   multiclusterlisters.ClusterClaimLister
}

// New returns a controller. wanted is the ID to claim; the default is the UID of the
// namespace kube-system, which no other cluster has.
func New(host kubernetes.Interface, client versioned.Interface, wanted string, own mcsinformers.SharedInformerFactory) *Controller {
	claims := own.Multicluster().V1().ClusterClaims()
	c := &Controller{host: host, client: client, wanted: wanted, queue: loop.NewQueue("clusterid"), claims: claims.Lister()}
	c.handlers = loop.Handlers{claims.Informer(): loop.OnChange(func(metav1.Object) { c.queue.Add(claimKey) })}
	return c
}

// claimKey is the only key of the queue.
var claimKey = types.NamespacedName{Name: multicluster.ClusterIDClaim}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "clusterid"))
	c.queue.Add(claimKey) // without any claim there is no event
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) sync(ctx context.Context, _ types.NamespacedName) error {
	id, err := c.find(multicluster.ClusterIDClaim)
	if err != nil {
		return err
	}
	clusterSet, err := c.find(multicluster.ClusterSetClaim)
	if err != nil {
		return err
	}
	if used := withoutGeneratedMark(id, clusterSet); used != nil {
		if _, err := c.client.MulticlusterV1().ClusterClaims().Update(ctx, used, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("mark the cluster ID as used: %w", err)
		}
		return nil // the event of the update continues
	}
	if id != nil && (c.wanted == "" || id.Spec.Value == c.wanted) {
		return nil // the usual case needs no request
	}
	system, err := c.host.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	api, logger := c.client.MulticlusterV1().ClusterClaims(), klog.FromContext(ctx)
	switch claim := desired(id, clusterSet, c.wanted, system.UID); {
	case claim == nil:
		logger.Info("Cluster ID differs from --cluster-id and is kept; change the flag, or the claim while the cluster is not in a ClusterSet",
			"cluster", id.Spec.Value, "wanted", c.wanted)
	case id == nil:
		if _, err := api.Create(ctx, claim, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil // the cache lags behind
		} else if err != nil {
			return fmt.Errorf("create cluster ID claim: %w", err)
		}
		logger.Info("Created cluster ID claim", "cluster", claim.Spec.Value)
	default:
		if _, err := api.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("replace default cluster ID: %w", err)
		}
		logger.Info("Replaced default cluster ID", "cluster", claim.Spec.Value, "former", id.Spec.Value)
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

// desired returns the desired claim, nil if the claim has to stay as it is. A chosen ID
// is never replaced, and neither is the ID of a cluster in a ClusterSet.
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
	if clusterSet == nil {
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[multicluster.GeneratedIDAnnotation] = claim.Spec.Value
	}
	return claim
}

// withoutGeneratedMark returns the claim of a cluster in a ClusterSet without the mark
// of an ID that no ClusterSet has used. It returns nil if there is nothing to change.
func withoutGeneratedMark(id, clusterSet *multiclusterv1.ClusterClaim) *multiclusterv1.ClusterClaim {
	if id == nil || clusterSet == nil {
		return nil
	}
	if _, marked := id.Annotations[multicluster.GeneratedIDAnnotation]; !marked {
		return nil
	}
	claim := id.DeepCopy()
	delete(claim.Annotations, multicluster.GeneratedIDAnnotation)
	return claim
}
