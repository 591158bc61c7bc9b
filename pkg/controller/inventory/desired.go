// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
)

// isOurs reports whether this controller maintains a profile.
func isOurs(profile *multiclusterxv1alpha1.ClusterProfile) bool {
	return profile.Spec.ClusterManager.Name == multicluster.ManagedBy
}

// isShown reports whether the profile of a cluster should exist. entry is its Member,
// clusterSet the ClusterSet of this cluster, empty if it is in none.
func isShown(entry *clustersetv1alpha1.Member, clusterSet string, exists bool) bool {
	status := &entry.Status
	switch {
	case clusterSet == "", status.State == clustersetv1alpha1.MemberRefused, meta.IsStatusConditionFalse(status.Conditions, clusterset.MemberAccepted):
		return false
	case status.ClusterSet == "": // not known yet, as after a restart
		return exists
	}
	return status.ClusterSet == clusterSet
}

// desired returns the profile of a member, except for its version. What others may write is that of the existing
// profile, nil if there is none: labels, annotations and access providers.
func desired(entry *clustersetv1alpha1.Member, existing *multiclusterxv1alpha1.ClusterProfile, namespace string, now metav1.Time) *multiclusterxv1alpha1.ClusterProfile {
	profile := &multiclusterxv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: entry.Status.ClusterID}}
	if existing != nil {
		profile = existing.DeepCopy()
	}
	metav1.SetMetaDataLabel(&profile.ObjectMeta, inventory.ClusterManagerLabel, multicluster.ManagedBy)
	delete(profile.Annotations, clusterset.RelayedByAnnotation)
	if path := entry.Status.Path; len(path) > 0 {
		metav1.SetMetaDataAnnotation(&profile.ObjectMeta, clusterset.RelayedByAnnotation, path[len(path)-1])
	}
	profile.Spec = multiclusterxv1alpha1.ClusterProfileSpec{
		DisplayName:    entry.Status.ClusterID,
		ClusterManager: multiclusterxv1alpha1.ClusterManager{Name: multicluster.ManagedBy},
	}
	profile.Status.Properties = properties(entry, profile.Status.Properties)
	condition := health(entry.Status.State)
	condition.LastTransitionTime = now
	meta.SetStatusCondition(&profile.Status.Conditions, condition)
	return profile
}

// properties returns the ClusterProperties of a member; those before if it is not known now
// which it has.
func properties(entry *clustersetv1alpha1.Member, before []multiclusterxv1alpha1.Property) []multiclusterxv1alpha1.Property {
	if entry.Status.ClusterSet == "" {
		return before
	}
	known := []multiclusterxv1alpha1.Property{{Name: about.ClusterIDProperty, Value: entry.Status.ClusterID}}
	if utf8.RuneCountInString(entry.Status.ClusterSet) <= validation.MaxPropertyValueLength {
		known = append(known, multiclusterxv1alpha1.Property{Name: multicluster.ClusterSetClaim, Value: entry.Status.ClusterSet})
	}
	for _, property := range entry.Status.Properties {
		if clusterset.ClusterProperty(property).Fits() {
			known = append(known, multiclusterxv1alpha1.Property{Name: property.Name, Value: property.Value})
		}
	}
	if isUnread(entry) {
		for _, property := range before {
			if (clusterset.ClusterProperty{Name: property.Name, Value: property.Value}).Fits() {
				known = append(known, property)
			}
		}
	}
	return known
}

// isUnread reports whether a member has not been read since mcs-apiserver was restarted, so that
// what it reports is not known. One that was read has at least the version of mcs-apiserver there.
// Of this cluster and of relayed ones, all that there is is known.
func isUnread(entry *clustersetv1alpha1.Member) bool {
	status := &entry.Status
	return status.Version == "" && status.KubernetesVersion == "" && len(status.Properties) == 0 && len(status.Path) == 0 && status.State != clustersetv1alpha1.MemberLocal
}

// health returns the condition of the control plane of a member in a state. A member that
// does not respond to this cluster may still respond to others.
func health(state clustersetv1alpha1.MemberState) metav1.Condition {
	condition := metav1.Condition{Type: inventory.ControlPlaneHealthy, Status: metav1.ConditionTrue, Reason: string(state)}
	switch state {
	case clustersetv1alpha1.MemberLocal:
		condition.Message = "mcs-apiserver of this cluster serves this ClusterProfile"
	case clustersetv1alpha1.MemberConnected:
		condition.Message = "member responds to this cluster"
	case clustersetv1alpha1.MemberUnavailable:
		condition.Message = "Kubernetes API of the member responds, but mcs-apiserver there does not"
	default:
		condition.Status = metav1.ConditionUnknown
		condition.Message = "member does not respond to this cluster; see its Member"
	}
	return condition
}

// sameObject reports whether two profiles differ in their status only.
func sameObject(a, b *multiclusterxv1alpha1.ClusterProfile) bool {
	return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// sameStatus reports whether two profiles have the same status.
func sameStatus(a, b *multiclusterxv1alpha1.ClusterProfile) bool {
	return apiequality.Semantic.DeepEqual(a.Status, b.Status)
}

// foreign returns an error about a profile that somebody else maintains.
func foreign(profile *multiclusterxv1alpha1.ClusterProfile) error {
	return fmt.Errorf("name conflict: ClusterProfile %s/%s belongs to cluster manager %q; delete it so that the member %s can be shown",
		profile.Namespace, profile.Name, profile.Spec.ClusterManager.Name, profile.Name)
}
