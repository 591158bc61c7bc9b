// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/google/uuid"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

var everything = labels.Everything()

// syncClaims takes over who this cluster says it is, and shows its claims
// under upstream's names.
func (p *Projection) syncClaims(ctx context.Context) error {
	claims, err := p.claims.List(everything)
	if err != nil {
		return err
	}
	identity, err := p.identify(claims)
	if err != nil {
		return err
	}
	if before := p.members.Identity(); before != identity {
		klog.FromContext(ctx).Info("This cluster says who it is", "cluster", identity.ID, "clusterSet", identity.ClusterSet, "before", before.ID)
		showIdentity(identity)
		p.members.SetIdentity(identity)
		services, err := p.everyService()
		if err != nil {
			return err
		}
		for _, service := range services {
			p.enqueueService(service)
		}
	}
	shown := sets.New[string]()
	for _, property := range properties(claims) {
		shown.Insert(property.Name)
		p.config.Stores.ClusterProperties.Set(property)
	}
	for _, object := range p.config.Stores.ClusterProperties.List() {
		if name := object.(*about.ClusterProperty).Name; !shown.Has(name) {
			p.config.Stores.ClusterProperties.Delete("", name)
		}
	}
	return nil
}

// identify reads off the claims who this cluster is.
func (p *Projection) identify(claims []*multiclusterv1.ClusterClaim) (member.Identity, error) {
	var identity member.Identity
	var id, clusterSet *multiclusterv1.ClusterClaim
	var claimed string
	for _, claim := range claims {
		switch claim.Name {
		case multicluster.ClusterIDClaim:
			id, identity.ID = claim, claim.Spec.Value
		case multicluster.ClusterSetClaim:
			clusterSet, identity.ClusterSet = claim, claim.Spec.Value
		case multicluster.ClusterSetIPCIDRClaim:
			claimed = claim.Spec.Value
		}
	}
	identity.CIDRs, identity.CIDRProblem = p.config.part(claimed)
	identity.IDClaimedAt = member.ClaimedAt(id, clusterSet)
	system, err := p.namespaces.Get(metav1.NamespaceSystem)
	if apierrors.IsNotFound(err) {
		return identity, nil
	}
	if err != nil {
		return identity, err
	}
	identity.UID, identity.Since = system.UID, system.CreationTimestamp.Time
	return identity, nil
}

// part is this cluster's part of the addresses for one IP in all clusters: the
// one that it was started with, or else the one that it claims.
func (c Config) part(claimed string) (cidrs, problem string) {
	texts := c.ClusterSetIPCIDRs
	if len(texts) == 0 {
		texts = clustersetip.SplitCIDRs(claimed)
	}
	prefixes, err := clustersetip.ParseCIDRs(texts)
	if err != nil {
		return "", fmt.Sprintf("the claim %s cannot be used: %v", multicluster.ClusterSetIPCIDRClaim, err)
	}
	if outside := clustersetip.Outside(prefixes, c.ClusterSetIPRanges); len(outside) > 0 {
		return "", fmt.Sprintf("the claim %s cannot be used: %v is not in the range %v (--clusterset-ip-range)", multicluster.ClusterSetIPCIDRClaim, outside, c.ClusterSetIPRanges)
	}
	return strings.Join(texts, ","), ""
}

// properties are the claims as ClusterProperties. The id is shown twice,
// because the KEP and upstream call it differently.
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
			continue // the name is taken by the id
		case multicluster.ClusterIDClaim:
			property(claim, about.ClusterIDProperty, otherUID(claim.UID))
		}
		property(claim, claim.Name, claim.UID)
	}
	return properties
}

// otherUID is a UID that always belongs to the same other one.
func otherUID(uid types.UID) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(about.ClusterIDProperty+uid)).String())
}
