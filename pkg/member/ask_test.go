// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// answering is a member that answers as the function does.
func answering(t *testing.T, answer http.HandlerFunc) *memberServer {
	t.Helper()
	s := &memberServer{Server: httptest.NewTLSServer(answer)}
	t.Cleanup(s.Close)
	return s
}

func saying(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// clientFor is for a cluster with these Secrets in the namespace of the installation.
func clientFor(secrets ...*corev1.Secret) *fake.Clientset {
	var objects []runtime.Object
	for _, secret := range secrets {
		secret.Namespace = "mcs-system"
		objects = append(objects, secret)
	}
	return fake.NewClientset(objects...)
}

// asked are the answers by the names of the Secrets.
func asked(ctx context.Context, t *testing.T, client *fake.Clientset) map[string]Answer {
	t.Helper()
	answers, err := Ask(ctx, client, "mcs-system")
	must(t, err)
	bySecret := map[string]Answer{}
	for _, answer := range answers {
		bySecret[answer.Secret] = answer
	}
	if len(bySecret) != len(answers) {
		t.Errorf("there are several answers for one Secret: %v", answers)
	}
	return bySecret
}

func TestMembersTellWhomTheyKnow(t *testing.T) {
	server := newMemberServer(t, "b")
	got := asked(t.Context(), t, clientFor(secretOf("b", server.kubeconfig("token-1"))))["member-b"]
	if got.Problem != "" || got.Name != "b" || len(got.Members) != 1 {
		t.Fatalf("got %+v", got)
	}
	if status := got.Members["b"].Status; status.ClusterID != "b" || status.ClusterUID != "uid-b" || status.ClusterSet != "set" || status.State != clusterset.MemberLocal {
		t.Errorf("got %+v", status)
	}

	entries := []clustersetv1alpha1.Member{own("h"), relayedEntry("x"), relayedEntry("y")}
	hub := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(clustersetv1alpha1.MemberList{Items: entries})
	})
	got = asked(t.Context(), t, clientFor(secretOf("h", hub.kubeconfig("token-1"))))["member-h"]
	if names := slices.Sorted(maps.Keys(got.Members)); !slices.Equal(names, []string{"h", "x", "y"}) {
		t.Errorf("it knows %v", names)
	}
}

// Who asks is not yet a member: it must not be taken for a reader that is missing
// among the members there.
func TestAskingIsNoIntroduction(t *testing.T) {
	server := newMemberServer(t, "b")
	asked(t.Context(), t, clientFor(secretOf("b", server.kubeconfig("token-1"))))
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.asked) != 1 {
		t.Fatalf("it was asked %v", server.asked)
	}
	for question := range server.asked {
		if strings.HasPrefix(question, reader) || !strings.HasSuffix(question, " members ") {
			t.Errorf("it was asked %q, want all members, without an introduction", question)
		}
		if id, ok := readerID(question); ok {
			t.Errorf("%q is taken for cluster %q", question, id)
		}
	}
}

// One that does not answer must not make all others wait.
func TestAllMembersAreAskedAtOnce(t *testing.T) {
	ids := []string{"b", "c", "d"}
	var waiting atomic.Int32
	all := make(chan struct{})
	var secrets []*corev1.Secret
	for _, id := range ids {
		server := newMemberServer(t, id)
		door := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if waiting.Add(1) == int32(len(ids)) {
				close(all)
			}
			select {
			case <-all:
				server.ServeHTTP(w, r)
			case <-r.Context().Done(): // it was not asked at once with the others
			}
		})
		secrets = append(secrets, secretOf(id, door.kubeconfig("token-1")))
	}
	got := asked(t.Context(), t, clientFor(secrets...))
	for _, id := range ids {
		if answer := got["member-"+id]; answer.Problem != "" || answer.Members[id] == nil {
			t.Errorf("%s: %+v", id, answer)
		}
	}
}

func TestMemberThatCannotBeAskedSaysWhy(t *testing.T) {
	good := newMemberServer(t, "b")
	closed := newMemberServer(t, "b")
	closed.Close()
	impostor := kubeconfig("server: "+good.URL, "token: token-1") // whose authority nobody has vouched for
	for _, test := range []struct {
		name   string
		secret *corev1.Secret
		member string
		want   string
	}{
		{"no kubeconfig", secretOf("c", ""), "c", "its Secret cannot be used: data[kubeconfig]: required"},
		{"a kubeconfig that runs a program", secretOf("c", kubeconfig(goodCluster, "exec: {apiVersion: v1, command: sh}")), "c", "exec is refused"},
		{"no id", secretOf("", good.kubeconfig("token-1")), "secret.member-", "its Secret cannot be used: data[cluster-id]"},
		{"half a certificate", secretOf("c", kubeconfig(goodCluster, "client-certificate-data: eA==")), "c", "its Secret cannot be used: "},
		{"not accepted", secretOf("c", good.kubeconfig("token-3")), "c", "does not accept the credential of the Secret"},
		{"no rights", secretOf("c", answering(t, saying(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)).kubeconfig("x")), "c",
			"bind it to the ClusterRole mcs-apiserver:peer"},
		{"not installed", secretOf("c", answering(t, http.NotFound).kubeconfig("x")), "c", "install mcs-apiserver there"},
		{"not available", secretOf("c", answering(t, saying(http.StatusServiceUnavailable, "")).kubeconfig("x")), "c", "its API is not available"},
		{"no JSON", secretOf("c", answering(t, saying(http.StatusOK, "Hello")).kubeconfig("x")), "c", "cannot be read"},
		{"another JSON", secretOf("c", answering(t, saying(http.StatusOK, `{"items":"none"}`)).kubeconfig("x")), "c", "cannot be read"},
		{"no UID", secretOf("c", answering(t, saying(http.StatusOK, `{"items":[{"metadata":{"name":"c"},"status":{"clusterUID":"../x"}}]}`)).kubeconfig("x")), "c", `what it answers cannot be read: its answer is not understood: clusterUID "../x"`},
		{"nothing", secretOf("c", answering(t, saying(http.StatusOK, `{}`)).kubeconfig("x")), "c", "it does not say who it is"},
		{"only of others", secretOf("c", answering(t, saying(http.StatusOK, `{"items":[{"metadata":{"name":"a"},"status":{"clusterID":"a","clusterUID":"x","state":"Connected"}}]}`)).kubeconfig("x")), "c",
			"it does not say who it is"},
		{"elsewhere", secretOf("c", answering(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, good.URL+r.URL.Path, http.StatusFound)
		}).kubeconfig("token-1")), "c",
			"wants to redirect to"},
		{"gone", secretOf("c", closed.kubeconfig("token-1")), "c", "no answer: "},
		{"somebody else", secretOf("c", impostor), "c", "no answer: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := test.secret
			got := asked(t.Context(), t, clientFor(secretOf("b", good.kubeconfig("token-1")), bad))
			answer := got[bad.Name]
			if answer.Name != test.member || !strings.Contains(answer.Problem, test.want) || answer.Members != nil {
				t.Errorf("got %+v, want %q in its problem", answer, test.want)
			}
			if other := got["member-b"]; other.Problem != "" || len(other.Members) != 1 {
				t.Errorf("the other member has a problem too: %+v", other)
			}
		})
	}
}

// What hangs is given up when the one who waits is.
func TestAskingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if got := asked(ctx, t, clientFor(secretOf("b", server.kubeconfig("token-1"))))["member-b"]; !strings.Contains(got.Problem, "no answer") {
		t.Errorf("got %+v", got)
	}
}

func TestOnlySecretsOfMembersAreRead(t *testing.T) {
	client := clientFor()
	asked(t.Context(), t, client)
	if len(client.Actions()) != 1 {
		t.Fatalf("%v", client.Actions())
	}
	action := client.Actions()[0].(clienttesting.ListAction)
	if got := action.GetListRestrictions().Fields.String(); action.GetNamespace() != "mcs-system" || got != "type=clusterset.mcs-apiserver.io/member" {
		t.Errorf("read are those in %q with %q", action.GetNamespace(), got)
	}

	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not allowed")
	})
	if answers, err := Ask(t.Context(), client, "mcs-system"); answers != nil || err == nil || !strings.Contains(err.Error(), "in namespace mcs-system: not allowed") {
		t.Errorf("got %v, %v", answers, err)
	}
}

// A Secret that was made a moment ago counts.
func TestNothingIsAskedFromACache(t *testing.T) {
	client, server := clientFor(), newMemberServer(t, "b")
	if got := asked(t.Context(), t, client); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	_, err := client.CoreV1().Secrets("mcs-system").Create(t.Context(), secretOf("b", server.kubeconfig("token-1")), metav1.CreateOptions{})
	must(t, err)
	if got := asked(t.Context(), t, client)["member-b"].Members["b"]; got == nil || got.Status.Exports != 0 {
		t.Errorf("got %+v", got)
	}
	server.export("web")
	if got := asked(t.Context(), t, client)["member-b"].Members["b"]; got == nil || got.Status.Exports != 1 {
		t.Errorf("got %+v", got)
	}
}
