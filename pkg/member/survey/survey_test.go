// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// respond returns a handler that always responds with code and body.
func respond(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// clientFor returns a client of a cluster with these Secrets in the namespace of the installation.
func clientFor(secrets ...*corev1.Secret) *fake.Clientset {
	var objects []runtime.Object
	for _, source := range secrets {
		source.Namespace = "mcs-system"
		objects = append(objects, source)
	}
	return fake.NewClientset(objects...)
}

// survey returns the answers by the names of the Secrets.
func survey(ctx context.Context, t *testing.T, client *fake.Clientset) map[string]Answer {
	t.Helper()
	answers, err := Members(ctx, client, "mcs-system")
	membertest.Must(t, err)
	bySecret := map[string]Answer{}
	for _, answer := range answers {
		bySecret[answer.Secret] = answer
	}
	if len(bySecret) != len(answers) {
		t.Errorf("there are several answers for one Secret: %v", answers)
	}
	return bySecret
}

func TestMembersReturnsTheListsOfAllMembers(t *testing.T) {
	server := membertest.NewServer(t, "b")
	got := survey(t.Context(), t, clientFor(membertest.Secret("b", server.Kubeconfig("token-1"))))["member-b"]
	if got.Problem != "" || got.Name != "b" || len(got.Members) != 1 {
		t.Fatalf("got %+v", got)
	}
	if status := got.Members["b"].Status; status.ClusterID != "b" || status.ClusterUID != "uid-b" || status.ClusterSet != "set" || status.State != clusterset.MemberLocal {
		t.Errorf("got %+v", status)
	}

	entries := []clustersetv1alpha1.Member{membertest.Entry("h"), membertest.RelayedEntry("x"), membertest.RelayedEntry("y")}
	hub := membertest.NewHandlerServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(clustersetv1alpha1.MemberList{Items: entries})
	})
	got = survey(t.Context(), t, clientFor(membertest.Secret("h", hub.Kubeconfig("token-1"))))["member-h"]
	if names := slices.Sorted(maps.Keys(got.Members)); !slices.Equal(names, []string{"h", "x", "y"}) {
		t.Errorf("it lists %v", names)
	}
}

// The cluster that asks is not a member yet. It must not be reported there as an
// unlisted reader: those are clusters that read exports.
func TestSurveyReadsNoExports(t *testing.T) {
	server := membertest.NewServer(t, "b")
	survey(t.Context(), t, clientFor(membertest.Secret("b", server.Kubeconfig("token-1"))))
	if len(server.Requests()) != 1 {
		t.Fatalf("it was asked %v", server.Requests())
	}
	for request := range server.Requests() {
		if !strings.HasSuffix(request, " members ") {
			t.Errorf("got request %q, want one for all members", request)
		}
	}
}

// A member that does not answer must not delay the others.
func TestAllMembersAreAskedConcurrently(t *testing.T) {
	ids := []string{"b", "c", "d"}
	var waiting atomic.Int32
	all := make(chan struct{})
	var secrets []*corev1.Secret
	for _, id := range ids {
		server := membertest.NewServer(t, id)
		door := membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
			if waiting.Add(1) == int32(len(ids)) {
				close(all)
			}
			select {
			case <-all:
				server.ServeHTTP(w, r)
			case <-r.Context().Done(): // not asked concurrently with the others
			}
		})
		secrets = append(secrets, membertest.Secret(id, door.Kubeconfig("token-1")))
	}
	got := survey(t.Context(), t, clientFor(secrets...))
	for _, id := range ids {
		if answer := got["member-"+id]; answer.Problem != "" || answer.Members[id] == nil {
			t.Errorf("%s: %+v", id, answer)
		}
	}
}

func TestProblemTellsWhyAMemberCouldNotBeRead(t *testing.T) {
	good := membertest.NewServer(t, "b")
	closed := membertest.NewServer(t, "b")
	closed.Close()
	impostor := membertest.Kubeconfig("server: "+good.URL, "token: token-1") // without its certificate authority
	for _, test := range []struct {
		name   string
		secret *corev1.Secret
		member string
		want   string
	}{
		{"no kubeconfig", membertest.Secret("c", ""), "c", "Secret is invalid: data[kubeconfig]: required"},
		{"a kubeconfig that runs a program", membertest.Secret("c", membertest.Kubeconfig(membertest.Cluster, "exec: {apiVersion: v1, command: sh}")), "c", "exec is not allowed"},
		{"no cluster ID", membertest.Secret("", good.Kubeconfig("token-1")), "secret.member-", "Secret is invalid: data[cluster-id]"},
		{"half a certificate", membertest.Secret("c", membertest.Kubeconfig(membertest.Cluster, "client-certificate-data: eA==")), "c", "Secret is invalid: "},
		{"rejected credential", membertest.Secret("c", good.Kubeconfig("token-3")), "c", "member rejects the credential in the Secret"},
		{"no permissions", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)).Kubeconfig("x")), "c",
			"bind it to the ClusterRole mcs-apiserver:peer"},
		{"not installed", membertest.Secret("c", membertest.NewHandlerServer(t, http.NotFound).Kubeconfig("x")), "c", "install mcs-apiserver there"},
		{"not available", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusServiceUnavailable, "")).Kubeconfig("x")), "c", "API of the member is unavailable"},
		{"not JSON", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusOK, "Hello")).Kubeconfig("x")), "c", "cannot be decoded"},
		{"unexpected JSON", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusOK, `{"items":"none"}`)).Kubeconfig("x")), "c", "cannot be decoded"},
		{"invalid UID", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusOK, `{"items":[{"metadata":{"name":"c"},"status":{"clusterUID":"../x"}}]}`)).Kubeconfig("x")), "c", `response of the member cannot be decoded: invalid response: clusterUID "../x"`},
		{"empty list", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusOK, `{}`)).Kubeconfig("x")), "c", "member does not list itself"},
		{"only other clusters", membertest.Secret("c", membertest.NewHandlerServer(t, respond(http.StatusOK, `{"items":[{"metadata":{"name":"a"},"status":{"clusterID":"a","clusterUID":"x","state":"Connected"}}]}`)).Kubeconfig("x")), "c",
			"member does not list itself"},
		{"redirect", membertest.Secret("c", membertest.NewHandlerServer(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, good.URL+r.URL.Path, http.StatusFound)
		}).Kubeconfig("token-1")), "c",
			"redirect to"},
		{"stopped server", membertest.Secret("c", closed.Kubeconfig("token-1")), "c", "member is unreachable: "},
		{"unknown certificate authority", membertest.Secret("c", impostor), "c", "member is unreachable: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := test.secret
			got := survey(t.Context(), t, clientFor(membertest.Secret("b", good.Kubeconfig("token-1")), bad))
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

func TestSurveyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := membertest.NewHandlerServer(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if got := survey(ctx, t, clientFor(membertest.Secret("b", server.Kubeconfig("token-1"))))["member-b"]; !strings.Contains(got.Problem, "member is unreachable") {
		t.Errorf("got %+v", got)
	}
}

// R386: members are asked with their renewed credentials.
func TestMembersAreAskedWithRenewedCredentials(t *testing.T) {
	server := membertest.NewServer(t, "b")
	member := membertest.Secret("b", server.Kubeconfig("expired"))
	renewed := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: clusterset.RenewedSecretName(member.Name)}, Type: clusterset.RenewedSecretType,
		Data: map[string][]byte{secret.Parse(member).Credential: []byte("token-1")},
	}
	if got := survey(t.Context(), t, clientFor(member, renewed)); len(got) != 1 || got["member-b"].Problem != "" {
		t.Errorf("got %+v", got)
	}
	renewed.Data = map[string][]byte{"another": []byte("token-1")}
	if got := survey(t.Context(), t, clientFor(member, renewed)); !strings.Contains(got["member-b"].Problem, "member rejects the credential") {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyMemberSecretsAreRead(t *testing.T) {
	client := clientFor()
	survey(t.Context(), t, client)
	var got []string
	for _, action := range client.Actions() {
		got = append(got, action.GetNamespace()+" "+action.(clienttesting.ListAction).GetListRestrictions().Fields.String())
	}
	want := []string{"mcs-system type=clusterset.mcs-apiserver.io/member", "mcs-system type=clusterset.mcs-apiserver.io/renewed-credential"}
	if !slices.Equal(got, want) {
		t.Errorf("listed Secrets with %q, want %q", got, want)
	}

	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not allowed")
	})
	if answers, err := Members(t.Context(), client, "mcs-system"); answers != nil || err == nil || !strings.Contains(err.Error(), "in namespace mcs-system: not allowed") {
		t.Errorf("got %v, %v", answers, err)
	}
}

// A Secret that was just created counts.
func TestNothingIsReadFromACache(t *testing.T) {
	client, server := clientFor(), membertest.NewServer(t, "b")
	if got := survey(t.Context(), t, client); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	_, err := client.CoreV1().Secrets("mcs-system").Create(t.Context(), membertest.Secret("b", server.Kubeconfig("token-1")), metav1.CreateOptions{})
	membertest.Must(t, err)
	if got := survey(t.Context(), t, client)["member-b"].Members["b"]; got == nil || got.Status.Exports != 0 {
		t.Errorf("got %+v", got)
	}
	server.Export("web")
	if got := survey(t.Context(), t, client)["member-b"].Members["b"]; got == nil || got.Status.Exports != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestMain(m *testing.M) {
	// klog starts it once per process and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
