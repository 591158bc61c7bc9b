// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/google/uuid"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

var everything = labels.Everything()

// syncClaims applies the identity that the ClusterClaims of this cluster
// assert, and publishes the claims as ClusterProperties.
func (p *Projection) syncClaims(ctx context.Context) error {
	claims, err := p.claims.List(everything)
	if err != nil {
		return err
	}
	identity, err := p.config.identity(claims, p.namespaces)
	if err != nil {
		return err
	}
	if before := p.members.Identity(); before != identity {
		klog.FromContext(ctx).Info("Cluster identity changed", "cluster", identity.ID, "clusterSet", identity.ClusterSet, "previousCluster", before.ID)
		recordIdentity(identity)
		p.members.SetIdentity(identity)
		services, err := p.everyService()
		if err != nil {
			return err
		}
		for _, service := range services {
			p.enqueueService(service)
		}
	}
	p.members.SetProperties(reported(claims))
	current := sets.New[string]()
	for _, property := range properties(claims) {
		current.Insert(property.Name)
		p.stores.clusterProperties.Set(property)
	}
	for _, object := range p.stores.clusterProperties.List() {
		if name := object.(*about.ClusterProperty).Name; !current.Has(name) {
			p.stores.clusterProperties.Delete("", name)
		}
	}
	return nil
}

// identity returns the identity that the ClusterClaims of this cluster assert.
func (c Config) identity(claims []*multiclusterv1.ClusterClaim, namespaces corev1listers.NamespaceLister) (identity.Cluster, error) {
	var self identity.Cluster
	var id, clusterSet *multiclusterv1.ClusterClaim
	var claimed string
	for _, claim := range claims {
		switch claim.Name {
		case multicluster.ClusterIDClaim:
			id, self.ID = claim, claim.Spec.Value
		case multicluster.ClusterSetClaim:
			clusterSet, self.ClusterSet, self.MembershipUID = claim, claim.Spec.Value, claim.UID
		case multicluster.ClusterSetIPCIDRClaim:
			claimed = claim.Spec.Value
		}
	}
	self.CIDRs, self.CIDRProblem = c.allocationCIDRs(claimed)
	self.IDClaimedAt = identity.ClaimedAt(id, clusterSet)
	system, err := namespaces.Get(metav1.NamespaceSystem)
	if apierrors.IsNotFound(err) {
		return self, nil
	}
	if err != nil {
		return self, err
	}
	self.UID, self.Since = system.UID, system.CreationTimestamp.Time
	return self, nil
}

// allocationCIDRs returns the allocation CIDRs of this cluster, or why they
// cannot be used: those of the flag, or else those of the ClusterClaim.
func (c Config) allocationCIDRs(claimed string) (cidrs, problem string) {
	texts := c.ClusterSetIPCIDRs
	if len(texts) == 0 {
		texts = clusterset.SplitList(claimed)
	}
	prefixes, err := clustersetip.ParseCIDRs(texts)
	if err != nil {
		return "", fmt.Sprintf("invalid ClusterClaim %q: %v", multicluster.ClusterSetIPCIDRClaim, err)
	}
	if outside := clustersetip.Outside(prefixes, c.ClusterSetIPRanges); len(outside) > 0 {
		return "", fmt.Sprintf("invalid ClusterClaim %q: %v is outside the ClusterSet IP range %v (--clusterset-ip-range); change the claim, or delete it and run kubectl mcs join", multicluster.ClusterSetIPCIDRClaim, outside, c.ClusterSetIPRanges)
	}
	return strings.Join(texts, ","), ""
}

// properties returns the claims as ClusterProperties. The cluster ID appears
// twice, because the KEP and the upstream API name it differently.
func properties(claims []*multiclusterv1.ClusterClaim) []*about.ClusterProperty {
	var properties []*about.ClusterProperty
	property := func(claim *multiclusterv1.ClusterClaim, name string, uid types.UID) {
		properties = append(properties, &about.ClusterProperty{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: uid, CreationTimestamp: claim.CreationTimestamp, Generation: claim.Generation,
				Labels: claim.Labels, Annotations: claim.Annotations,
			},
			Spec: about.ClusterPropertySpec{Value: claim.Spec.Value},
		})
	}
	for _, claim := range claims {
		switch claim.Name {
		case about.ClusterIDProperty:
			continue // reserved for the cluster ID
		case multicluster.ClusterIDClaim:
			property(claim, about.ClusterIDProperty, derivedUID(claim.UID))
		}
		property(claim, claim.Name, claim.UID)
	}
	return properties
}

// reported returns the ClusterProperties that other clusters see in the Member of this one:
// those that fit, sorted by name. The ID and the ClusterSet, whose names are reserved, have
// fields of their own.
func reported(claims []*multiclusterv1.ClusterClaim) []clusterset.ClusterProperty {
	var reported []clusterset.ClusterProperty
	for _, claim := range claims {
		reported = append(reported, clusterset.ClusterProperty{Name: claim.Name, Value: claim.Spec.Value})
	}
	slices.SortFunc(reported, func(a, b clusterset.ClusterProperty) int { return cmp.Compare(a.Name, b.Name) })
	return clusterset.FittingProperties(reported)
}

// derivedUID returns a UID that is a function of another one.
func derivedUID(uid types.UID) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(about.ClusterIDProperty+uid)).String())
}
