// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// running is a registry as a server runs it.
type running struct {
	*world
	secrets *fake.Clientset
	stop    func()
}

func start(t *testing.T, memory *Memory, secrets ...*corev1.Secret) *running {
	t.Helper()
	r := &running{world: &world{}, secrets: fake.NewClientset()}
	for _, secret := range secrets {
		_, err := r.secrets.CoreV1().Secrets("mcs-system").Create(t.Context(), secret, metav1.CreateOptions{})
		must(t, err)
	}
	informer := coreinformers.NewSecretInformer(r.secrets, "mcs-system", 0, cache.Indexers{})
	r.Registry = New(Config{
		Secrets: informer, Memory: memory, Clock: clock.RealClock{}, TTL: DefaultTTL,
		ServiceChanged: func(types.NamespacedName) {}, MemberChanged: func(string) {},
	})
	r.SetIdentity(me)
	ctx, cancel := context.WithCancel(t.Context())
	informed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(informed)
		informer.RunWithContext(ctx)
	}()
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-informed
		<-ended
	}
	t.Cleanup(r.stop)
	<-r.Ready()
	return r
}

func (r *running) update(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	_, err := r.secrets.CoreV1().Secrets("mcs-system").Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
}

func TestMemberIsReadWhileThereIsASecretForIt(t *testing.T) {
	memory := newMemory(t)
	server := newMemberServer(t, "b")
	server.export("web")
	r := start(t, memory, secretOf("b", server.kubeconfig("token-1")))
	eventually(t, "what was exported before is known", func() bool { return r.exports("web") == "b" && r.Settled() })
	server.export("api")
	eventually(t, "what is exported now is known", func() bool { return r.exports("api") == "b" })
	if got := r.Entry("b").Status; got.State != clusterset.MemberConnected || got.ClusterUID != "uid-b" || got.Exports != 2 || !got.Synced {
		t.Errorf("it is shown as %+v", got)
	}
	expectCondition(t, r.Entry("b"), clusterset.MemberAccepted, metav1.ConditionTrue, reasonAccepted, "")
	// R9: a member is asked for its own exports only, and told who asks.
	for _, question := range []string{
		"exportedservices multicluster.kubernetes.io/source-cluster=b", "exportedendpointslices multicluster.kubernetes.io/source-cluster=b",
		"members metadata.name=b", "clusterclaims ",
	} {
		if !server.hasBeenAsked("mcs-apiserver cluster/a " + question) {
			t.Errorf("nobody asked for %q: %v", question, server.asked)
		}
	}
	eventually(t, "it is remembered", func() bool { return names(loaded(t, memory)["b"]) == "api.b,web.b" })

	must(t, r.secrets.CoreV1().Secrets("mcs-system").Delete(t.Context(), "member-b", metav1.DeleteOptions{}))
	eventually(t, "it is a member no more", func() bool { return r.exports("web") == "" && r.Entry("b") == nil })
	r.stop()
	if got := loaded(t, memory); len(got) != 0 {
		t.Errorf("it is still remembered: %v", got)
	}
}

func TestHubIsAskedForEverything(t *testing.T) {
	server := newMemberServer(t, "h")
	r := start(t, newMemory(t), secretOf("h", server.kubeconfig("token-1"), with(clusterset.MemberSecretRelayFor, "x")))
	eventually(t, "it is read", func() bool { return r.Settled() })
	for _, question := range []string{"exportedservices ", "exportedendpointslices ", "members "} {
		if !server.hasBeenAsked("mcs-apiserver cluster/a " + question) {
			t.Errorf("nobody asked for %q: %v", question, server.asked)
		}
	}
}

// Another token takes over where the old one was; another certificate is
// another connection. Neither changes what is known.
func TestCredentialIsReplacedWithoutLosingAnything(t *testing.T) {
	server := newMemberServer(t, "b")
	server.export("web")
	r := start(t, newMemory(t), secretOf("b", server.kubeconfig("token-1")))
	eventually(t, "it is read", func() bool { return r.exports("web") == "b" && r.Settled() })
	before := r.feedOfB()
	r.update(t, secretOf("b", server.kubeconfig("token-1"), func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} }))

	server.refuse("token-1")
	eventually(t, "the old credential is refused", func() bool {
		entry := r.Entry("b")
		for _, condition := range entry.Status.Conditions {
			if condition.Type == clusterset.MemberSynced && condition.Reason == "Unauthorized" {
				return true
			}
		}
		return false
	})
	if r.exports("web") != "b" {
		t.Fatal("what was known is gone with the credential")
	}
	if r.feedOfB() != before {
		t.Error("a label on the Secret made another connection")
	}
	r.update(t, secretOf("b", server.kubeconfig("token-2")))
	server.export("api")
	eventually(t, "it is read with the new credential", func() bool { return r.exports("api") == "b" && r.exports("web") == "b" && r.Settled() })
	if r.feedOfB() != before {
		t.Error("another token made another connection: all would be read again whenever one is renewed")
	}
	r.update(t, secretOf("b", server.kubeconfig("token-2"), with(clusterset.MemberSecretAllowedCIDRs, "10.0.0.0/8")))
	eventually(t, "another connection", func() bool { return r.feedOfB() != before && r.Settled() })
	if r.exports("web") != "b" {
		t.Error("what was known is gone with the connection")
	}
}

func (r *running) feedOfB() *feed {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers["member-b"].feed
}

// The server was not running while a Secret was deleted.
func TestMemoryOfAStrangerIsDropped(t *testing.T) {
	memory := newMemory(t)
	w, _ := exporting(t, memory)
	w.memory.flush(t.Context())
	r := start(t, memory)
	if r.exports("web") != "" || len(r.Services()) != 0 {
		t.Error("a cluster that is no member is believed")
	}
	r.stop()
	if got := loaded(t, memory); len(got) != 0 {
		t.Errorf("it is still remembered: %v", got)
	}
}

// The server restarts during a partition.
func TestRestartDuringAPartitionChangesNothing(t *testing.T) {
	memory := newMemory(t)
	w, _ := exporting(t, memory)
	w.memory.flush(t.Context())
	server := newMemberServer(t, "b")
	server.Close()
	r := start(t, memory, secretOf("b", server.kubeconfig("token-1")))
	if r.exports("web") != "b" {
		t.Error("what was known is gone, as soon as the registry is ready")
	}
	eventually(t, "the member cannot be reached", func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.peers["member-b"].probeError != nil
	})
	if r.exports("web") != "b" {
		t.Error("what was known is gone")
	}
}

func TestSecretOfAnotherTypeIsNoMember(t *testing.T) {
	w := newWorld(t, nil)
	w.setSecret(t.Context(), secretOf("b", goodKubeconfig, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }))
	if got := w.Names(); len(got) != 1 {
		t.Errorf("there are entries %v", got)
	}
}

func TestSecretThatChangesItsIDIsAnotherMember(t *testing.T) {
	memory := newMemory(t)
	w := newWorld(t, memory)
	secret := secretOf("b", goodKubeconfig)
	w.setSecret(t.Context(), secret)
	b := w.connect(w.peers[secret.Name])
	w.claimed(b, &claims{id: "b", clusterSet: "set", idClaimedAt: epoch})
	w.answers(b, own("b"))
	must(t, w.told(b, exportedService("b", "web")))
	w.memory.flush(t.Context())
	w.setSecret(t.Context(), secretOf("c", goodKubeconfig, func(s *corev1.Secret) { s.Name = secret.Name }))
	w.memory.flush(t.Context())
	if w.exports("web") != "" || w.Entry("b") != nil || w.Entry("c") == nil || len(loaded(t, memory)) != 0 {
		t.Error("something is left of the member that the Secret led to before")
	}
}

// A Secret with the name of a deleted one says nothing of the old cluster.
func TestSecretMadeAnewInheritsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.setSecret(t.Context(), secretOf("b", goodKubeconfig))
	b := w.connect(w.peers["member-b"])
	w.claimed(b, &claims{id: "b", clusterSet: "set", idClaimedAt: epoch})
	w.answers(b, own("b"))
	must(t, w.told(b, exportedService("b", "web")))
	w.removeSecret(t.Context(), cache.DeletedFinalStateUnknown{Obj: secretOf("b", goodKubeconfig)})
	if w.exports("web") != "" || w.Entry("b") != nil {
		t.Error("a deleted Secret still makes a member")
	}
	must(t, w.told(b, exportedService("b", "late")))
	w.setSecret(t.Context(), secretOf("b", goodKubeconfig, func(s *corev1.Secret) { s.UID = "another" }))
	if w.exports("web") != "" || w.exports("late") != "" {
		t.Error("a new Secret brings back what the old one had")
	}
}
