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
	"sync"
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

// install returns a plugin of an installation with these claims and member Secrets.
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

// request is a write of a claim. object and old are nil if the claim does not exist.
type request struct {
	object, old *multicluster.ClusterClaim
	// unnamed requests are part of a deletion of the collection.
	unnamed     bool
	subresource string
}

func (r request) attributes() admission.Attributes {
	operation, name := admission.Update, ""
	var object, old runtime.Object // untyped nil, not a nil claim
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

// decided returns the answer of the plugin to a request.
func (i *installation) decided(t *testing.T, r request) error {
	t.Helper()
	return i.Validate(t.Context(), r.attributes(), nil)
}

// touched reports whether the plugin sent any request.
func (i *installation) touched() bool {
	return len(i.asked)+len(i.host.Actions())+len(i.own.Actions()) > 0
}

func expectForbidden(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want Forbidden", err)
	}
	expectError(t, err, texts...)
}

// expectRetryable checks that clients repeat the request.
func expectRetryable(t *testing.T, err error, texts ...string) {
	t.Helper()
	if _, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry {
		t.Fatalf("got %v, want 503 with a delay", err)
	}
	expectError(t, err, texts...)
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestOtherRequestsAreIgnored(t *testing.T) {
	elsewhere := admission.NewAttributesRecord(claimOf(idClaim, "b"), claimOf(idClaim, "a"), multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		multiclusterv1.SchemeGroupVersion.WithResource("serviceexports"), "", admission.Update, nil, false, jane)
	foreign := admission.NewAttributesRecord(claimOf(idClaim, "b"), claimOf(idClaim, "a"), multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		clustersetv1alpha1.SchemeGroupVersion.WithResource("clusterclaims"), "", admission.Update, nil, false, jane)
	for name, attributes := range map[string]admission.Attributes{
		"another resource":         elsewhere,
		"another group":            foreign,
		"a subresource":            request{old: claimOf(idClaim, "a"), subresource: "status"}.attributes(),
		"another claim":            request{object: claimOf("region.example.com", "x")}.attributes(),
		"another claim, changed":   request{object: claimOf("region.example.com", "y"), old: claimOf("region.example.com", "x")}.attributes(),
		"another claim, deleted":   request{old: claimOf("region.example.com", "x")}.attributes(),
		"a value that stays":       request{object: forced(claimOf(setClaim, "s"), "true"), old: claimOf(setClaim, "s")}.attributes(),
		"an ID that stays":         request{object: claimOf(idClaim, "a"), old: forced(claimOf(idClaim, "a"), "x")}.attributes(),
		"one of many other claims": request{old: claimOf("region.example.com", "x"), unnamed: true}.attributes(),
	} {
		t.Run(name, func(t *testing.T) {
			i := install(nil)
			i.answer = func() (authorizer.Decision, string, error) { return authorizer.DecisionDeny, "", nil }
			if err := i.Validate(t.Context(), attributes, nil); err != nil {
				t.Error(err)
			}
			if i.touched() {
				t.Errorf("sent requests %v, %v and %v", i.asked, i.host.Actions(), i.own.Actions())
			}
		})
	}
}

// R114: RBAC can restrict the verb claim to a name, but not create.
func TestClaimingRequiresTheVerbClaim(t *testing.T) {
	for _, test := range []struct {
		name    string
		stored  []*multicluster.ClusterClaim
		request request
	}{
		{"an ID", nil, request{object: claimOf(idClaim, "a")}},
		{"another ID", []*multicluster.ClusterClaim{claimOf(idClaim, "a")}, request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}},
		{"a ClusterSet", []*multicluster.ClusterClaim{claimOf(idClaim, "a")}, request{object: claimOf(setClaim, "s")}},
		{"leaving a ClusterSet", []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, request{old: claimOf(setClaim, "s")}},
		{"deleting all claims", []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, request{old: claimOf(setClaim, "s"), unnamed: true}},
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
				t.Fatalf("authorized %d times, want once", len(i.asked))
			}
			asked := i.asked[0]
			if asked.GetUser() != jane || asked.GetVerb() != "claim" || asked.GetName() != claim.Name || asked.GetAPIGroup() != "multicluster.k8s.io" ||
				asked.GetAPIVersion() != "v1" || asked.GetResource() != "clusterclaims" || asked.GetSubresource() != "" || asked.GetNamespace() != "" || !asked.IsResourceRequest() {
				t.Errorf("authorized %+v", asked)
			}

			for _, denied := range []authorizer.Decision{authorizer.DecisionDeny, authorizer.DecisionNoOpinion} {
				i.answer = func() (authorizer.Decision, string, error) { return denied, "no RBAC policy matched", nil }
				// R115: the error says what to grant.
				expectForbidden(t, i.decided(t, test.request), `clusterclaims.multicluster.k8s.io "`+claim.Name+`" is forbidden`, `user "jane"`, "(no RBAC policy matched)",
					`verb "claim"`, `resource "clusterclaims"`, `API group "multicluster.k8s.io"`, `resourceName "`+claim.Name+`"`, `ClusterRole "mcs-apiserver:claims"`)
			}
			i.answer = func() (authorizer.Decision, string, error) {
				return authorizer.DecisionNoOpinion, "", errors.New("webhook down")
			}
			expectRetryable(t, i.decided(t, test.request), "failed to check whether user \"jane\" may claim the name", "webhook down")
		})
	}
}

// One of several authorizers may fail although another one allows the request.
func TestAllowedRequestIgnoresAuthorizerErrors(t *testing.T) {
	i := install(nil)
	i.answer = func() (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", errors.New("a RoleBinding leads nowhere")
	}
	if err := i.decided(t, request{object: claimOf(idClaim, "a")}); err != nil {
		t.Error(err)
	}
}

func TestForbiddenChangesAreRefusedWithoutAnyRequest(t *testing.T) {
	stored := []*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}
	for _, test := range []struct {
		name    string
		request request
		want    string
	}{
		// R105
		{"deleting the ID", request{old: claimOf(idClaim, "a")}, "cannot be deleted"},
		// R104: also as part of a collection, when the request has no name.
		{"deleting all claims", request{old: claimOf(idClaim, "a"), unnamed: true}, `"id.k8s.io" is forbidden: the cluster ID cannot be deleted`},
		// R108
		{"another ClusterSet", request{object: claimOf(setClaim, "t"), old: claimOf(setClaim, "s")}, "delete this claim to leave"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := install(stored)
			expectForbidden(t, i.decided(t, test.request), test.want)
			if i.touched() {
				t.Errorf("sent requests %v, %v and %v", i.asked, i.host.Actions(), i.own.Actions())
			}
		})
	}
}

// R106: the ID may change outside a ClusterSet, with a warning. R104: it may not change
// in a ClusterSet.
func TestIDChangesOnlyOutsideAClusterSet(t *testing.T) {
	rename := request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}
	var got warnings
	ctx := warning.WithWarningRecorder(t.Context(), &got)
	if err := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")}).Validate(ctx, rename.attributes(), nil); err != nil {
		t.Error(err)
	}
	if len(got) != 1 || !strings.Contains(got[0], `former cluster ID "a"`) || !strings.Contains(got[0], "should stay the same") {
		t.Errorf("got warnings %q, want one for the former ID", got)
	}

	got = nil
	err := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}).Validate(ctx, rename.attributes(), nil)
	expectForbidden(t, err, `while this cluster is in ClusterSet "s"`)
	if err := install(nil).Validate(ctx, request{object: claimOf(idClaim, "a")}.attributes(), nil); err != nil {
		t.Error(err)
	}
	if len(got) > 0 {
		t.Errorf("got warnings %q for the first ID, or for a refused change", got)
	}
}

// A generated ID that no ClusterSet has used changes without a warning, as it does when
// a fresh cluster joins for the first time. A chosen ID, or one that a ClusterSet has
// used, does not.
func TestGeneratedIDChangesWithoutWarning(t *testing.T) {
	for name, test := range map[string]struct {
		old  *multicluster.ClusterClaim
		want int
	}{
		"generated, not used":             {generated(claimOf(idClaim, "self"), "self"), 0},
		"generated, used in a ClusterSet": {claimOf(idClaim, "self"), 1},
		"chosen after it was generated":   {generated(claimOf(idClaim, "a"), "self"), 1},
		"chosen":                          {claimOf(idClaim, "a"), 1},
	} {
		var got warnings
		ctx := warning.WithWarningRecorder(t.Context(), &got)
		rename := request{object: claimOf(idClaim, "b"), old: test.old}
		if err := install([]*multicluster.ClusterClaim{test.old}).Validate(ctx, rename.attributes(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(got) != test.want {
			t.Errorf("%s: got warnings %q, want %d", name, got, test.want)
		}
	}
}

// R100: the plugin reads the stored claims live.
func TestJoiningRequiresAnID(t *testing.T) {
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

// R109: leaving does not depend on any member.
func TestLeavingSendsNoRequests(t *testing.T) {
	i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a"), claimOf(setClaim, "s")}, gone(t))
	for _, unnamed := range []bool{false, true} {
		if err := i.decided(t, request{old: claimOf(setClaim, "s"), unnamed: unnamed}); err != nil {
			t.Error(err)
		}
	}
	if actions := append(i.host.Actions(), i.own.Actions()...); len(actions) > 0 {
		t.Errorf("sent requests %v", actions)
	}
}

func TestRequestWithoutObjectIsAnError(t *testing.T) {
	attributes := admission.NewAttributesRecord(nil, nil, multicluster.SchemeGroupVersion.WithKind("ClusterClaim"), "", idClaim,
		multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), "", admission.Delete, nil, false, jane)
	if err := install(nil).Validate(t.Context(), attributes, nil); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

// serving starts a member and returns its Secret.
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
	return secretFor(t, name, server)
}

// gone returns the Secret of a member, west, that is unreachable.
func gone(t *testing.T) *corev1.Secret {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	return secretFor(t, "west", server)
}

func secretFor(t *testing.T, name string, server *httptest.Server) *corev1.Secret {
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

func TestMembersAreAskedWhetherTheIDIsUsed(t *testing.T) {
	const local, connected = clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected
	join, named := request{object: claimOf(setClaim, "s")}, []*multicluster.ClusterClaim{claimOf(idClaim, "a")}
	byForce := request{object: forced(claimOf(setClaim, "s"), "true")}
	unreachable := []string{`"west" (Secret member-west): member is unreachable`, ignore + "=true"}
	for _, test := range []struct {
		name    string
		stored  []*multicluster.ClusterClaim
		secrets []*corev1.Secret
		request request
		want    []string
	}{
		{name: "no members", stored: named, request: join},
		{name: "unused", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("b", "s", "uid-b", connected))}, request: join},
		// R102
		{name: "used in another ClusterSet", stored: named, secrets: []*corev1.Secret{serving(t, "a", served("a", "t", "uid-x", local))}, request: join},
		{name: "used by this cluster", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("a", "s", "self", clustersetv1alpha1.MemberLost))}, request: join},
		// R99, R115
		{name: "used", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local)), serving(t, "a", served("a", "s", "uid-x", local))}, request: join,
			want: []string{`cluster ID "a" is already used in ClusterSet "s" by the cluster of Secret member-a (UID uid-x)`, "kubectl patch clusterclaim id.k8s.io"}},
		{name: "used by a member of a member", stored: named, secrets: []*corev1.Secret{serving(t, "west", served("west", "s", "uid-west", local), served("a", "s", "uid-x", connected))}, request: join,
			want: []string{`by a member of "west" (UID uid-x, Connected)`}},
		{name: "a member is unreachable", stored: named, secrets: []*corev1.Secret{gone(t), serving(t, "b", served("b", "s", "uid-b", local))}, request: join, want: unreachable},
		{name: "a member is unreachable, by force", stored: named, secrets: []*corev1.Secret{gone(t)}, request: byForce},
		{name: "used, by force", stored: named, secrets: []*corev1.Secret{gone(t), serving(t, "a", served("a", "s", "uid-x", local))}, request: byForce, want: []string{"is already used"}},
		{name: "an ID in a ClusterSet", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{serving(t, "a", served("a", "s", "uid-x", local))},
			request: request{object: claimOf(idClaim, "a")}, want: []string{`"id.k8s.io" is forbidden`, "is already used"}},
		// The error names the claim that is being created.
		{name: "an ID in a ClusterSet with an unreachable member", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{gone(t)},
			request: request{object: claimOf(idClaim, "a")}, want: []string{ignore + "=true on the claim id.k8s.io"}},
		{name: "an ID in a ClusterSet with an unreachable member, by force", stored: []*multicluster.ClusterClaim{claimOf(setClaim, "s")}, secrets: []*corev1.Secret{gone(t)},
			request: request{object: forced(claimOf(idClaim, "a"), "true")}},
		{name: "an ID outside a ClusterSet", secrets: []*corev1.Secret{gone(t)}, request: request{object: claimOf(idClaim, "a")}},
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

// The claims must not have changed while the members were asked.
func TestConcurrentChangeOfClaimsIsRefused(t *testing.T) {
	for name, change := range map[string]func(i *installation) error{
		"another ID": func(i *installation) error {
			return i.own.Tracker().Update(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), &multiclusterv1.ClusterClaim{
				ObjectMeta: metav1.ObjectMeta{Name: idClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "b"},
			}, "")
		},
		"no ID": func(i *installation) error {
			return i.own.Tracker().Delete(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), "", idClaim)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")})
			var once sync.Once // member Secrets and renewed credentials are listed
			i.host.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				once.Do(func() {
					if err := change(i); err != nil {
						t.Error(err)
					}
				})
				return false, nil, nil
			})
			expectForbidden(t, i.decided(t, request{object: claimOf(setClaim, "s")}), "changed at the same time", "try again")
		})
	}
}

// R144: while the kube-apiserver is away, a claim is neither allowed nor forbidden.
func TestReadErrorsAreRetryable(t *testing.T) {
	join, rename := request{object: claimOf(setClaim, "s")}, request{object: claimOf(idClaim, "b"), old: claimOf(idClaim, "a")}
	for _, test := range []struct {
		name     string
		resource string
		requests []request
		want     []string
	}{
		{"the claims", "clusterclaims", []request{join, rename}, []string{"get ClusterClaim", "etcd is away"}},
		{"the cluster's UID", "namespaces", []request{join}, []string{"namespace kube-system", "etcd is away"}},
		{"the Secrets", "secrets", []request{join}, []string{`failed to check whether another member has the cluster ID "a"`, "list member Secrets in namespace mcs-system", "etcd is away"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := install([]*multicluster.ClusterClaim{claimOf(idClaim, "a")})
			fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") }
			i.host.PrependReactor("*", test.resource, fail)
			i.own.PrependReactor("*", test.resource, fail)
			for _, request := range test.requests {
				expectRetryable(t, i.decided(t, request), test.want...)
			}
		})
	}
}

func TestPluginRequiresInitialization(t *testing.T) {
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

func TestPluginHandlesWritesOnly(t *testing.T) {
	plugins := admission.NewPlugins()
	Register(plugins)
	if got := plugins.Registered(); !slices.Equal(got, []string{"ClusterClaim"}) {
		t.Errorf("registered %v", got)
	}
	for operation, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: true, admission.Connect: false} {
		if got := New().Handles(operation); got != want {
			t.Errorf("%s: got %t, want %t", operation, got, want)
		}
	}
}
