// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// wants says whether an export asks for one IP in all clusters.
func wants(export *multiclusterxv1beta1.ServiceExport, byDefault bool) bool {
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

// record is how an export remembers what was decided.
type record struct {
	clustersetv1alpha1.ClusterSetIPDecision `json:",inline"`
	// JoinedAt is when the cluster had joined its ClusterSet. What was decided in
	// an earlier membership counts no more.
	JoinedAt metav1.Time `json:"joinedAt"`
}

// recorded is what an export remembers, of whatever membership; nil if nothing.
func recorded(export *multiclusterxv1beta1.ServiceExport) *record {
	var held record
	text, ok := export.Annotations[multicluster.ClusterSetIPDecisionAnnotation]
	if !ok || json.Unmarshal([]byte(text), &held) != nil {
		return nil
	}
	return &held
}

// RecordedIPs are the addresses that an export remembers, of whatever membership.
func RecordedIPs(export *multiclusterxv1beta1.ServiceExport) []string {
	if held := recorded(export); held != nil {
		return held.IPs
	}
	return nil
}

// RecordedDecision is what an export of a cluster that joined at a time holds to, nil if
// nothing has been decided yet.
func RecordedDecision(export *multiclusterxv1beta1.ServiceExport, joinedAt time.Time) *clusterset.ClusterSetIPDecision {
	held := recorded(export)
	if held == nil || !held.JoinedAt.Time.Equal(joinedAt) {
		return nil
	}
	return &clusterset.ClusterSetIPDecision{IPs: held.IPs, DecidedBy: held.DecidedBy, Since: held.Since}
}

// RecordDecision makes an export hold to a decision, or to none, and says whether
// that changes anything.
func RecordDecision(export *multiclusterxv1beta1.ServiceExport, decision *clusterset.ClusterSetIPDecision, joinedAt time.Time) bool {
	before, had := export.Annotations[multicluster.ClusterSetIPDecisionAnnotation]
	if decision == nil {
		delete(export.Annotations, multicluster.ClusterSetIPDecisionAnnotation)
		return had
	}
	text, err := json.Marshal(record{
		clustersetv1alpha1.ClusterSetIPDecision{IPs: decision.IPs, DecidedBy: decision.DecidedBy, Since: decision.Since},
		metav1.NewTime(joinedAt),
	})
	if err != nil || string(text) == before {
		return false // strings and times can be written down
	}
	if export.Annotations == nil {
		export.Annotations = map[string]string{}
	}
	export.Annotations[multicluster.ClusterSetIPDecisionAnnotation] = string(text)
	return true
}
