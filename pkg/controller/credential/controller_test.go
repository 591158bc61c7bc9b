// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

func TestMain(m *testing.M) {
	// Started once per process, without an end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var key = types.NamespacedName{Namespace: "mcs-system", Name: "member-b"}

// world is a controller that is not running. Tests fill its cache and provide the
// answers of the member.
type world struct {
	*Controller
	client *kubernetesfake.Clientset
	// members and renewed are the caches.
	members, renewed cache.Indexer
	clock            *testingclock.FakePassiveClock
	events           chan string
	// asked are the tokens with which the member was asked for another.
	asked []string
}

func newWorld(t *testing.T, secret *corev1.Secret, answer func() (string, error)) *world {
	t.Helper()
	recorder := events.NewFakeRecorder(10)
	w := &world{client: kubernetesfake.NewClientset(secret.DeepCopy()), clock: testingclock.NewFakePassiveClock(epoch), events: recorder.Events}
	members, renewed := informers.NewSharedInformerFactory(w.client, 0).Core().V1().Secrets(), informers.NewSharedInformerFactory(w.client, 0).Core().V1().Secrets()
	w.members, w.renewed = members.Informer().GetIndexer(), renewed.Informer().GetIndexer()
	w.Controller = New(w.client, "mcs-system", w.clock, recorder, members, renewed)
	t.Cleanup(w.queue.ShutDown)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return answer()
	}
	w.try = func(context.Context, *rest.Config) error { return nil }
	w.hold(t, secret)
	return w
}

// hold puts a member Secret into the cache.
func (w *world) hold(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	if err := w.members.Update(secret); err != nil {
		t.Fatal(err)
	}
}

// get returns a stored Secret, or nil.
func (w *world) get(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret, err := w.client.Tracker().Get(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, key.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret.(*corev1.Secret)
}

// follow puts the renewed credential into the cache, and returns its token for what is declared.
func (w *world) follow(t *testing.T) string {
	t.Helper()
	secret := w.get(t, "member-b.renewed")
	if secret == nil {
		return ""
	}
	if err := w.renewed.Update(secret); err != nil {
		t.Fatal(err)
	}
	member, _, err := w.members.GetByKey(key.String())
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[heldIn(t, member.(*corev1.Secret), nil).from])
}

// written returns the writes since the last call, as "verb resource".
func (w *world) written() string {
	var found []string
	for _, action := range w.client.Actions() {
		if action.GetVerb() != "get" {
			found = append(found, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	w.client.ClearActions()
	return strings.Join(found, ", ")
}

// recorded returns the recorded Events.
func (w *world) recorded() []string {
	var found []string
	for len(w.events) > 0 {
		found = append(found, <-w.events)
	}
	return found
}

func never(t *testing.T) func() (string, error) {
	return func() (string, error) {
		t.Error("requested a token")
		return "", errors.New("never")
	}
}

// R410: whatever is declared is exchanged once, and its successor is kept until it is due.
func TestDeclaredTokenIsExchangedOnce(t *testing.T) {
	for _, life := range []time.Duration{30 * time.Minute, time.Hour, day, 30 * day} {
		t.Run(life.String(), func(t *testing.T) {
			renewed := tokenOf(t, epoch, 30*day)
			w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, life))), func() (string, error) { return renewed, nil })
			if err := w.sync(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); got != "create secrets" {
				t.Errorf("got requests %q", got)
			}
			if got := w.follow(t); got != renewed || len(w.asked) != 1 {
				t.Errorf("got token %q with %d requests", got, len(w.asked))
			}
			for _, passed := range []time.Duration{-day, 0, 15*day - time.Second} {
				w.clock.SetTime(epoch.Add(passed))
				if err := w.sync(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.written(); got != "" || len(w.asked) != 1 {
				t.Errorf("requested %d tokens, sent %q", len(w.asked), got)
			}
			if got := w.recorded(); got != nil {
				t.Errorf("got Events %q", got)
			}
		})
	}
}

func TestCredentialsThatCannotBeRenewedAreKept(t *testing.T) {
	due := tokenOf(t, epoch, 30*time.Minute)
	insecure, certificate := configOf("https://b.example", due), configOf("https://b.example", "")
	insecure.Clusters["b"].InsecureSkipTLSVerify, insecure.Clusters["b"].CertificateAuthorityData = true, nil
	certificate.AuthInfos["peer"].ClientCertificateData, certificate.AuthInfos["peer"].ClientKeyData = []byte("certificate"), []byte("key")
	empty := secretOf(t, certificate)
	delete(empty.Data, clusterset.MemberSecretKubeconfig)
	for name, secret := range map[string]*corev1.Secret{
		"a kubeconfig that may not be used": secretOf(t, insecure),
		"a server without TLS":              secretOf(t, configOf("http://b.example", due)),
		"no kubeconfig":                     empty,
		"a certificate":                     secretOf(t, certificate),
		"a password":                        secretOf(t, configOf("https://b.example", "secret")),
		"a token without an end":            secretOf(t, configOf("https://b.example", jwtOf(t, "RS256", map[string]any{"sub": "system:serviceaccount:mcs-system:peer-a", "iat": epoch.Unix()}))),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, secret, never(t))
			w.clock.SetTime(epoch.Add(365 * day))
			if err := w.sync(t.Context(), key); err != nil {
				t.Error(err)
			}
			if got := w.written(); got != "" {
				t.Errorf("got requests %q", got)
			}
			if got := w.recorded(); got != nil {
				t.Errorf("got Events %q, want none: the Member shows it", got)
			}
		})
	}
	w := newWorld(t, empty, never(t))
	if err := w.sync(t.Context(), types.NamespacedName{Namespace: "mcs-system", Name: "member-gone"}); err != nil {
		t.Errorf("deleted Secret: %v", err)
	}
}

func TestFailureIsReportedInAnEvent(t *testing.T) {
	secret := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*day)))
	reason := "service account is not allowed to renew its token"
	w := newWorld(t, secret, func() (string, error) { return "", errors.New(reason) })
	w.clock.SetTime(epoch.Add(20 * day))
	for range 2 {
		w.clock.SetTime(w.clock.Now().Add(requestPause))
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		want := []string{"Warning CredentialNotRenewed Peer credential expires at 2026-01-31T00:00:00Z and could not be renewed; if this continues, " +
			"replace the token in the Secret before, or in the file that declares it, for example with kubectl mcs join: " + reason}
		if got := w.recorded(); !slices.Equal(got, want) {
			t.Errorf("got Events %q, want %q", got, want)
		}
	}
	if got := w.written(); got != "" || len(w.asked) != 2 {
		t.Errorf("requested %d tokens, sent %q", len(w.asked), got)
	}
	// An Event has a limit, in bytes.
	reason = strings.Repeat("ä", 1000)
	w.clock.SetTime(w.clock.Now().Add(requestPause))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.recorded(); len(got) != 1 || len(strings.TrimPrefix(got[0], "Warning CredentialNotRenewed ")) > truncate.MaxEventNote || !strings.HasSuffix(got[0], "ä") {
		t.Errorf("got Events %q", got)
	}
}

// A member that issues short-lived tokens only is asked after half the lifetime of each,
// not continuously. A token that a user provides is exchanged at once.
func TestShortLivedTokensAreNotRenewedContinuously(t *testing.T) {
	const life = 20 * time.Minute
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), nil)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return tokenOf(t, w.clock.Now(), life), nil
	}
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {0, 1}, {renewPause, 1}, {life/2 - renewPause - time.Second, 1}, {time.Second, 2}, {requestPause, 2}} {
		w.clock.SetTime(w.clock.Now().Add(step.after))
		w.follow(t)
		if err := w.sync(t.Context(), key); err != nil || len(w.asked) != step.asked {
			t.Fatalf("at %s: requested %d tokens, want %d (%v)", w.clock.Now().Sub(epoch), len(w.asked), step.asked, err)
		}
	}
	w.hold(t, secretOf(t, configOf("https://b.example", tokenOf(t, w.clock.Now(), 30*time.Minute))))
	if err := w.sync(t.Context(), key); err != nil || len(w.asked) != 3 {
		t.Errorf("with a token of a user: requested %d tokens (%v)", len(w.asked), err)
	}
}

// R290: however often a member makes its tokens due, the Secret is written every 5 minutes.
func TestSecretIsNotWrittenContinuously(t *testing.T) {
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), nil)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return jwtOf(t, "RS256", claimsOf(epoch.Add(-30*day), w.clock.Now().Add(minValidity))), nil
	}
	for passed := time.Duration(0); passed < 10*time.Minute; passed += time.Second {
		w.clock.SetTime(epoch.Add(passed))
		w.follow(t)
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.written(); got != "create secrets, update secrets" || len(w.asked) != 2 {
		t.Errorf("requested %d tokens, sent %q", len(w.asked), got)
	}
}

// R290: a token that is refused does not replace the current one, and an Event says why.
func TestUnacceptableTokenIsReported(t *testing.T) {
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), func() (string, error) { return tokenOf(t, epoch, time.Minute), nil })
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
	}
	if got := w.recorded(); len(got) != 1 || !strings.Contains(got[0], "CredentialNotRenewed") || !strings.Contains(got[0], "member issued a token that expires at 2026-01-01T00:01:00Z, in less than 10m0s") {
		t.Errorf("got Events %q", got)
	}
}

// storing returns a world in which a token is issued and cannot be stored because of an error,
// unless that is nil.
func storing(t *testing.T, failure *error) *world {
	t.Helper()
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, day))), nil)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return tokenOf(t, w.clock.Now(), time.Hour), nil
	}
	w.client.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return *failure != nil && action.GetVerb() != "get", nil, *failure
	})
	return w
}

// R411: a token that cannot be stored is kept, and no other one is requested. An Event says why.
func TestTokenThatCannotBeStoredIsKept(t *testing.T) {
	failure := error(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "member-b.renewed", errors.New("exceeded quota: secrets")))
	w := storing(t, &failure)
	for range 5 {
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatalf("got %v, want no retry but the one that is scheduled", err)
		}
		if got := w.recorded(); len(got) != 1 || !strings.Contains(got[0], "CredentialNotRenewed") ||
			!strings.Contains(got[0], `cannot store Secret "member-b.renewed"; allow mcs-controller to write it`) || !strings.Contains(got[0], "exceeded quota") {
			t.Errorf("got Events %q", got)
		}
		w.clock.SetTime(w.clock.Now().Add(exchangeRetry))
	}
	if failure = nil; w.sync(t.Context(), key) != nil || w.follow(t) != tokenOf(t, epoch, time.Hour) || len(w.asked) != 1 {
		t.Errorf("got token %q with %d requests", w.follow(t), len(w.asked))
	}
	if kept := w.renewals[key.Name]; kept.issued != "" || !kept.stored.Equal(w.clock.Now()) {
		t.Errorf("kept %+v of a token that is stored", kept)
	}
}

// R411: what is kept is of use only with what is declared now, and while it is valid.
func TestAnotherTokenIsRequestedIfTheKeptOneIsOfNoUse(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world){
		"another token is declared": func(t *testing.T, w *world) {
			t.Helper()
			w.hold(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 2*day))))
			w.clock.SetTime(epoch.Add(requestPause))
		},
		"it expires soon":    func(_ *testing.T, w *world) { w.clock.SetTime(epoch.Add(time.Hour - minValidity + time.Second)) },
		"the member was new": func(_ *testing.T, w *world) { delete(w.renewals, key.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			failure := errors.New("denied by a webhook")
			w := storing(t, &failure)
			if err := w.sync(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			change(t, w)
			if failure = nil; w.sync(t.Context(), key) != nil || w.follow(t) != tokenOf(t, w.clock.Now(), time.Hour) || len(w.asked) != 2 {
				t.Errorf("got token %q with %d requests", w.follow(t), len(w.asked))
			}
		})
	}
}

// R411: if the cache lags behind, the token is stored soon, without an Event.
func TestTokenIsStoredSoonIfTheCacheLagsBehind(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for _, behind := range []*apierrors.StatusError{
		apierrors.NewConflict(resource, key.Name, errors.New("changed")), apierrors.NewAlreadyExists(resource, key.Name), apierrors.NewNotFound(resource, key.Name),
	} {
		t.Run(string(behind.ErrStatus.Reason), func(t *testing.T) {
			failure := error(behind)
			w := storing(t, &failure)
			for range 3 {
				if err := w.sync(t.Context(), key); !errors.Is(err, behind) || !strings.Contains(err.Error(), "store renewed peer credential") {
					t.Errorf("got %v", err)
				}
			}
			if failure = nil; w.sync(t.Context(), key) != nil || w.follow(t) == "" || len(w.asked) != 1 {
				t.Errorf("got token %q with %d requests", w.follow(t), len(w.asked))
			}
			if got := w.recorded(); got != nil {
				t.Errorf("got Events %q", got)
			}
		})
	}
}

// A declared token is exchanged at once, its successor after half its lifetime, and
// failures are retried.
func TestTokenIsRenewedAsLongAsTheSecretExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig())))
		client, recorder := kubernetesfake.NewClientset(), events.NewFakeRecorder(100)
		// The client does not select by type.
		members := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(ofType(clusterset.MemberSecretType)))
		renewed := informers.NewSharedInformerFactory(client, 0)
		c := New(client, "mcs-system", clock.RealClock{}, recorder, members.Core().V1().Secrets(), renewed.Core().V1().Secrets())
		members.StartWithContext(ctx)
		renewed.StartWithContext(ctx)
		var start time.Time // of the bubble, as all of these
		asked := make(chan time.Duration, 100)
		var failing atomic.Bool
		c.request = func(context.Context, *rest.Config, peertoken.Token) (string, error) {
			asked <- time.Since(start)
			if failing.Load() {
				return "", errors.New("no answer")
			}
			return tokenOf(t, time.Now(), lifetime), nil
		}
		c.try = func(context.Context, *rest.Config) error { return nil }
		expect := func(want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			var got []time.Duration
			for len(asked) > 0 {
				got = append(got, <-asked)
			}
			if !slices.Equal(got, want) {
				t.Errorf("requested tokens after %v, want %v", got, want)
			}
		}
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Second) // until the cache follows
		start = time.Now()
		if _, err := client.CoreV1().Secrets("mcs-system").Create(ctx, secretOf(t, configOf("https://b.example", tokenOf(t, start, 30*time.Minute))), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(0)
		time.Sleep(15*day - time.Second)
		expect()
		failing.Store(true)
		time.Sleep(time.Second + 3*time.Hour - time.Minute)
		expect(15*day, 15*day, 15*day+time.Hour, 15*day+time.Hour, 15*day+2*time.Hour, 15*day+2*time.Hour) // with both tokens
		failing.Store(false)
		time.Sleep(time.Minute)
		expect(15*day + 3*time.Hour)
		time.Sleep(15 * day)
		expect(30*day + 3*time.Hour)

		if err := client.CoreV1().Secrets("mcs-system").Delete(ctx, key.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * day)
		expect()
		if len(recorder.Events) != 3 {
			t.Errorf("got %d Events, want one per failure", len(recorder.Events))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		members.Shutdown()
		renewed.Shutdown()
	})
}

// ofType hides what Secrets of other types contain.
func ofType(only corev1.SecretType) func(object any) (any, error) {
	return func(object any) (any, error) {
		if secret, ok := object.(*corev1.Secret); ok && secret.Type != only {
			return &corev1.Secret{ObjectMeta: secret.ObjectMeta}, nil
		}
		return object, nil
	}
}

// issuer is a kube-apiserver that gives a fixed answer and records the request.
type issuer struct {
	*httptest.Server
	method, path, credential string
	question                 authenticationv1.TokenRequest
}

func newIssuer(t *testing.T, code int, answer any) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.method, i.path, i.credential = r.Method, r.URL.Path, r.Header.Get("Authorization")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(body) > 0 {
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &i.question); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(i.Close)
	return i
}

// config returns the client configuration for the issuer.
func (i *issuer) config(t *testing.T, text string, changes ...func(*clientcmdapi.Cluster)) *rest.Config {
	t.Helper()
	config := configOf(i.URL, text)
	config.Clusters["b"].TLSServerName = ""
	config.Clusters["b"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	for _, change := range changes {
		change(config.Clusters["b"])
	}
	loaded, err := access.ClientConfig(secretOf(t, config).Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// refused returns an error as the API server sends it.
func refused(err *apierrors.StatusError) metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return status
}

func issued(text string) authenticationv1.TokenRequest {
	return authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}, Status: authenticationv1.TokenRequestStatus{Token: text},
	}
}

func TestTokenRequestsItsSuccessor(t *testing.T) {
	old, renewed := tokenOf(t, epoch, 30*time.Minute), tokenOf(t, epoch, 30*day)
	server := newIssuer(t, http.StatusCreated, issued(renewed))
	held, err := peertoken.Parse(old)
	if err != nil {
		t.Fatal(err)
	}
	got, err := requestToken(t.Context(), server.config(t, old), held)
	if err != nil || got != renewed {
		t.Errorf("got %q, %v", got, err)
	}
	if server.method != http.MethodPost || server.path != "/api/v1/namespaces/mcs-system/serviceaccounts/peer-a/token" || server.credential != "Bearer "+old {
		t.Errorf("sent %s %s with %s", server.method, server.path, server.credential)
	}
	if seconds := server.question.Spec.ExpirationSeconds; seconds == nil || *seconds != 30*24*60*60 || len(server.question.Spec.Audiences) > 0 {
		t.Errorf("requested %+v", server.question.Spec)
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	resource := schema.GroupResource{Resource: "serviceaccounts/token"}
	old := tokenOf(t, epoch, 30*time.Minute)
	held, err := peertoken.Parse(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		code   int
		answer any
		want   []string
	}{
		{"403", http.StatusForbidden, refused(apierrors.NewForbidden(resource, "peer-a", nil)),
			[]string{"is not allowed to renew its token", `allow it to create serviceaccounts/token "peer-a" in namespace "mcs-system"`, "is forbidden"}},
		{"401", http.StatusUnauthorized, refused(apierrors.NewUnauthorized("expired")), []string{"no longer accepts the token", "join the clusters again", "expired"}},
		{"404", http.StatusNotFound, refused(apierrors.NewNotFound(resource, "peer-a")), []string{"does not issue tokens", "use the kube-apiserver of the member"}},
		{"500", http.StatusInternalServerError, refused(apierrors.NewInternalError(errors.New("etcd is away"))), []string{"etcd is away"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := requestToken(t.Context(), newIssuer(t, test.code, test.answer).config(t, old), held)
			if err == nil || got != "" {
				t.Fatalf("got %q, %v", got, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want one with %q", err, want)
				}
			}
		})
	}
}

func TestTokenIsSentToTheMemberOnly(t *testing.T) {
	old := tokenOf(t, epoch, 30*time.Minute)
	held, err := peertoken.Parse(old)
	if err != nil {
		t.Fatal(err)
	}
	server := newIssuer(t, http.StatusCreated, issued("x"))
	impostor := server.config(t, old, func(cluster *clientcmdapi.Cluster) { cluster.CertificateAuthorityData = nil })
	if _, err := requestToken(t.Context(), impostor, held); err == nil || server.credential != "" {
		t.Errorf("another server received %q: %v", server.credential, err)
	}
}

// R385: what a member Secret declares is never changed, whatever it and the member say.
func TestMemberSecretIsNeverWritten(t *testing.T) {
	member := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute)))
	w := newWorld(t, member, nil)
	w.request = func(context.Context, *rest.Config, peertoken.Token) (string, error) {
		return tokenOf(t, w.clock.Now(), 30*day), nil
	}
	for range 5 {
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.follow(t)
		w.clock.SetTime(w.clock.Now().Add(15 * day))
	}
	for _, action := range w.client.Actions() {
		if write, ok := action.(clienttesting.UpdateAction); ok && write.GetObject().(*corev1.Secret).Name == key.Name {
			t.Errorf("wrote %v", write.GetObject())
		}
	}
	if diff := cmp.Diff(member, w.get(t, key.Name)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	if got := w.written(); got != "create secrets, update secrets, update secrets, update secrets, update secrets" {
		t.Errorf("got requests %q", got)
	}
}

// R386: a declared token that has expired is no problem while its successor is good, and is
// not used again. A new one is exchanged at once.
func TestExpiredBootstrapTokenIsNotUsed(t *testing.T) {
	first, second := tokenOf(t, epoch, 30*time.Minute), tokenOf(t, epoch.Add(20*day), 30*time.Minute)
	w := newWorld(t, secretOf(t, configOf("https://b.example", first)), nil)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return tokenOf(t, w.clock.Now(), 30*day), nil
	}
	step := func(at time.Duration, want ...string) {
		t.Helper()
		w.clock.SetTime(epoch.Add(at))
		w.asked = nil
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.follow(t)
		if !slices.Equal(w.asked, want) {
			t.Errorf("after %s: requested with %q, want %q", at, w.asked, want)
		}
	}
	step(0, first)
	renewed := w.follow(t)
	step(day)
	step(15*day, renewed)
	w.hold(t, secretOf(t, configOf("https://b.example", second)))
	step(20*day, second)
	// So it is when somebody deletes the renewed credential.
	if err := w.client.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, key.Namespace, "member-b.renewed"); err != nil {
		t.Fatal(err)
	}
	if err := w.renewed.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	step(20*day + requestPause/2)
	step(20*day+requestPause, second)
	if got := w.recorded(); got != nil {
		t.Errorf("got Events %q", got)
	}
}

// R387: whatever prevents that the renewed token is exchanged, the declared one is used.
func TestDeclaredTokenIsUsedIfTheRenewedOneIsRejected(t *testing.T) {
	resource := schema.GroupResource{Resource: "serviceaccounts"}
	for name, refuse := range map[string]error{
		"401": apierrors.NewUnauthorized("expired"), "403": apierrors.NewForbidden(resource, "peer-a", nil), "404": apierrors.NewNotFound(resource, "peer-a"),
		"431": apierrors.NewGenericServerResponse(http.StatusRequestHeaderFieldsTooLarge, "create", resource, "peer-a", "", 0, true), "broken": errors.New("invalid header field value"),
	} {
		t.Run(name, func(t *testing.T) { testDeclaredTokenIsUsed(t, refuse) })
	}
}

func testDeclaredTokenIsUsed(t *testing.T, refuse error) {
	t.Helper()
	declared, renewed, next := tokenOf(t, epoch, 30*day), tokenOf(t, epoch, day), tokenOf(t, epoch.Add(20*day), 30*day)
	member := secretOf(t, configOf("https://b.example", declared))
	w := newWorld(t, member, nil)
	if err := w.client.Tracker().Add(withToken(member, nil, heldIn(t, member, nil).from, renewed, epoch)); err != nil {
		t.Fatal(err)
	}
	w.follow(t)
	accepted := declared
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		if w.asked = append(w.asked, config.BearerToken); config.BearerToken == accepted {
			return next, nil
		}
		return "", fmt.Errorf("rejected: %w", refuse)
	}
	w.clock.SetTime(epoch.Add(20 * day))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.follow(t); got != next || !slices.Equal(w.asked, []string{renewed, declared}) {
		t.Errorf("got %q with %q", got, w.asked)
	}
	// R388: an Event says when both have expired, and what to do.
	accepted = ""
	w.clock.SetTime(epoch.Add(60 * day))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.recorded(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning CredentialNotRenewed Peer credential expired at 2026-02-20T00:00:00Z; replace the token in the Secret, or in the file that declares it, ") {
		t.Errorf("got Events %q", got)
	}
}

// recreated returns a world in which the member Secret was deleted and created again, as tools
// do, after its credential was renewed. The cache still has the UID that it had before.
func recreated(t *testing.T, answer func() (string, error)) (w *world, renewed string) {
	t.Helper()
	member := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute)))
	member.UID, renewed = "another", tokenOf(t, epoch, 30*day)
	w = newWorld(t, member, answer)
	first, cached := member.DeepCopy(), member.DeepCopy()
	first.UID, cached.UID = "first", "second"
	w.hold(t, cached)
	if err := w.client.Tracker().Add(withToken(first, nil, heldIn(t, member, nil).from, renewed, epoch)); err != nil {
		t.Fatal(err)
	}
	w.follow(t)
	return w, renewed
}

// R412: a member Secret that is created again keeps the renewed credential, unless the garbage
// collector was faster.
func TestRenewedCredentialIsAdopted(t *testing.T) {
	w, renewed := recreated(t, never(t))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, "member-b.renewed"); w.written() != "update secrets" || w.follow(t) != renewed || got.OwnerReferences[0].UID != "another" {
		t.Errorf("got %+v", got)
	}
	if kept := w.renewals[key.Name]; kept.issued != "" {
		t.Errorf("kept %+v of a credential that is stored", kept)
	}
}

// R412: an account that may not change owners still renews credentials, and stores one again that
// the garbage collector deleted.
func TestCredentialThatCannotBeAdoptedIsRenewed(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "member-b.renewed", errors.New("cannot set an ownerRef on a resource you can't delete"))
	next := tokenOf(t, epoch.Add(15*day), 30*day)
	setUp := func(t *testing.T) (*world, string) {
		t.Helper()
		w, renewed := recreated(t, func() (string, error) { return next, nil })
		w.client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, denied })
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if got := w.recorded(); got != nil || len(w.asked) > 0 {
			t.Errorf("got Events %q, requested %d tokens", got, len(w.asked))
		}
		return w, renewed
	}
	collect := func(t *testing.T, w *world) {
		t.Helper()
		if err := w.client.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, key.Namespace, "member-b.renewed"); err != nil {
			t.Fatal(err)
		}
		if err := w.renewed.Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("collected", func(t *testing.T) {
		w, renewed := setUp(t)
		collect(t, w)
		if got := w.follow(t); got != renewed || len(w.asked) > 0 {
			t.Errorf("got %q with %d requests", got, len(w.asked))
		}
	})
	t.Run("due, then collected", func(t *testing.T) {
		w, renewed := setUp(t)
		w.clock.SetTime(epoch.Add(15 * day))
		for range 2 {
			if err := w.sync(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.recorded(); len(got) != 2 || !strings.Contains(got[0], "cannot set an ownerRef") || !slices.Equal(w.asked, []string{renewed}) {
			t.Errorf("got Events %q, requested with %q", got, w.asked)
		}
		collect(t, w)
		if got := w.follow(t); got != next || len(w.asked) != 1 {
			t.Errorf("got %q with %d requests", got, len(w.asked))
		}
	})
}

// R411: a Secret of somebody else is not replaced, and no token requested that could not be stored.
func TestNameOfTheRenewedCredentialMayBeInUse(t *testing.T) {
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), never(t))
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-b.renewed"}, Type: corev1.SecretTypeOpaque}
	if err := w.client.Tracker().Add(other); err != nil {
		t.Fatal(err)
	}
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.recorded(); len(got) != 1 || !strings.Contains(got[0], `name conflict: Secret "member-b.renewed" is of type "Opaque"`) || !strings.Contains(got[0], "delete it, or give the member Secret another name") {
		t.Errorf("got Events %q", got)
	}
	// One that the cache does not have yet is awaited.
	other.Type = clusterset.RenewedSecretType
	if err := w.client.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, other, other.Namespace); err != nil {
		t.Fatal(err)
	}
	if err := w.sync(t.Context(), key); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
	}
}

// R411: the name of a member Secret may be too long for the one with its renewed credential.
func TestNameOfTheRenewedCredentialMayBeTooLong(t *testing.T) {
	for length, allowed := range map[int]bool{245: true, 246: false, 253: false} {
		member := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute)))
		member.Name = strings.Repeat("m", length)
		w := newWorld(t, member, func() (string, error) { return tokenOf(t, epoch, 30*day), nil })
		if err := w.sync(t.Context(), types.NamespacedName{Namespace: member.Namespace, Name: member.Name}); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(w.recorded(), "")
		if reported := strings.Contains(got, fmt.Sprintf("is too long: give the member Secret a name that is shorter by %d characters", length-245)); reported == allowed || (len(w.asked) == 1) != allowed {
			t.Errorf("%d characters: requested %d tokens, got Event %q", length, len(w.asked), got)
		}
	}
}

// The error that says most about what to do is reported.
func TestReportedErrorIsNotThatOfAnExpiredToken(t *testing.T) {
	member := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute)))
	rejected, forbidden := error(apierrors.NewUnauthorized("expired")), errors.New("not allowed")
	for name, answers := range map[string][]error{"first": {forbidden, rejected}, "second": {rejected, forbidden}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, member, nil)
			if err := w.renewed.Add(withToken(member, nil, heldIn(t, member, nil).from, tokenOf(t, epoch, 30*day), epoch)); err != nil {
				t.Fatal(err)
			}
			next := 0
			w.request = func(context.Context, *rest.Config, peertoken.Token) (string, error) {
				next++
				return "", answers[next-1]
			}
			w.clock.SetTime(epoch.Add(15 * day))
			if err := w.sync(t.Context(), key); err != nil || next != 2 {
				t.Fatalf("%d requests: %v", next, err)
			}
			if got := w.recorded(); len(got) != 1 || !strings.HasSuffix(got[0], ": not allowed") {
				t.Errorf("got Events %q", got)
			}
		})
	}
}

// R413: a token that the member does not accept is not stored, and the other one is tried.
func TestIssuedTokenIsTriedBeforeItIsStored(t *testing.T) {
	declared, renewed := tokenOf(t, epoch, 30*day), tokenOf(t, epoch, 20*day)
	bad, good := tokenOf(t, epoch.Add(15*day), 20*day), tokenOf(t, epoch.Add(15*day), 30*day)
	member := secretOf(t, configOf("https://b.example", declared))
	w := newWorld(t, member, nil)
	if err := w.client.Tracker().Add(withToken(member, nil, heldIn(t, member, nil).from, renewed, epoch)); err != nil {
		t.Fatal(err)
	}
	w.follow(t)
	answers := map[string]string{renewed: bad, declared: bad}
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return answers[config.BearerToken], nil
	}
	w.try = func(_ context.Context, config *rest.Config) error {
		if config.BearerToken != good {
			return errors.New("rejected")
		}
		return nil
	}
	w.clock.SetTime(epoch.Add(15 * day))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.recorded(); w.written() != "" || len(got) != 1 || !strings.HasSuffix(got[0], ": rejected") || w.renewals[key.Name].issued != "" {
		t.Errorf("got Events %q, kept %+v", got, w.renewals[key.Name])
	}
	answers[declared], w.asked = good, nil
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.follow(t); got != good || !slices.Equal(w.asked, []string{renewed, declared}) {
		t.Errorf("got %q with %q", got, w.asked)
	}
}

// R413: only what is said about the token counts.
func TestTokenIsTriedWithTheMember(t *testing.T) {
	text := tokenOf(t, epoch, 30*day)
	resource := schema.GroupResource{Resource: "version"}
	for _, test := range []struct {
		code   int
		answer any
		want   string
	}{
		{http.StatusOK, map[string]string{"gitVersion": "v1.36.0"}, ""},
		{http.StatusForbidden, refused(apierrors.NewForbidden(resource, "", nil)), ""},
		{http.StatusNotFound, refused(apierrors.NewNotFound(resource, "")), ""},
		{http.StatusUnauthorized, refused(apierrors.NewUnauthorized("unknown key")), "member does not accept the token that it issued; check its service account keys, and proxies in front of it: unknown key"},
		{http.StatusRequestHeaderFieldsTooLarge, nil, "does not accept the token"},
		{http.StatusInternalServerError, refused(apierrors.NewInternalError(errors.New("etcd is away"))), "etcd is away"},
	} {
		server := newIssuer(t, test.code, test.answer)
		err := tryToken(t.Context(), server.config(t, text))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d: got %v, want %q", test.code, err, test.want)
		}
		if server.method != http.MethodGet || server.path != "/version" || server.credential != "Bearer "+text {
			t.Errorf("sent %s %s with %s", server.method, server.path, server.credential)
		}
	}
}

// R414: if what is declared is taken back, as when joining fails or a tool corrects deviations, the
// credential that was renewed from it is used again.
func TestRenewedCredentialSurvivesAnotherDeclaration(t *testing.T) {
	first, second := secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), secretOf(t, configOf("https://c.example", tokenOf(t, epoch.Add(day), 30*time.Minute)))
	w := newWorld(t, first, nil)
	w.request = func(_ context.Context, config *rest.Config, _ peertoken.Token) (string, error) {
		w.asked = append(w.asked, config.BearerToken)
		return tokenOf(t, w.clock.Now(), 30*day), nil
	}
	for _, step := range []struct {
		declared *corev1.Secret
		at       time.Duration
		asked    int
		renewed  time.Duration
	}{{first, 0, 1, 0}, {second, day, 2, day}, {first, 2 * day, 2, 0}, {second, 3 * day, 2, day}, {first, 16 * day, 3, 16 * day}} {
		w.hold(t, step.declared)
		w.clock.SetTime(epoch.Add(step.at))
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if got := w.follow(t); got != tokenOf(t, epoch.Add(step.renewed), 30*day) || len(w.asked) != step.asked {
			t.Errorf("after %s: got %q with %d requests, want that of %s with %d", step.at, got, len(w.asked), step.renewed, step.asked)
		}
	}
}
