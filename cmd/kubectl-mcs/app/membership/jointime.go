// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// maxSkew is how far the clock of a cluster may be behind the clock of the user.
const maxSkew = time.Minute

// JoinTime returns when a cluster joined, as it is recorded in the member Secrets of others.
func (e *Execution) JoinTime(ctx context.Context, c *Cluster) (string, error) {
	at, err := e.joinTime(ctx, c)
	if err != nil {
		return "", c.WrapError(err, cluster.MCSAdminAdvice)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// joinTime returns when a cluster joined. Other clusters trust this time and no
// later claim, so the cluster itself is believed only if nothing else is known.
func (e *Execution) joinTime(ctx context.Context, c *Cluster) (time.Time, error) {
	claim, err := c.MCS.MulticlusterV1().ClusterClaims().Get(ctx, multicluster.ClusterSetClaim, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	asked, joinsNow := e.claiming[c.Context]
	if joinsNow {
		if _, dated := claim.Annotations[multicluster.MigratedFromAnnotation]; dated {
			return checkedSince(claim.CreationTimestamp.Time, asked)
		}
		return checkedJoinTime(claim.CreationTimestamp.Time, asked)
	}
	if recorded, err := time.Parse(time.RFC3339, plan.LatestJoinTime(e.observed(), c.Observed.ID)); err == nil {
		return recorded, nil
	}
	if claim.CreationTimestamp.IsZero() {
		return time.Time{}, fmt.Errorf("ClusterClaim %s has no creation time", multicluster.ClusterSetClaim)
	}
	return claim.CreationTimestamp.Time, nil
}

// checkedJoinTime checks the time that a cluster reports for a claim that it was
// asked to create.
func checkedJoinTime(reported, asked time.Time) (time.Time, error) {
	if behind := asked.Sub(reported); behind > maxSkew {
		return time.Time{}, fmt.Errorf("cluster reports that it joined at %s, but was asked to at %s: its clock, or that of this machine, is wrong by %s, "+
			"or the cluster claims to be older than it is, so that its exports take precedence; correct the clock and join again",
			reported.UTC().Format(time.RFC3339), asked.UTC().Format(time.RFC3339), behind.Round(time.Second))
	}
	return reported, nil
}

// checkedSince checks that a claim has the age that it was created with, which releases of
// mcs-apiserver that do not know of it ignore.
func checkedSince(reported, asked time.Time) (time.Time, error) {
	if !reported.Equal(asked) {
		return time.Time{}, fmt.Errorf("cluster reports that it joined at %s, but was asked to join as of %s: its mcs-apiserver does not support --since; upgrade it and join again",
			reported.UTC().Format(time.RFC3339), asked.UTC().Format(time.RFC3339))
	}
	return reported, nil
}

// observed returns the observed state of all clusters.
func (e *Execution) observed() []plan.Cluster {
	return Observed(slices.Collect(maps.Values(e.clusters)))
}

// recordInSecret records something about a peer in its member Secret.
func (c *Cluster) recordInSecret(ctx context.Context, peerID, key, value string) (rollback, error) {
	existing, err := c.Kubernetes.CoreV1().Secrets(c.Namespace).Get(ctx, c.memberSecret(peerID), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return c.updateSecret(ctx, existing, func(secret *corev1.Secret) { secret.Data[key] = []byte(value) })
}

// memberSecret returns the name of the member Secret of a peer, which may not exist
// yet.
func (c *Cluster) memberSecret(peerID string) string {
	if names := c.memberSecrets[peerID]; len(names) > 0 {
		return names[0]
	}
	return clusterset.MemberSecretName(peerID)
}
