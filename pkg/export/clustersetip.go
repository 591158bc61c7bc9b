// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// wantsClusterSetIP reports whether an export requests a shared ClusterSet IP.
func wantsClusterSetIP(export *multiclusterxv1beta1.ServiceExport, byDefault bool) bool {
	for _, annotation := range []string{multicluster.UseClusterSetIPAnnotation, multicluster.LighthouseUseClusterSetIPAnnotation} {
		switch export.Annotations[annotation] {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return byDefault
}

// record is the recorded decision of an export, as stored in its annotation.
type record struct {
	clustersetv1alpha1.ClusterSetIPDecision `json:",inline"`
	// JoinedAt is when the cluster had joined its ClusterSet. A decision that was
	// recorded in an earlier membership no longer applies.
	JoinedAt metav1.Time `json:"joinedAt"`
}

// recorded returns the recorded decision of an export in any membership, or nil.
func recorded(export *multiclusterxv1beta1.ServiceExport) *record {
	var held record
	text, ok := export.Annotations[multicluster.ClusterSetIPDecisionAnnotation]
	if !ok || json.Unmarshal([]byte(text), &held) != nil {
		return nil
	}
	return &held
}

// RecordedIPs returns the recorded IPs of an export in any membership.
func RecordedIPs(export *multiclusterxv1beta1.ServiceExport) []string {
	if held := recorded(export); held != nil {
		return held.IPs
	}
	return nil
}

// DependsOn reports whether a cluster made the recorded decision of an export, or this
// cluster heard of the decision through it.
func DependsOn(export *multiclusterxv1beta1.ServiceExport, cluster string) bool {
	held := recorded(export)
	return held != nil && (held.DecidedBy == cluster || slices.Contains(held.AdoptedFrom, cluster))
}

// RecordedDecision returns the recorded decision of an export, or nil if none was
// recorded since the cluster joined.
func RecordedDecision(export *multiclusterxv1beta1.ServiceExport, joinedAt time.Time) *clusterset.ClusterSetIPDecision {
	held := recorded(export)
	if held == nil || !held.JoinedAt.Time.Equal(joinedAt) {
		return nil
	}
	return &clusterset.ClusterSetIPDecision{IPs: held.IPs, DecidedBy: held.DecidedBy, Since: held.Since, AdoptedFrom: held.AdoptedFrom}
}

// RecordDecision records a decision in an export, or removes it if decision is
// nil, and reports whether the export changed.
func RecordDecision(export *multiclusterxv1beta1.ServiceExport, decision *clusterset.ClusterSetIPDecision, joinedAt time.Time) bool {
	before, had := export.Annotations[multicluster.ClusterSetIPDecisionAnnotation]
	if decision == nil {
		delete(export.Annotations, multicluster.ClusterSetIPDecisionAnnotation)
		return had
	}
	text, err := json.Marshal(record{
		clustersetv1alpha1.ClusterSetIPDecision{IPs: decision.IPs, DecidedBy: decision.DecidedBy, Since: decision.Since, AdoptedFrom: decision.AdoptedFrom},
		metav1.NewTime(joinedAt),
	})
	if err != nil || string(text) == before {
		return false // strings and times can always be encoded
	}
	if export.Annotations == nil {
		export.Annotations = map[string]string{}
	}
	export.Annotations[multicluster.ClusterSetIPDecisionAnnotation] = string(text)
	return true
}
