// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// installation is a plugin with everything that it needs, all of it fake.
type installation struct {
	*Plugin
	host *kubernetesfake.Clientset
	own  *mcsfake.Clientset
	// answer is the authorizer's; asked is what it was asked.
	answer func() (authorizer.Decision, string, error)
	asked  []authorizer.Attributes
}

// install has these claims stored, and these Secrets of members.
func install(stored []*multicluster.ClusterClaim, secrets ...*corev1.Secret) *installation {
	host := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "self"}}}
	for _, secret := range secrets {
		host = append(host, secret)
	}
	var own []runtime.Object
	for _, claim := range stored {
		own = append(own, &multiclusterv1.ClusterClaim{ObjectMeta: claim.ObjectMeta, Spec: multiclusterv1.ClusterClaimSpec{Value: claim.Spec.Value}})
	}
	i := &installation{
		Plugin: New(), host: kubernetesfake.NewClientset(host...), own: mcsfake.NewSimpleClientset(own...),
		answer: func() (authorizer.Decision, string, error) { return authorizer.DecisionAllow, "", nil },
	}
	i.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		i.asked = append(i.asked, attributes)
		return i.answer()
	}))
	i.SetExternalKubeClientSet(i.host)
	i.SetInstallation(i.own, "mcs-system")
	return i
}

var jane = &user.DefaultInfo{Name: "jane", UID: "1", Groups: []string{"platform"}}

// request is what is to become of a claim; nil stands for no claim.
type request struct {
	object, old *multicluster.ClusterClaim
	// unnamed requests are for all claims at once.
	unnamed     bool
	subresource string
}

func (r request) attributes() admission.Attributes {
	operation, name := admission.Update, ""
	var object, old runtime.Object // no claim is nil, not a nil claim
	if r.old == nil {
		operation = admission.Create
	} else {
		old, name = r.old, r.old.Name
	}
	if r.object == nil {
		operation = admission.Delete
	} else {
		object, name = r.object, r.object.Name
	}
	if r.unnamed {
		name = ""
	}
	return admission.NewAttributesRecord(object, old, multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", name,
		multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), r.subresource, operation, nil, false, jane)
}

// decided is what the plugin says to a request.
func (i *installation) decided(t *testing.T, r request) error {
	t.Helper()
	return i.Validate(t.Context(), r.attributes(), nil)
}

// touched is true when the plugin has looked at anything or asked anybody.
func (i *installation) touched() bool {
	return len(i.asked)+len(i.host.Actions())+len(i.own.Actions()) > 0
}

func expectForbidden(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("%v is no refusal", err)
	}
	expectError(t, err, texts...)
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestWhatIsNoneOfItsBusinessIsLeftAlone(t *testing.T) {
	elsewhere := admission.NewAttributesRecord(claimOf(idClaim, "b"), claimOf(idClaim, "a"), multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		multiclusterv1.SchemeGroupVersion.WithResource("serviceexports"), "", admission.Update, nil, false, jane)
	foreign := admission.NewAttributesRecord(claimOf(idClaim, "b"), claimOf(idClaim, "a"), multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		clustersetv1alpha1.SchemeGroupVersion.WithResource("clusterclaims"), "", admission.Update, nil, false, jane)
	for name, attributes := range map[string]admission.Attributes{
		"another resource":         elsewhere,
		"another group":            foreign,
		"a subresource":            request{old: claimOf(idClaim, "a"), subresource: "status"}.attributes(),
		"another claim":            request{object: claimOf("region.example.com", "x")}.attributes(),
		"another claim's change":   request{object: claimOf("region.example.com", "y"), old: claimOf("region.example.com", "x")}.attributes(),
		"another claim's end":      request{old: claimOf("region.example.com", "x")}.attributes(),
		"a value that stays":       request{object: forced(claimOf(setClaim, "s"), "true"), old: claimOf(setClaim, "s")}.attributes(),
		"an id that stays":         request{object: claimOf(idClaim, "a"), old: forced(claimOf(idClaim, "a"), "x")}.attributes(),
		"one of many other claims": request{old: claimOf("region.example.com", "x"), unnamed: true}.attributes(),
	} {
		t.Run(name, func(t *testing.T) {
			i := install(nil)
			i.answer = func() (authorizer.Decision, string, error) { return authorizer.DecisionDeny, "", nil }
			if err := i.Validate(t.Context(), attributes, nil); err != nil {
				t.Error(err)
			}
			if i.touched() {
				t.Errorf("it asked %v, %v and %v", i.asked, i.host.Actions(), i.own.Actions())
			}
		})
	}
}

// R114: create cannot be restricted to a name, the verb claim can.
func TestClaimingTakesARightOfItsOwn(t *testing.T) {
	for _, test := range []struct {
		name    string
		stored  []*multicluster.ClusterClaim
		request request
	}{
		{"an id", nil, request{object: claimOf(idClaim, "a")}},
		{"another id", []*multicluster.ClusterClaim{claimOf(idClaim, "a")}, request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}},
		{"a ClusterSet", []*multicluster.ClusterClaim{claimOf(idClaim, "a")}, request{object: claimOf(setClaim, "s")}},
		{"the end of a ClusterSet", []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, request{old: claimOf(setClaim, "s")}},
		{"the end of all claims", []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, request{old: claimOf(setClaim, "s"), unnamed: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := install(test.stored)
			claim := test.request.object
			if claim == nil {
				claim = test.request.old
			}
			if err := i.decided(t, test.request); err != nil {
				t.Error(err)
			}
			if len(i.asked) != 1 {
				t.Fatalf("asked %d times", len(i.asked))
			}
			asked := i.asked[0]
			if asked.GetUser() != jane || asked.GetVerb() != "claim" || asked.GetName() != claim.Name || asked.GetAPIGroup() != "multicluster.k8s.io" ||
				asked.GetAPIVersion() != "v1" || asked.GetResource() != "clusterclaims" || asked.GetSubresource() != "" || asked.GetNamespace() != "" || !asked.IsResourceRequest() {
				t.Errorf("asked for %+v", asked)
			}

			for _, denied := range []authorizer.Decision{authorizer.DecisionDeny, authorizer.DecisionNoOpinion} {
				i.answer = func() (authorizer.Decision, string, error) { return denied, "no RBAC policy matched", nil }
				// R115: the refusal says what to grant.
				expectForbidden(t, i.decided(t, test.request), `clusterclaims.multicluster.k8s.io "`+claim.Name+`" is forbidden`, `user "jane"`, "(no RBAC policy matched)",
					`verb "claim"`, `resource "clusterclaims"`, `API group "multicluster.k8s.io"`, `resourceName "`+claim.Name+`"`, `ClusterRole "mcs-apiserver:claims"`)
			}
			i.answer = func() (authorizer.Decision, string, error) {
				return authorizer.DecisionNoOpinion, "", errors.New("webhook down")
			}
			expectForbidden(t, i.decided(t, test.request), `user "jane"`, "cannot be told", "webhook down")
		})
	}
}

// An authorizer of several may fail although another allows it.
func TestRightIsARightAlthoughSomebodyFailedToTell(t *testing.T) {
	i := install(nil)
	i.answer = func() (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", errors.New("a RoleBinding leads nowhere")
	}
	if err := i.decided(t, request{object: claimOf(idClaim, "a")}); err != nil {
		t.Error(err)
	}
}

func TestWhatNobodyMayDoIsRefusedWithoutAskingWhoDoes(t *testing.T) {
	stored := []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}
	for _, test := range []struct {
		name    string
		request request
		want    string
	}{
		// R105
		{"removing the id", request{old: claimOf(idClaim, "a")}, "cannot be removed"},
		// R104: also with all other claims, when the request has no name.
		{"removing all", request{old: claimOf(idClaim, "a"), unnamed: true}, `"id.k8s.io" is forbidden: a cluster has an id for as long as it lives`},
		// R108
		{"another ClusterSet", request{object: claimOf(setClaim, "t"), old: claimOf(setClaim, "s")}, "leave first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := install(stored)
			expectForbidden(t, i.decided(t, test.request), test.want)
			if i.touched() {
				t.Errorf("it asked %v, %v and %v", i.asked, i.host.Actions(), i.own.Actions())
			}
		})
	}
}

// R106: the id may change outside membership, which is told to be unwise. R104: it
// may not within.
func TestIDChangesOnlyOutsideAClusterSet(t *testing.T) {
	rename := request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}
	var heard warnings
	ctx := warning.WithWarningRecorder(t.Context(), &heard)
	if err := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")}).Validate(ctx, rename.attributes(), nil); err != nil {
		t.Error(err)
	}
	if len(heard) != 1 || !strings.Contains(heard[0], `knew this cluster as "a"`) || !strings.Contains(heard[0], "should stay the same") {
		t.Errorf("warnings %q", heard)
	}

	heard = nil
	err := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}).Validate(ctx, rename.attributes(), nil)
	expectForbidden(t, err, `while this cluster is in the ClusterSet "s"`)
	if err := install(nil).Validate(ctx, request{object: claimOf(idClaim, "a")}.attributes(), nil); err != nil {
		t.Error(err)
	}
	if len(heard) > 0 {
		t.Errorf("warnings %q for the first id, or for a change that is refused", heard)
	}
}

// R100: what is stored at the moment counts.
func TestClusterSetIsNotJoinedWithoutAnID(t *testing.T) {
	i := install(nil)
	expectForbidden(t, i.decided(t, request{object: claimOf(setClaim, "s")}), `"clusterset.k8s.io" is forbidden`, "create the ClusterClaim id.k8s.io first")
	stored := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: idClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "a"}}
	if _, err := i.own.MulticlusterV1().ClusterClaims().Create(t.Context(), stored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := i.decided(t, request{object: claimOf(setClaim, "s")}); err != nil {
		t.Error(err)
	}
}

// R109: who leaves needs nobody's answer.
func TestLeavingAsksNobody(t *testing.T) {
	i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, gone(t))
	for _, unnamed := range []bool{false, true} {
		if err := i.decided(t, request{old: claimOf(setClaim, "s"), unnamed: unnamed}); err != nil {
			t.Error(err)
		}
	}
	if actions := append(i.host.Actions(), i.own.Actions()...); len(actions) > 0 {
		t.Errorf("it looked at %v", actions)
	}
}

func TestWriteWithoutAClaimIsAnError(t *testing.T) {
	attributes := admission.NewAttributesRecord(nil, nil, multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), "", admission.Delete, nil, false, jane)
	if err := install(nil).Validate(t.Context(), attributes, nil); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

// serving is a member, and the Secret that leads to it.
func serving(t *testing.T, name string, entries ...clustersetv1alpha1.Member) *corev1.Secret {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/clusterset.mcs-apiserver.io/v1alpha1/members" || r.Header.Get("Authorization") != "Bearer token-"+name {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(apierrors.NewForbidden(clusterset.Resource("members"), "", nil).Status())
			return
		}
		_ = json.NewEncoder(w).Encode(clustersetv1alpha1.MemberList{
			TypeMeta: metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: "MemberList"}, Items: entries,
		})
	}))
	t.Cleanup(server.Close)
	return leadingTo(t, name, server)
}

// gone is the Secret of a member, west, that does not answer any more.
func gone(t *testing.T) *corev1.Secret {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	return leadingTo(t, "west", server)
}

func leadingTo(t *testing.T, name string, server *httptest.Server) *corev1.Secret {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "token-" + name}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-" + name}, Type: clusterset.MemberSecretType,
		Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte(name), clusterset.MemberSecretKubeconfig: kubeconfig},
	}
}

func served(id, set string, uid types.UID, state clustersetv1alpha1.MemberState) clustersetv1alpha1.Member {
	return clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: id, ClusterSet: set, ClusterUID: uid, State: state},
	}
}

func TestMembersAreAskedWhetherTheIDIsFree(t *testing.T) {
	const local, connected = clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected
	join, named := request{object: claimOf(setClaim, "s")}, []*multicluster.ClusterClaim{claimOf(idClaim, "a")}
	byForce := request{object: forced(claimOf(setClaim, "s"), "true")}
	unreachable := []string{`"west" (Secret member-west): no answer`, ignore + "=true"}
	for _, test := range []struct {
		name    string
		stored  []*multicluster.ClusterClaim
		secrets []*corev1.Secret
		request request
		want    []string
	}{
		{name: "no members", stored: named, request: join},
		{name: "free", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("b", "s", "uid-b", connected))}, request: join},
		// R102
		{name: "taken in another ClusterSet", stored: named, secrets: []*corev1.Secret{serving(t, "a", served("a", "t", "uid-x", local))}, request: join},
		{name: "our own", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("a", "s", "self", clustersetv1alpha1.MemberLost))}, request: join},
		// R99, R115
		{name: "taken", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local)), serving(t, "a", served("a", "s", "uid-x", local))}, request: join,
			want: []string{`the id "a" is taken in the ClusterSet "s" by the cluster of Secret member-a (UID uid-x)`, "kubectl patch clusterclaim id.k8s.io"}},
		{name: "taken, as a member knows", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("a", "s", "uid-x", connected))}, request: join,
			want: []string{`by a member of "west" (UID uid-x, Connected)`}},
		{name: "a member is gone", stored: named, secrets: []*corev1.Secret{gone(t), serving(t, "b", served("b", "s", "uid-b", local))}, request: join, want: unreachable},
		{name: "a member is gone, by force", stored: named, secrets: []*corev1.Secret{gone(t)}, request: byForce},
		{name: "taken, by force", stored: named, secrets: []*corev1.Secret{gone(t), serving(t, "a", served("a", "s", "uid-x", local))}, request: byForce, want: []string{"is taken"}},
		{name: "an id for a ClusterSet", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{serving(t, "a", served("a", "s", "uid-x", local))},
			request: request{object: claimOf(idClaim, "a")}, want: []string{`"id.k8s.io" is forbidden`, "is taken"}},
		// The annotation that helps is that of the claim that is made.
		{name: "an id for a ClusterSet with a member that is gone", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{gone(t)},
			request: request{object: claimOf(idClaim, "a")}, want: []string{ignore + "=true on the claim id.k8s.io"}},
		{name: "an id for a ClusterSet with a member that is gone, by force", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{gone(t)},
			request: request{object: forced(claimOf(idClaim, "a"), "true")}},
		{name: "an id outside a ClusterSet", secrets: []*corev1.Secret{gone(t)}, request: request{object: claimOf(idClaim, "a")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := install(test.stored, test.secrets...).decided(t, test.request)
			if test.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expectForbidden(t, err, test.want...)
		})
	}
}

// Asking takes a while. What was asked about must still be so when it is over.
func TestClaimsThatChangeWhileMembersAreAskedAreARefusal(t *testing.T) {
	for name, change := range map[string]func(i *installation) error{
		"another id": func(i *installation) error {
			return i.own.Tracker().Update(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), &multiclusterv1.ClusterClaim{
				ObjectMeta: metav1.ObjectMeta{Name: idClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "b"},
			}, "")
		},
		"no id": func(i *installation) error {
			return i.own.Tracker().Delete(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), "", idClaim)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")})
			i.host.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if err := change(i); err != nil {
					t.Error(err)
				}
				return false, nil, nil
			})
			expectForbidden(t, i.decided(t, request{object: claimOf(setClaim, "s")}), "were changed at the same time", "try again")
		})
	}
}

func TestWhatCannotBeReadIsARefusal(t *testing.T) {
	join, rename := request{object: claimOf(setClaim, "s")}, request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}
	for _, test := range []struct {
		name     string
		resource string
		requests []request
		want     []string
	}{
		{"the claims", "clusterclaims", []request{join, rename}, []string{"read the claim", "etcd is away"}},
		{"the cluster's UID", "namespaces", []request{join}, []string{"namespace kube-system", "etcd is away"}},
		{"the Secrets", "secrets", []request{join}, []string{`whether another member has the id "a" cannot be told`, "read the Secrets of the members in namespace mcs-system", "etcd is away"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")})
			fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") }
			i.host.PrependReactor("*", test.resource, fail)
			i.own.PrependReactor("*", test.resource, fail)
			for _, request := range test.requests {
				expectForbidden(t, i.decided(t, request), test.want...)
			}
		})
	}
}

func TestPluginWithoutWhatItNeedsIsNotStarted(t *testing.T) {
	if err := install(nil).ValidateInitialization(); err != nil {
		t.Error(err)
	}
	for name, without := range map[string]func(*Plugin){
		"authorizer":        func(p *Plugin) { p.SetAuthorizer(nil) },
		"kubernetes":        func(p *Plugin) { p.SetExternalKubeClientSet(nil) },
		"client of its own": func(p *Plugin) { p.SetInstallation(nil, "mcs-system") },
		"namespace":         func(p *Plugin) { p.SetInstallation(mcsfake.NewSimpleClientset(), "") },
	} {
		i := install(nil)
		without(i.Plugin)
		if err := i.ValidateInitialization(); err == nil || !strings.Contains(err.Error(), PluginName) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestPluginIsRegisteredForWritesOnly(t *testing.T) {
	plugins := admission.NewPlugins()
	Register(plugins)
	if got := plugins.Registered(); !slices.Equal(got, []string{"ClusterClaim"}) {
		t.Errorf("registered are %v", got)
	}
	for operation, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: true, admission.Connect: false} {
		if got := New().Handles(operation); got != want {
			t.Errorf("%s: handled is %t", operation, got)
		}
	}
}
