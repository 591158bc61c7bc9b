// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Reasons of conditions. They are upstream's.
const (
	reasonValid       = "Valid"
	reasonReady       = "Ready"
	reasonPending     = "Pending"
	reasonFailed      = "Failed"
	reasonNoConflicts = "NoConflicts"
	// maxMessage and maxReason are the most that a condition can hold.
	maxMessage = 32768
	maxReason  = 1024
)

// facts are what the conditions of an export follow from.
type facts struct {
	// service is nil when there is none.
	service *corev1.Service
	// self is this cluster's own entry; nil when it has no id.
	self *clustersetv1alpha1.Member
	// exported are all exports of the service in the ClusterSet.
	exported []*clustersetv1alpha1.ExportedService
	// members are all entries.
	members []*clustersetv1alpha1.Member
	// problem is why the service has no IP for all clusters, although it should.
	problem *export.Problem
}

// joinedAt is when this cluster joined its ClusterSet.
func (f facts) joinedAt() time.Time {
	if f.self == nil || f.self.Status.IDClaimedAt == nil {
		return time.Time{}
	}
	return f.self.Status.IDClaimedAt.Time
}

// conditions are what an export's conditions should be.
func conditions(serviceExport *multiclusterxv1beta1.ServiceExport, known facts) []metav1.Condition {
	problem := export.Check(serviceExport.Namespace, serviceExport.Name, known.service)
	result := []metav1.Condition{valid(problem), ready(problem, serviceExport, known), conflict(problem, known)}
	for i := range result {
		result[i].ObservedGeneration = serviceExport.Generation
		result[i].Message = truncate.Bytes(result[i].Message, maxMessage)
		result[i].Reason = truncate.Bytes(result[i].Reason, maxReason)
	}
	return result
}

func valid(problem *export.Problem) metav1.Condition {
	if problem != nil {
		return metav1.Condition{Type: multicluster.ServiceExportValid, Status: metav1.ConditionFalse, Reason: problem.Reason, Message: problem.Message}
	}
	return metav1.Condition{Type: multicluster.ServiceExportValid, Status: metav1.ConditionTrue, Reason: reasonValid, Message: "the Service can be exported"}
}

func ready(problem *export.Problem, serviceExport *multiclusterxv1beta1.ServiceExport, known facts) metav1.Condition {
	condition := metav1.Condition{Type: multicluster.ServiceExportReady, Status: metav1.ConditionFalse, Reason: reasonPending}
	switch {
	case problem != nil:
		condition.Reason, condition.Message = reasonFailed, "the export is not valid: "+problem.Message
	case known.self == nil || known.self.Status.ClusterSet == "":
		condition.Message = fmt.Sprintf("this cluster is in no ClusterSet: create the ClusterClaims %s and %s", multicluster.ClusterIDClaim, multicluster.ClusterSetClaim)
	case !offered(serviceExport, known):
		condition.Message = "waiting for mcs-apiserver to offer the Service to the other clusters"
	case known.problem != nil:
		condition.Reason, condition.Message = known.problem.Reason, known.problem.Message
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reasonReady, "the Service is offered to the other clusters"
	}
	return condition
}

// offered says whether this very export is what others can see.
func offered(serviceExport *multiclusterxv1beta1.ServiceExport, known facts) bool {
	if known.self == nil {
		return false
	}
	for _, exported := range known.exported {
		if exported.Spec.Cluster == known.self.Status.ClusterID && exported.UID == serviceExport.UID {
			return true
		}
	}
	return false
}

func conflict(problem *export.Problem, known facts) metav1.Condition {
	condition := metav1.Condition{Type: multicluster.ServiceExportConflict, Status: metav1.ConditionFalse, Reason: reasonNoConflicts, Message: "no other cluster exports the Service differently"}
	if problem != nil || len(known.exported) == 0 {
		return condition
	}
	var exports []merge.Export
	for _, exported := range known.exported {
		exports = append(exports, merge.FromV1alpha1(exported))
	}
	var reasons, messages []string
	for _, conflict := range merge.Merge(exports).Conflicts {
		reasons, messages = append(reasons, conflict.Reason), append(messages, conflict.Message)
	}
	if len(reasons) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, strings.Join(reasons, ","), strings.Join(messages, " ")
	}
	return condition
}

// apply sets conditions and says whether that changed anything. Times move
// with statuses only.
func apply(held *[]metav1.Condition, wanted []metav1.Condition) bool {
	changed := false
	for _, condition := range wanted {
		changed = meta.SetStatusCondition(held, condition) || changed
	}
	return changed
}

// event is something that people ought to hear of.
type event struct {
	eventType, reason, message string
}

// events are what happened between two states of an export's conditions.
func events(before, after []metav1.Condition) []event {
	var result []event
	for _, condition := range after {
		old := meta.FindStatusCondition(before, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		switch {
		case condition.Type == multicluster.ServiceExportValid && condition.Status == metav1.ConditionFalse:
			result = append(result, event{corev1.EventTypeWarning, condition.Reason, condition.Message})
		case condition.Type == multicluster.ServiceExportReady && condition.Status == metav1.ConditionTrue:
			result = append(result, event{corev1.EventTypeNormal, "Exported", condition.Message})
		case condition.Type == multicluster.ServiceExportConflict && condition.Status == metav1.ConditionTrue:
			result = append(result, event{corev1.EventTypeWarning, "Conflict", condition.Message})
		case condition.Type == multicluster.ServiceExportConflict && old != nil && old.Status == metav1.ConditionTrue:
			result = append(result, event{corev1.EventTypeNormal, "ConflictResolved", condition.Message})
		}
	}
	return result
}
