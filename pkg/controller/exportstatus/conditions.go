// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/ipallocator"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Reasons of conditions, as the upstream API defines them.
const (
	reasonValid       = "Valid"
	reasonReady       = "Ready"
	reasonPending     = "Pending"
	reasonFailed      = "Failed"
	reasonNoConflicts = "NoConflicts"
	// maxMessage and maxReason are the limits of the API in bytes.
	maxMessage = 32768
	maxReason  = 1024
)

// facts is the state that the status of an export is computed from.
type facts struct {
	// service is nil if it does not exist.
	service *corev1.Service
	// self is the Member of this cluster, nil if the cluster has no ID.
	self *clustersetv1alpha1.Member
	// exported are all exports of the service in the ClusterSet.
	exported []*clustersetv1alpha1.ExportedService
	// members are the Members of all clusters, including this one.
	members []*clustersetv1alpha1.Member
	// ipProblem is why the service has no shared ClusterSet IP although it requests one.
	ipProblem *export.Problem
	// derived is the derived Service, nil if there is none.
	derived *corev1.Service
	now     time.Time
}

// local returns what this cluster knows about the shared ClusterSet IP besides the
// exports.
func (f facts) local() clustersetip.Local {
	if f.self == nil {
		return clustersetip.Local{}
	}
	return clustersetip.NewLocal(f.self.Status.ClusterID, f.derived, ipallocator.Allocations(f.members), f.now)
}

// joinedAt returns when this cluster joined its ClusterSet.
func (f facts) joinedAt() time.Time {
	if f.self == nil || f.self.Status.IDClaimedAt == nil {
		return time.Time{}
	}
	return f.self.Status.IDClaimedAt.Time
}

// inClusterSet reports whether this cluster is in a ClusterSet.
func (f facts) inClusterSet() bool { return f.self != nil && f.self.Status.ClusterSet != "" }

// request returns the request for the shared ClusterSet IP of an export.
func (f facts) request(key types.NamespacedName, serviceExport *multiclusterxv1beta1.ServiceExport) ipallocator.Request {
	return ipallocator.Request{
		Key: key, Export: serviceExport, Service: f.service, Self: f.self, JoinedAt: f.joinedAt(), Exported: f.exported, Members: f.members,
	}
}

// conditions returns the desired conditions of an export.
func conditions(serviceExport *multiclusterxv1beta1.ServiceExport, observed facts) []metav1.Condition {
	problem := export.Check(serviceExport.Namespace, serviceExport.Name, observed.service)
	result := []metav1.Condition{valid(problem), ready(problem, serviceExport, observed), conflict(problem, observed)}
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
	return metav1.Condition{Type: multicluster.ServiceExportValid, Status: metav1.ConditionTrue, Reason: reasonValid, Message: "Service can be exported"}
}

func ready(problem *export.Problem, serviceExport *multiclusterxv1beta1.ServiceExport, observed facts) metav1.Condition {
	condition := metav1.Condition{Type: multicluster.ServiceExportReady, Status: metav1.ConditionFalse, Reason: reasonPending}
	served := served(serviceExport, observed)
	switch {
	case problem != nil:
		condition.Reason, condition.Message = reasonFailed, "export is not valid: "+problem.Message
	case !observed.inClusterSet():
		condition.Message = fmt.Sprintf("this cluster is not in a ClusterSet; run kubectl mcs join, or create the ClusterClaims %s and %s", multicluster.ClusterIDClaim, multicluster.ClusterSetClaim)
	case served == nil:
		condition.Message = "waiting for mcs-apiserver to export the Service to the ClusterSet"
	case observed.ipProblem != nil:
		condition.Reason, condition.Message = observed.ipProblem.Reason, observed.ipProblem.Message
	default:
		condition.Status, condition.Reason, condition.Message = exportedTo(serviceExport, served, observed.members)
	}
	return condition
}

// awaitsServer reports whether nothing is missing for an export to be served but that mcs-apiserver
// does it.
func awaitsServer(serviceExport *multiclusterxv1beta1.ServiceExport, observed facts) bool {
	return export.Check(serviceExport.Namespace, serviceExport.Name, observed.service) == nil && observed.inClusterSet() && served(serviceExport, observed) == nil
}

// served returns what other clusters can read of this export, and not of one that existed before
// under the same name; nil if they cannot.
func served(serviceExport *multiclusterxv1beta1.ServiceExport, observed facts) *clustersetv1alpha1.ExportedService {
	if observed.self == nil {
		return nil
	}
	for _, exported := range observed.exported {
		if exported.Spec.Cluster == observed.self.Status.ClusterID && exported.UID == serviceExport.UID {
			return exported
		}
	}
	return nil
}

func conflict(problem *export.Problem, observed facts) metav1.Condition {
	condition := metav1.Condition{Type: multicluster.ServiceExportConflict, Status: metav1.ConditionFalse, Reason: reasonNoConflicts, Message: "no conflicts with the exports of other clusters"}
	if problem != nil || len(observed.exported) == 0 {
		return condition
	}
	var exports []merge.Export
	for _, exported := range observed.exported {
		exports = append(exports, merge.FromV1alpha1(exported))
	}
	var reasons, messages []string
	for _, conflict := range merge.MergeIn(observed.local(), exports).Conflicts {
		reasons, messages = append(reasons, conflict.Reason), append(messages, conflict.Message)
	}
	if len(reasons) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, strings.Join(reasons, ","), strings.Join(messages, " ")
	}
	return condition
}

// apply sets conditions and reports whether any of them changed. Transition times
// change with the status only.
func apply(current *[]metav1.Condition, wanted []metav1.Condition) bool {
	changed := false
	for _, condition := range wanted {
		changed = meta.SetStatusCondition(current, condition) || changed
	}
	return changed
}

// event is an Event to record.
type event struct {
	eventType, reason, message string
}

// released returns an Event if an export gave up a shared ClusterSet IP although it is
// still exported.
func released(before, after *multiclusterxv1beta1.ServiceExport, observed facts) []event {
	old, current := export.RecordedIPs(before), export.RecordedIPs(after)
	shown := served(after, observed)
	if len(old) == 0 || slices.Equal(old, current) || shown == nil {
		return nil
	}
	cause := "the cluster that decided it was expelled, another cluster decided earlier, or another service has it; the service gets another one"
	if shown.Spec.Audience != nil {
		cause = fmt.Sprintf("annotation %s lists clusters, and exports with a list take no part in shared ClusterSet IPs; remove the annotation if the export should have one", multicluster.ExportToAnnotation)
	}
	return []event{{corev1.EventTypeWarning, "ClusterSetIPReleased", fmt.Sprintf("shared ClusterSet IP %s is given up: %s", strings.Join(old, ","), cause)}}
}

// events returns the Events for the changes between two sets of conditions.
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
		case condition.Type == multicluster.ServiceExportReady && slices.Contains(listReasons, condition.Reason):
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
