// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
)

// Declaration is everything that a cluster has when a plan to join is carried out.
type Declaration struct {
	// Context is the kubeconfig context of the cluster, and ID its cluster ID.
	Context, ID string
	// Members are the other clusters, without tokens, but with the kubeconfigs that they keep. They
	// have access to this one.
	Members []Membership
	// Relays are the IDs of the members that this cluster is the hub of.
	Relays []string
	// AllocationCIDRs and ClusterSet are what the cluster claims; the former may be empty.
	AllocationCIDRs, ClusterSet string
	// Since is since when the cluster counts as a member if it joins, empty for now.
	Since string
}

// Declare returns what the clusters have when a plan of [Join] with the same arguments is
// carried out, also what they have already: tools delete what is not declared any more. A
// cluster that joins does not do so before now, so that its exports do not count as older.
//
// Members keep their kubeconfig if it is of use: a token that is declared late, and has expired,
// would end a connection that works.
func Declare(planned Plan, clusterSet string, clusters []Cluster, ids map[string]string, now time.Time) []Declaration {
	id := func(c Cluster) string { return cmp.Or(ids[c.Context], c.ID) }
	var declarations []Declaration
	for _, c := range clusters {
		declaration := Declaration{Context: c.Context, ID: id(c), ClusterSet: clusterSet}
		if c.ClusterSet == "" {
			declaration.Since = c.Since
		}
		declaration.AllocationCIDRs = cmp.Or(planned.value(c, AssignCIDRs, ""), strings.Join(c.Claimed, ","))
		for _, peer := range clusters {
			if !linked(clusters, c, peer) {
				continue
			}
			if c.Hub || c.Relaying[id(peer)] {
				declaration.Relays = append(declaration.Relays, id(peer))
			}
			existing := c.Members[id(peer)]
			joined := cmp.Or(peer.Since, now.UTC().Format(time.RFC3339))
			if peer.ClusterSet != "" {
				joined = cmp.Or(existing.JoinedAt, LatestJoinTime(clusters, id(peer)), peer.JoinedAt)
			}
			declaration.Members = append(declaration.Members, Membership{
				ID: id(peer), UID: peer.UID, Access: peer.Access, JoinedAt: joined,
				AllowedCIDRs:    cmp.Or(planned.value(c, AllowCIDRs, id(peer)), existing.AllowedCIDRs),
				AllocationCIDRs: cmp.Or(planned.value(c, RecordCIDRs, id(peer)), existing.AllocationCIDRs),
				RelayFor:        cmp.Or(planned.value(c, AllowRelay, id(peer)), existing.RelayFor),
				Secret:          cmp.Or(existing.Secret.Name, clusterset.MemberSecretName(id(peer))),
				Kept:            existing.Kept,
				Kubeconfig:      planned.kubeconfigOf(c, peer, id(c), id(peer), now),
			})
		}
		declarations = append(declarations, declaration)
	}
	return declarations
}

// kubeconfigOf returns the kubeconfig that a cluster keeps for a peer, nil if it gets another one:
// because the plan replaces it, because the service account of its token does not exist any more, or
// because the token has expired and the cluster has not met the peer, so that it was not renewed.
func (p Plan) kubeconfigOf(c, peer Cluster, id, peerID string, now time.Time) []byte {
	member, account := c.Members[peerID], peer.Accounts[id]
	_, met := c.Known[peerID]
	_, replaced := p.step(c, AddMembers, peerID)
	token, err := peertoken.Parse(member.Token)
	switch {
	case replaced, account == "", err == nil && token.AccountUID != "" && token.AccountUID != account:
		return nil
	case met, err == nil && now.Before(token.Expires):
		return member.Kubeconfig
	default:
		return nil
	}
}

// value returns the value of a step for a cluster, and for a peer unless that is empty.
func (p Plan) value(c Cluster, action Action, peer string) string {
	step, _ := p.step(c, action, peer)
	return step.Value
}

// step returns the step of an action for a cluster, and for a peer unless that is empty.
func (p Plan) step(c Cluster, action Action, peer string) (Step, bool) {
	for _, step := range p.Steps {
		if step.Context == c.Context && step.Action == action && (peer == "" || slices.Contains(step.Peers, peer)) {
			return step, true
		}
	}
	return Step{}, false
}

// LatestJoinTime returns the latest time of joining that any of the clusters has recorded for
// a member, empty if none has.
func LatestJoinTime(clusters []Cluster, id string) string {
	var latest time.Time
	for _, c := range clusters {
		if at, err := time.Parse(time.RFC3339, c.Members[id].JoinedAt); err == nil && at.After(latest) {
			latest = at
		}
	}
	if latest.IsZero() {
		return ""
	}
	return latest.UTC().Format(time.RFC3339)
}

// IDClaim returns the ClusterClaim with the ID of the cluster, which the others need: a cluster
// that claims the ClusterSet before keeps the ID that mcs-controller generated.
func (d Declaration) IDClaim() runtime.Object {
	claim := declaredClaim(multicluster.ClusterIDClaim, d.ID, "1")
	claim.Annotations[argoSyncOptions] += ",Prune=false,Delete=false" // it cannot be deleted
	claim.Annotations[fluxPrune] = "disabled"
	return claim
}

// ClusterSetClaims returns all other ClusterClaims of the cluster in the order in which they are
// created.
func (d Declaration) ClusterSetClaims() []runtime.Object {
	var claims []runtime.Object
	if d.AllocationCIDRs != "" {
		claims = append(claims, declaredClaim(multicluster.ClusterSetIPCIDRClaim, d.AllocationCIDRs, "1"))
	}
	joining := declaredClaim(multicluster.ClusterSetClaim, d.ClusterSet, "2")
	if at, err := time.Parse(time.RFC3339, d.Since); err == nil {
		joining.Annotations[multicluster.MigratedFromAnnotation] = multicluster.MigratedFrom{CreationTimestamp: metav1.NewTime(at)}.String()
	}
	return append(claims, joining)
}

// Annotations by which tools apply and delete objects in the right order. Nothing else reads them.
const (
	argoSyncWave    = "argocd.argoproj.io/sync-wave"
	argoSyncOptions = "argocd.argoproj.io/sync-options"
	fluxPrune       = "kustomize.toolkit.fluxcd.io/prune"
)

// declaredClaim returns a ClusterClaim that Argo CD applies after the Secrets, in a wave of its own,
// also if the installation is a part of the same application.
func declaredClaim(name, value, wave string) *multiclusterv1.ClusterClaim {
	claim := NewClaim(name, value)
	claim.Annotations = map[string]string{argoSyncWave: wave, argoSyncOptions: "SkipDryRunOnMissingResource=true"}
	return claim
}
