// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memberrefusals

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

func member(uid types.UID, status metav1.ConditionStatus, reason, message string) *clustersetv1alpha1.Member {
	return &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "b", UID: uid},
		Status:     clustersetv1alpha1.MemberStatus{Conditions: []metav1.Condition{{Type: clusterset.MemberSynced, Status: status, Reason: reason, Message: message}}},
	}
}

// withAges adds the condition about the ages of exports.
func withAges(entry *clustersetv1alpha1.Member, reason, message string) *clustersetv1alpha1.Member {
	entry.Status.Conditions = append(entry.Status.Conditions, metav1.Condition{Type: clusterset.MemberExportAges, Status: metav1.ConditionFalse, Reason: reason, Message: message})
	return entry
}

// claiming returns a member with another condition.
func claiming(status metav1.ConditionStatus, reason, message string) *clustersetv1alpha1.Member {
	entry := member("secret", metav1.ConditionTrue, "Synced", "all known")
	entry.Status.Conditions = append(entry.Status.Conditions, metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: status, Reason: reason, Message: message})
	return entry
}

// R209, R282, R288: an Event on the Secret of a member says what is refused, at most every
// ten minutes, and only if it changed; so do others say which exports are backdated, and
// which allocation CIDRs are refused.
func TestRefusalsAreReportedInEvents(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	recorder := events.NewFakeRecorder(10)
	host, own := informers.NewSharedInformerFactory(fake.NewClientset(), 0), mcsinformers.NewSharedInformerFactory(mcsfake.NewSimpleClientset(), 0)
	secrets := host.Core().V1().Secrets()
	c := New(clock, recorder, own, secrets)
	if err := secrets.Informer().GetIndexer().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-b", UID: "secret"}}); err != nil {
		t.Fatal(err)
	}
	members := own.ClusterSet().V1alpha1().Members().Informer().GetIndexer()
	defer c.queue.ShutDown()
	const invalid, backdated, no, yes = clusterset.ReasonInvalidObjects, clusterset.ReasonBackdated, metav1.ConditionFalse, metav1.ConditionTrue
	for _, step := range []struct {
		name   string
		passes time.Duration
		entry  *clustersetv1alpha1.Member
		want   string
	}{
		{"nothing refused", 0, member("secret", yes, "Synced", "all known"), ""},
		{"refused", 0, member("secret", no, invalid, "1 object"), "Warning ExportsRefused Member b: 1 object"},
		{"the same", time.Hour, member("secret", no, invalid, "1 object"), ""},
		{"another", 0, member("secret", no, invalid, "2 objects"), "Warning ExportsRefused Member b: 2 objects"},
		{"another too soon", interval - 1, member("secret", no, invalid, "3 objects"), ""},
		{"when it is time", 1, member("secret", no, invalid, "3 objects"), "Warning ExportsRefused Member b: 3 objects"},
		{"a limit", interval, member("secret", no, clusterset.ReasonTooManyExports, "too many"), "Warning ExportsRefused Member b: too many"},
		{"a large response", interval, member("secret", no, clusterset.ReasonResponseTooLarge, "too large"), "Warning ExportsRefused Member b: too large"},
		{"not a refusal", interval, member("secret", no, "Unavailable", "down"), ""},
		{"allocation CIDRs of another cluster", interval, claiming(no, clusterset.ReasonNotAssigned, "not assigned"), "Warning AllocationCIDRsRefused Member b: not assigned"},
		{"allocation CIDRs that overlap", interval, claiming(no, "Overlaps", "another joined earlier"), ""},
		{"a relayed cluster", interval, member("", no, invalid, "4 objects"), ""},
		{"a long message, not in ASCII", interval, member("secret", no, invalid, strings.Repeat("ä", truncate.MaxEventNote)), "Warning ExportsRefused Member b: äää"},
		{"a backdated export", 0, withAges(member("secret", yes, "Synced", ""), backdated, "1 export"), "Warning ExportsBackdated Member b: 1 export"},
		{"another too soon", interval - 1, withAges(member("secret", yes, "Synced", ""), backdated, "2 exports"), ""},
		{"when it is time", 1, withAges(member("secret", yes, "Synced", ""), backdated, "2 exports"), "Warning ExportsBackdated Member b: 2 exports"},
		{"ages that are unknown", interval, withAges(member("secret", yes, "Synced", ""), clusterset.ReasonNoJoinTime, "unknown"), ""},
	} {
		clock.SetTime(clock.Now().Add(step.passes))
		if err := members.Update(step.entry); err != nil {
			t.Fatal(err)
		}
		if err := c.sync(t.Context(), types.NamespacedName{Name: "b"}); err != nil {
			t.Fatal(err)
		}
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if !strings.HasPrefix(got, step.want) || got != "" && step.want == "" || len(got) > len("Warning ExportsRefused ")+truncate.MaxEventNote || !utf8.ValidString(got) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
	if err := members.Delete(member("secret", no, invalid, "")); err != nil {
		t.Fatal(err)
	}
	if err := c.sync(t.Context(), types.NamespacedName{Name: "b"}); err != nil || len(c.reported) > 0 {
		t.Errorf("a former member is remembered: %v, %v", err, fmt.Sprint(c.reported))
	}
}
