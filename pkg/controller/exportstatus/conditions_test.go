// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newExport() *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "export", Generation: 3}}
}

func newService(changes ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, change := range changes {
		change(service)
	}
	return service
}

func self(clusterSet string) *clustersetv1alpha1.Member {
	return &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "here"},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: "here", ClusterSet: clusterSet, State: clustersetv1alpha1.MemberLocal},
	}
}

// exported returns the service as a cluster exported it so many minutes after epoch.
func exported(cluster string, uid types.UID, minute int, changes ...func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
	result := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web." + cluster, UID: uid},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: "web", Type: clustersetv1alpha1.ClusterSetIP, ExportedAt: metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute)),
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, change := range changes {
		change(&result.Spec)
	}
	return result
}

func headless(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Type = clustersetv1alpha1.Headless }

func otherPort(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports[0].Port = 81 }

// everythingElse changes everything but type and ports.
func everythingElse(spec *clustersetv1alpha1.ExportedServiceSpec) {
	spec.SessionAffinity = corev1.ServiceAffinityClientIP
	spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}}
	spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	spec.TrafficDistribution = ptr.To("PreferSameZone")
	spec.ExportedLabels, spec.ExportedAnnotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
}

const (
	isValid     = `Valid=True/Valid: Service can be exported`
	isReady     = `Ready=True/Ready: Service is exported to the ClusterSet`
	noConflicts = `Conflict=False/NoConflicts: no conflicts with the exports of other clusters`
	inNoSet     = `Ready=False/Pending: this cluster is not in a ClusterSet; run kubectl mcs join, or create the ClusterClaims id.k8s.io and clusterset.k8s.io`
	waiting     = `Ready=False/Pending: waiting for mcs-apiserver to export the Service to the ClusterSet`
)

func TestConditions(t *testing.T) {
	type exports = []*clustersetv1alpha1.ExportedService
	own := exported("here", "export", 1)
	for _, test := range []struct {
		name  string
		known facts
		want  []string
	}{
		{"R20: healthy", facts{service: newService(), self: self("set"), exported: exports{own}}, []string{isValid, isReady, noConflicts}},
		{"R20: healthy with others", facts{service: newService(), self: self("set"), exported: exports{own, exported("east", "x", 0), exported("west", "y", 2)}}, []string{isValid, isReady, noConflicts}},
		{"R19: no Service", facts{service: nil, self: self("set"), exported: nil}, []string{
			`Valid=False/NoService: Service "web" does not exist in namespace "shop"; nothing is exported until the Service is created`,
			`Ready=False/Failed: export is not valid: Service "web" does not exist in namespace "shop"; nothing is exported until the Service is created`, noConflicts,
		}},
		{"R18: ExternalName, although others disagree among themselves", facts{
			service: newService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), self: self("set"),
			exported: exports{exported("east", "x", 0), exported("west", "y", 2, headless)},
		}, []string{
			`Valid=False/InvalidServiceType: Service "web" in namespace "shop" has type ExternalName and cannot be exported; export a Service that has endpoints`,
			`Ready=False/Failed: export is not valid: Service "web" in namespace "shop" has type ExternalName and cannot be exported; export a Service that has endpoints`, noConflicts,
		}},
		{"R23: a derived Service", facts{
			service: newService(func(s *corev1.Service) {
				s.Name, s.Labels = multicluster.DerivedServiceName("shop", "db"), map[string]string{multicluster.ServiceNameLabel: "db"}
			}), self: self("set"),
		}, []string{
			`Valid=False/InvalidServiceType: Service "web" in namespace "shop" is the derived Service of ServiceImport "db" and cannot be exported; export Service "db" of this cluster instead`,
			`Ready=False/Failed: export is not valid: Service "web" in namespace "shop" is the derived Service of ServiceImport "db" and cannot be exported; export Service "db" of this cluster instead`, noConflicts,
		}},
		{"R21: no id", facts{service: newService(), self: nil, exported: nil}, []string{isValid, inNoSet, noConflicts}},
		{"R21: no ClusterSet", facts{service: newService(), self: self(""), exported: nil}, []string{isValid, inNoSet, noConflicts}},
		{"not served yet", facts{service: newService(), self: self("set"), exported: nil}, []string{isValid, waiting, noConflicts}},
		{"only the export of another cluster is served", facts{service: newService(), self: self("set"), exported: exports{exported("east", "export", 1)}}, []string{isValid, waiting, noConflicts}},
		{"only its predecessor is served", facts{service: newService(), self: self("set"), exported: exports{exported("here", "former", 0)}}, []string{isValid, waiting, noConflicts}},
		{"R51, R121: another type", facts{service: newService(), self: self("set"), exported: exports{own, exported("east", "x", 0, headless)}}, []string{isValid, isReady,
			`Conflict=True/TypeConflict: Conflicting type. Using "Headless" from oldest service export in "east". 1/2 clusters disagree.`}},
		{"R51: others disagree, not this one", facts{service: newService(), self: self("set"), exported: exports{own, exported("west", "y", 2, headless), exported("east", "x", 3, headless)}}, []string{isValid, isReady,
			`Conflict=True/TypeConflict: Conflicting type. Using "ClusterSetIP" from oldest service export in "here". 2/3 clusters disagree.`}},
		{"R51: two conflicts", facts{service: newService(), self: self("set"), exported: exports{own, exported("east", "x", 2, headless, otherPort)}}, []string{isValid, isReady,
			`Conflict=True/TypeConflict,PortConflict: Conflicting type. Using "ClusterSetIP" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting ports. Using "http:80/TCP", preferring those of the oldest service export in "here". 1/2 clusters disagree.`}},
		{"R51: everything else", facts{service: newService(), self: self("set"), exported: exports{own, exported("east", "x", 2, everythingElse)}}, []string{isValid, isReady,
			`Conflict=True/SessionAffinityConflict,SessionAffinityConfigConflict,InternalTrafficPolicyConflict,TrafficDistributionConflict,LabelsConflict,AnnotationsConflict: ` +
				`Conflicting session affinity. Using "None" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting session affinity config. Using "" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting internal traffic policy. Using "" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting traffic distribution. Using "" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting labels. Using "" from oldest service export in "here". 1/2 clusters disagree. ` +
				`Conflicting annotations. Using "" from oldest service export in "here". 1/2 clusters disagree.`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, condition := range conditions(newExport(), test.known) {
				got = append(got, condition.Type+"="+string(condition.Status)+"/"+condition.Reason+": "+condition.Message)
				if condition.ObservedGeneration != 3 {
					t.Errorf("%s was observed at generation %d", condition.Type, condition.ObservedGeneration)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}

func TestLongTextIsTruncatedBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"short", 5, "short"}, {"longer", 5, "longe"}, {"grün", 3, "gr"}, {"grün", 4, "grü"},
	} {
		if got := truncate.Bytes(test.text, test.most); got != test.want || !utf8.ValidString(got) {
			t.Errorf("%q truncated to %d is %q, want %q", test.text, test.most, got, test.want)
		}
	}
	long := strings.Repeat("ü", maxMessage)
	if got := truncate.Bytes("x"+long, maxMessage); len(got) != maxMessage-1 {
		t.Errorf("got %d bytes, want %d", len(got), maxMessage-1)
	}
}

// R20: transition times change with the status only, and unchanged conditions are not
// written.
func TestTransitionTimesChangeWithTheStatusOnly(t *testing.T) {
	long := metav1.NewTime(epoch)
	held := func() []metav1.Condition {
		return []metav1.Condition{
			{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", Message: "m", ObservedGeneration: 3, LastTransitionTime: long},
			{Type: "Others", Status: metav1.ConditionTrue, Reason: "Theirs", LastTransitionTime: long},
		}
	}
	for _, test := range []struct {
		name           string
		wanted         metav1.Condition
		changed, moved bool
	}{
		{"the same", metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", Message: "m", ObservedGeneration: 3}, false, false},
		{"another message", metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", Message: "n", ObservedGeneration: 3}, true, false},
		{"another reason", metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Other", Message: "m", ObservedGeneration: 3}, true, false},
		{"another generation", metav1.Condition{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid", Message: "m", ObservedGeneration: 4}, true, false},
		{"another status", metav1.Condition{Type: "Valid", Status: metav1.ConditionFalse, Reason: "Valid", Message: "m", ObservedGeneration: 3}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			conditions := held()
			if changed := apply(&conditions, []metav1.Condition{test.wanted}); changed != test.changed {
				t.Errorf("got changed %t, want %t", changed, test.changed)
			}
			if moved := !conditions[0].LastTransitionTime.Equal(&long); moved != test.moved {
				t.Errorf("transition time changed: %t, want %t", moved, test.moved)
			}
			test.wanted.LastTransitionTime = conditions[0].LastTransitionTime
			if diff := cmp.Diff([]metav1.Condition{test.wanted, held()[1]}, conditions); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
	// One changed condition of several is enough.
	conditions := held()
	if !apply(&conditions, []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse}, held()[1]}) {
		t.Error("the change is not reported")
	}
}

// R22: Events are recorded when an export becomes valid or invalid, and when a conflict
// appears or is resolved, but not otherwise.
func TestEvents(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "message of " + reason}
	}
	valid, noService, badType := condition("Valid", "True", "Valid"), condition("Valid", "False", "NoService"), condition("Valid", "False", "InvalidServiceType")
	ready, pending, failed := condition("Ready", "True", "Ready"), condition("Ready", "False", "Pending"), condition("Ready", "False", "Failed")
	missing, unmatched, invalid := condition("Ready", "True", "ClustersMissing"), condition("Ready", "False", "NoMatchingCluster"), condition("Ready", "False", "InvalidClusterList")
	none, types, ports := condition("Conflict", "False", "NoConflicts"), condition("Conflict", "True", "TypeConflict"), condition("Conflict", "True", "TypeConflict,PortConflict")
	same := types
	same.Message = "2/5 clusters disagree"
	for _, test := range []struct {
		name          string
		before, after []metav1.Condition
		want          []event
	}{
		{"new and healthy", nil, []metav1.Condition{valid, ready, none}, []event{{"Normal", "Exported", "message of Ready"}}},
		{"new and waiting", nil, []metav1.Condition{valid, pending, none}, nil},
		{"new and invalid", nil, []metav1.Condition{noService, failed, none}, []event{{"Warning", "NoService", "message of NoService"}}},
		{"new and in conflict", nil, []metav1.Condition{valid, ready, types}, []event{{"Normal", "Exported", "message of Ready"}, {"Warning", "Conflict", "message of TypeConflict"}}},
		{"becomes ready", []metav1.Condition{valid, pending, none}, []metav1.Condition{valid, ready, none}, []event{{"Normal", "Exported", "message of Ready"}}},
		{"becomes invalid", []metav1.Condition{valid, ready, none}, []metav1.Condition{noService, failed, none}, []event{{"Warning", "NoService", "message of NoService"}}},
		{"invalid for another reason", []metav1.Condition{noService, failed, none}, []metav1.Condition{badType, failed, none}, []event{{"Warning", "InvalidServiceType", "message of InvalidServiceType"}}},
		{"becomes valid", []metav1.Condition{noService, failed, none}, []metav1.Condition{valid, ready, none}, []event{{"Normal", "Exported", "message of Ready"}}},
		{"conflict", []metav1.Condition{valid, ready, none}, []metav1.Condition{valid, ready, types}, []event{{"Warning", "Conflict", "message of TypeConflict"}}},
		{"one more conflict", []metav1.Condition{valid, ready, types}, []metav1.Condition{valid, ready, ports}, []event{{"Warning", "Conflict", "message of TypeConflict,PortConflict"}}},
		{"resolved", []metav1.Condition{valid, ready, ports}, []metav1.Condition{valid, ready, none}, []event{{"Normal", "ConflictResolved", "message of NoConflicts"}}},
		{"the same", []metav1.Condition{valid, ready, types}, []metav1.Condition{valid, ready, types}, nil},
		{"another message", []metav1.Condition{valid, ready, types}, []metav1.Condition{valid, ready, same}, nil},
		{"leaves the ClusterSet", []metav1.Condition{valid, ready, none}, []metav1.Condition{valid, pending, none}, nil},
		{"a listed cluster is missing", []metav1.Condition{valid, ready, none}, []metav1.Condition{valid, missing, none}, []event{{"Warning", "ClustersMissing", "message of ClustersMissing"}}},
		{"it is not missing any more", []metav1.Condition{valid, missing, none}, []metav1.Condition{valid, ready, none}, []event{{"Normal", "Exported", "message of Ready"}}},
		{"no cluster matches", []metav1.Condition{valid, missing, none}, []metav1.Condition{valid, unmatched, none}, []event{{"Warning", "NoMatchingCluster", "message of NoMatchingCluster"}}},
		{"list is invalid", []metav1.Condition{valid, unmatched, none}, []metav1.Condition{valid, invalid, none}, []event{{"Warning", "InvalidClusterList", "message of InvalidClusterList"}}},
		{"list stays invalid", []metav1.Condition{valid, invalid, none}, []metav1.Condition{valid, invalid, none}, nil},
		{"conditions of others", nil, []metav1.Condition{condition("Theirs", "False", "X")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, events(test.before, test.after), cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}
