// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// nobody is an address that no endpoint has. If it answers, connections say nothing.
const nobody = "192.0.2.1"

// withPort returns an option that gives a Service another port.
func withPort(port int32, protocol corev1.Protocol) func(*corev1.Service) {
	return func(service *corev1.Service) {
		service.Spec.Ports[0].Port, service.Spec.Ports[0].Protocol = port, protocol
	}
}

// countDatagrams returns how many datagrams have arrived at an address.
func countDatagrams(t *testing.T, address string) *atomic.Int32 {
	t.Helper()
	socket := expect.Must((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address))(t)
	t.Cleanup(func() { _ = socket.Close() })
	var arrived atomic.Int32
	go func() {
		for {
			if _, _, err := socket.ReadFrom(make([]byte, 1500)); err != nil {
				return
			}
			arrived.Add(1)
		}
	}()
	return &arrived
}

// recordOwnEndpoints sets what is known in west of its own endpoints, as after some minutes
// of asking them. mcs-controller does not remember anything else.
func recordOwnEndpoints(ctx context.Context, t *testing.T, known string) {
	t.Helper()
	expect.NoError(t, west().StopController())
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, clusterset.OwnEndpointsAnnotation, known)
	expect.Must(west().Kubernetes.CoordinationV1().Leases(installation.Namespace).Patch(ctx, "member-east", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	expect.NoError(t, west().StartController(ctx))
}

var noneAnswersSomeUnaskable = regexp.MustCompile(`endpoints of 0 services answer.* ([2-9]|\d\d+) have no TCP endpoint that can be asked`)

// R372: where connections say nothing, the TTL and the lost policy of the member alone decide:
// for services without TCP, at ports where everything answers, and where nothing answers, not
// even endpoints of this cluster. Until that is known, nothing is withdrawn. Nothing claims
// that endpoints were asked that cannot be.
func TestTTLDecidesWhereConnectionsSayNothing(t *testing.T) {
	ns := fleet.CreateNamespace(t, "mute", east(), west())
	ip := func(ctx context.Context, verb string) {
		if output, err := exec.CommandContext(ctx, "ip", "address", verb, nobody+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	ip(t.Context(), "add")
	t.Cleanup(func() { ip(context.Background(), "delete") })
	listenAt(t, nobody+":81")
	listenAt(t, answering+":81")
	datagrams := countDatagrams(t, answering+":53")
	west().ExportService(t, ns, "of-west", []string{ofWest}) // nothing answers there
	east().ExportService(t, ns, "udp", []string{answering}, withPort(53, corev1.ProtocolUDP))
	east().ExportService(t, ns, "meshed", []string{answering}, withPort(81, corev1.ProtocolTCP))
	east().ExportService(t, ns, "refused", []string{notInUse})
	udp, refused := from{"east": {answering}}, from{"east": {notInUse}}
	awaitEndpoints(t, west(), ns, "of-west", from{"west": {ofWest}})
	awaitEndpoints(t, west(), ns, "udp", udp)
	awaitEndpoints(t, west(), ns, "meshed", udp)
	awaitEndpoints(t, west(), ns, "refused", refused)
	allowAsking(t)
	setPolicy(t.Context(), t, `"KeepLast"`)
	recordOwnEndpoints(t.Context(), t, "null")
	link, restore := linkToEast(t)
	link.Cut()
	awaitFound(t, clustersetv1alpha1.MemberStale, clusterset.ReasonNoVantagePoint)
	inWest := count(t, west(), ns)
	stays(t, 3*time.Second, func(context.Context) error { return nil }, inWest)
	setPolicy(t.Context(), t, `"Withdraw"`)
	awaitEndpoints(t, west(), ns, "udp", from{})
	awaitEndpoints(t, west(), ns, "meshed", from{})
	awaitEndpoints(t, west(), ns, "refused", refused) // it is not known whether this cluster can tell
	recordOwnEndpoints(t.Context(), t, `"NeverAnswered"`)
	awaitEndpoints(t, west(), ns, "refused", from{})
	west().AwaitMember(t, "east", func(member *clustersetv1alpha1.Member) error {
		condition := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberEndpointsReachable)
		// Services of other tests may be known although their namespaces are being deleted, so
		// that there are at least two.
		if member.Status.State != clustersetv1alpha1.MemberLost || condition == nil || !noneAnswersSomeUnaskable.MatchString(condition.Message) {
			return fmt.Errorf("state %s, %+v", member.Status.State, condition)
		}
		return nil
	})
	for _, name := range []string{"udp", "meshed"} {
		west().AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
			condition := meta.FindStatusCondition(found.Status.Conditions, "MembersReachable")
			if condition == nil || condition.Reason != "MembersLost" || strings.Contains(condition.Message, "answer") {
				return fmt.Errorf("condition is %+v", condition)
			}
			return nil
		})
	}
	if got := datagrams.Load(); got != 0 {
		t.Errorf("%d datagrams were sent to endpoints without TCP", got)
	}
	restore()
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	awaitEndpoints(t, west(), ns, "udp", udp)
	awaitEndpoints(t, west(), ns, "refused", refused)
}

// withAuthority returns a kubeconfig with another certificate authority.
func withAuthority(t *testing.T, kubeconfig, authority []byte) []byte {
	t.Helper()
	config := expect.Must(clientcmd.Load(kubeconfig))(t)
	config.Clusters[config.Contexts[config.CurrentContext].Cluster].CertificateAuthorityData = authority
	return expect.Must(clientcmd.Write(*config))(t)
}

// R373: a member whose Kubernetes API has an expired certificate is silent, not refused, and so
// is one whose Secret has a kubeconfig, a token or a certificate authority that is wrong: its
// endpoints are kept while they answer. It is connected within 2 seconds after that was
// corrected.
func TestMemberThatCannotBeAuthenticatedIsSilent(t *testing.T) {
	ns := fleet.CreateNamespace(t, "distrusted", east(), west())
	listen(t, answering)
	askable(t, ns)
	east().ExportService(t, ns, "web", []string{answering})
	awaitEndpoints(t, west(), ns, "web", from{"east": {answering}})
	secrets := west().Kubernetes.CoreV1().Secrets(installation.Namespace)
	good := expect.Must(secrets.Get(t.Context(), clusterset.MemberSecretName("east"), metav1.GetOptions{}))(t).Data[clusterset.MemberSecretKubeconfig]
	setKubeconfig := func(ctx context.Context, kubeconfig []byte) {
		secret := expect.Must(secrets.Get(ctx, clusterset.MemberSecretName("east"), metav1.GetOptions{}))(t)
		secret.Data[clusterset.MemberSecretKubeconfig] = kubeconfig
		expect.Must(secrets.Update(ctx, secret, metav1.UpdateOptions{}))(t)
	}
	link := west().Links["east"]
	reconnect := func() { // so that what changed has an effect on connections that exist
		link.Cut()
		expect.Must(0, link.Restore())(t)
	}
	t.Cleanup(func() {
		expect.Must(0, east().Plane.IssueServing(false))(t)
		setKubeconfig(context.Background(), good)
	})
	awaitQuiet(t, ns)
	inWest := count(t, west(), ns)
	silentBecause := func(reason string) {
		t.Helper()
		west().AwaitMember(t, "east", func(member *clustersetv1alpha1.Member) error {
			reachable := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberReachable)
			if reachable == nil || reachable.Status != metav1.ConditionFalse || reachable.Reason != reason || !meta.IsStatusConditionTrue(member.Status.Conditions, clusterset.MemberAccepted) {
				return fmt.Errorf("state %s, %+v", member.Status.State, member.Status.Conditions)
			}
			return nil
		})
	}
	expect.NoError(t, east().Plane.IssueServing(true))
	expect.Eventually(t, "expired certificate", func(context.Context) error {
		reconnect()
		member := expect.Must(west().Clientset.ClusterSetV1alpha1().Members().Get(t.Context(), "east", metav1.GetOptions{}))(t)
		if reachable := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberReachable); reachable == nil || !strings.Contains(reachable.Message, "expired") {
			return fmt.Errorf("%+v", reachable)
		}
		return nil
	})
	awaitEast(t, clustersetv1alpha1.MemberStale)
	setKubeconfig(t.Context(), []byte("broken"))
	silentBecause("InvalidSecret")
	expect.NoError(t, east().Plane.IssueServing(false))
	setKubeconfig(t.Context(), withAuthority(t, good, west().Plane.CertificateAuthority()))
	silentBecause("Unreachable")
	setKubeconfig(t.Context(), expect.Must(west().KubeconfigFor(east(), "revoked"))(t))
	silentBecause("Unauthorized")
	awaitFound(t, clustersetv1alpha1.MemberStale, clusterset.ReasonEndpointsAnswer)
	corrected := time.Now()
	setKubeconfig(t.Context(), good)
	expect.Within(t, 10*time.Second, "connection with the correct Secret", func(ctx context.Context) error {
		member, err := west().Clientset.ClusterSetV1alpha1().Members().Get(ctx, "east", metav1.GetOptions{})
		if err == nil && member.Status.State != clustersetv1alpha1.MemberConnected {
			err = fmt.Errorf("state is %s", member.Status.State)
		}
		return err
	})
	t.Logf("connected %s after the Secret was corrected", time.Since(corrected).Round(time.Millisecond)) // 2 s at most if nothing else runs
	inWest.expect(t)
}
