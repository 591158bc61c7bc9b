// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// unreachable returns the Secret of a member that cannot be read.
func unreachable() *corev1.Secret {
	return membertest.Secret("b", membertest.ValidKubeconfig(), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" })
}

// R160, R163: an import that was withdrawn while no server ran is retained until all
// members have been read, so that its derived Service is not deleted before its end is
// recorded.
func TestWithdrawnImportIsRetainedUntilItsEndIsRecorded(t *testing.T) {
	before := newCluster(t)
	names := []string{"web", "api", "db"}
	for _, name := range names {
		before.add(service(name), exportFor(name))
	}
	ran(before)
	c := newReplica(t, before.records)
	c.add(unreachable())
	uids := map[string]types.UID{}
	for _, name := range names {
		uids[name] = before.imported(name).UID
		c.add(service(name), derivedService(before.imported(name)))
	}
	defer run(c)()
	for _, name := range names {
		if got := c.imported(name); got == nil || got.UID != uids[name] || len(got.Status.Clusters) != 0 || c.records.Version() != 0 {
			t.Fatalf("%d records were written; the import is %+v, want UID %s", c.records.Version(), got, uids[name])
		}
	}
	// One that is exported again is still the same, and ends as any other.
	exports := c.multicluster.MulticlusterXV1beta1().ServiceExports("ns")
	export := func(name string) *multicluster.ServiceImport {
		_, err := exports.Create(t.Context(), exportFor(name), metav1.CreateOptions{})
		must(t, err)
		eventually(t, "it is exported again", func() bool { return c.imported(name) != nil && len(c.imported(name).Status.Clusters) == 1 })
		return c.imported(name)
	}
	if got := export("web"); got.UID != uids["web"] {
		t.Errorf("an import that was never deleted has UID %s, had %s", got.UID, uids["web"])
	}
	must(t, exports.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, "it is deleted", func() bool { return c.imported("web") == nil })
	if c.records.Version() != 1 || c.imported("api") == nil || c.imported("db") == nil {
		t.Errorf("%d records were written, want one", c.records.Version())
	}
	// The others end when the last member that has not been read is removed.
	must(t, c.kubernetes.CoreV1().Secrets("mcs-system").Delete(t.Context(), unreachable().Name, metav1.DeleteOptions{}))
	eventually(t, "they are deleted", func() bool { return c.imported("api") == nil && c.imported("db") == nil })
	for _, name := range names {
		if got := export(name); got.UID == uids[name] {
			t.Errorf("%s has the UID of its former life", name)
		}
	}
}

// R163: a member that cannot be read does not retain imports forever.
func TestRetentionIsLimited(t *testing.T) {
	c := newCluster(t)
	c.add(unreachable(), service("web"), derivedService(named("web")))
	defer run(c)()
	if c.imported("web") == nil {
		t.Fatal("the import is not retained")
	}
	must(t, c.process(t.Context(), key{kind: retentionKey}))
	eventually(t, "it is deleted", func() bool { return c.imported("web") == nil })
	if got := c.records.Version(); got != 1 {
		t.Errorf("%d records were written, want one", got)
	}
}

// seenAt returns the Lease of the member that cannot be read here, which another replica
// saw at a time, and may have lost since.
func seenAt(at time.Time, lost bool) *coordinationv1.Lease {
	lease := sighting.Record(nil, sighting.Sighting{Member: "b", UID: "uid-b", At: at, Lost: lost}, 60)
	lease.Namespace = "mcs-system"
	return lease
}

// R160: a replica that restarted and does not reach a member does not end the life of an
// import that another one, which does, shows as exported all the time.
func TestEndOfRetentionDoesNotEndALifeThatAnotherReplicaShows(t *testing.T) {
	reaching := newCluster(t)
	reaching.add(service("web"), exportFor("web")) // which stands for the export of the member
	defer run(reaching)()
	uid := reaching.imported("web").UID

	c := newReplica(t, reaching.records)
	c.add(unreachable(), service("web"), derivedService(reaching.imported("web")))
	defer run(c)()
	leases := c.kubernetes.CoordinationV1().Leases("mcs-system")
	_, err := leases.Create(t.Context(), seenAt(time.Now(), false), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "it hears that another replica reads the member", c.members.ReadElsewhere)
	if c.release(true) {
		t.Error("the retention ends although another replica reads the member")
	}
	must(t, c.process(t.Context(), key{kind: retentionKey}))
	must(t, c.process(t.Context(), key{kind: serviceKey, name: web}))
	if got := c.imported("web"); got == nil || got.UID != uid || c.records.Version() != 0 || reaching.imported("web").UID != uid {
		t.Errorf("%d records were written; the import is %+v, want UID %s", c.records.Version(), got, uid)
	}

	_, err = leases.Update(t.Context(), seenAt(time.Now(), true), metav1.UpdateOptions{})
	must(t, err)
	eventually(t, "it ends when no replica reads the member", func() bool { return c.release(true) })
	eventually(t, "it is deleted", func() bool { return c.imported("web") == nil })
}

// A derived Service that remained although the end of its import is recorded retains
// nothing.
func TestRecordedEndIsNotRetained(t *testing.T) {
	c := newCluster(t)
	_, _, err := c.records.Update(t.Context(), "uid-ns.1", func([]byte) ([]byte, error) { return []byte(`{"namespace":"ns","lives":{"web":[1,0]}}`), nil })
	must(t, err)
	c.add(unreachable(), service("web"), derivedService(named("web")))
	defer run(c)()
	if got := c.imported("web"); got != nil {
		t.Errorf("the import is %+v", got)
	}
}

func named(name string) *multicluster.ServiceImport {
	return &multicluster.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// A retained import has what its derived Service was made from, so that mcs-controller
// does not change it.
func TestRetainedImportCorrespondsToItsDerivedService(t *testing.T) {
	derived := derivedService(named("web"))
	derived.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	derived.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](7)}}
	derived.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	derived.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
	derived.Spec.Ports = []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, AppProtocol: ptr.To("example.com/dns")}}
	derived.Annotations = map[string]string{
		multicluster.ClusterPreferenceAnnotation: "cluster,property:region", multicluster.PreferenceMinReadyAnnotation: "2",
		multicluster.ActiveTierAnnotation: "all", multicluster.ActiveTierReasonAnnotation: "too few", multicluster.PendingTypeAnnotation: "",
	}
	identity := importidentity.Scope{NamespaceUID: "uid-ns"}.Identity("web", importidentity.Life{Number: 2})
	got := newRetainedImport(web, identity, derived, localState{derived: derived})
	want := multicluster.ServiceImportSpec{
		Type: multicluster.ClusterSetIP, IPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{ipv4},
		Ports:           []multicluster.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, AppProtocol: ptr.To("example.com/dns")}},
		SessionAffinity: derived.Spec.SessionAffinity, SessionAffinityConfig: derived.Spec.SessionAffinityConfig,
		InternalTrafficPolicy: derived.Spec.InternalTrafficPolicy, TrafficDistribution: derived.Spec.TrafficDistribution,
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" || got.UID != identity.UID || got.Annotations[multicluster.ImportLifeAnnotation] != identity.Mark() {
		t.Errorf("got UID %s, annotations %v, spec (-want +got):\n%s", got.UID, got.Annotations, diff)
	}
	for _, name := range []string{
		multicluster.ClusterPreferenceAnnotation, multicluster.PreferenceMinReadyAnnotation, multicluster.ActiveTierAnnotation, multicluster.ActiveTierReasonAnnotation,
	} { // R613
		if got.Annotations[name] != derived.Annotations[name] {
			t.Errorf("annotation %s is %q, want %q", name, got.Annotations[name], derived.Annotations[name])
		}
	}
	if condition := got.Status.Conditions[0]; condition.Status != metav1.ConditionUnknown || condition.Reason != multicluster.ServiceImportReasonExportsUnknown || !strings.Contains(condition.Message, "no cluster is known to export") {
		t.Errorf("condition is %+v", condition)
	}

	derived.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "243.0.0.7"}}
	got = newRetainedImport(web, identity, derived, localState{derived: derived})
	if got.Annotations[multicluster.ClusterSetIPAnnotation] != "243.0.0.7" || len(got.Spec.IPs) != 1 || got.Spec.IPs[0] != "243.0.0.7" {
		t.Errorf("with a shared ClusterSet IP, IPs are %v and annotations %v", got.Spec.IPs, got.Annotations)
	}
	derived.Spec.ClusterIP, derived.Status = corev1.ClusterIPNone, corev1.ServiceStatus{}
	if got = newRetainedImport(web, identity, derived, localState{}); got.Spec.Type != multicluster.Headless || len(got.Spec.IPs) > 0 {
		t.Errorf("a headless import is %+v", got.Spec)
	}
}
