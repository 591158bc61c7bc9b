// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
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
	cache  cache.Indexer
	clock  *testingclock.FakePassiveClock
	events chan string
	// asked are the tokens with which the member was asked for another.
	asked []token
}

func newWorld(t *testing.T, secret *corev1.Secret, answer func() (string, error)) *world {
	t.Helper()
	recorder := events.NewFakeRecorder(10)
	w := &world{client: kubernetesfake.NewClientset(secret.DeepCopy()), clock: testingclock.NewFakePassiveClock(epoch), events: recorder.Events}
	secrets := informers.NewSharedInformerFactory(w.client, 0).Core().V1().Secrets()
	w.cache = secrets.Informer().GetIndexer()
	w.Controller = New(w.client, "mcs-system", w.clock, recorder, secrets)
	t.Cleanup(w.queue.ShutDown)
	w.request = func(_ context.Context, _ *corev1.Secret, held token) (string, error) {
		w.asked = append(w.asked, held)
		return answer()
	}
	w.hold(t, secret)
	return w
}

func (w *world) hold(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	if err := w.cache.Update(secret); err != nil {
		t.Fatal(err)
	}
}

// stored returns the Secret.
func (w *world) stored(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := w.client.Tracker().Get(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, key.Namespace, key.Name)
	if err != nil {
		t.Fatal(err)
	}
	return secret.(*corev1.Secret)
}

// written returns the requests since the last call, as "verb resource".
func (w *world) written() string {
	var found []string
	for _, action := range w.client.Actions() {
		found = append(found, action.GetVerb()+" "+action.GetResource().Resource)
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

func TestDueTokenIsRenewedOnce(t *testing.T) {
	renewed := tokenOf(t, epoch.Add(15*day), 30*day)
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*day))), func() (string, error) { return renewed, nil })
	w.clock.SetTime(epoch.Add(15 * day))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); got != "update secrets" {
		t.Errorf("got requests %q", got)
	}
	if got := configIn(t, w.stored(t)).AuthInfos["peer"].Token; got != renewed {
		t.Errorf("got token %q", got)
	}
	if len(w.asked) != 1 || w.asked[0].namespace != "mcs-system" || w.asked[0].account != "peer-a" {
		t.Errorf("requested %+v", w.asked)
	}
	w.hold(t, w.stored(t))
	if err := w.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); got != "" || len(w.asked) != 1 {
		t.Errorf("requested %d tokens, sent %q", len(w.asked), got)
	}
	if got := w.recorded(); got != nil {
		t.Errorf("got Events %q", got)
	}
}

func TestTokenThatIsNotDueIsKept(t *testing.T) {
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*day))), never(t))
	for _, passed := range []time.Duration{-day, 0, 15*day - time.Second} {
		w.clock.SetTime(epoch.Add(passed))
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
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
		want := []string{"Warning CredentialNotRenewed Peer credential expires at 2026-01-31T00:00:00Z and could not be renewed; if this continues, run kubectl mcs join again before: " + reason}
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
	w.request = func(_ context.Context, _ *corev1.Secret, held token) (string, error) {
		w.asked = append(w.asked, held)
		return tokenOf(t, w.clock.Now(), life), nil
	}
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {0, 1}, {renewPause, 1}, {life/2 - renewPause - time.Second, 1}, {time.Second, 2}, {requestPause, 2}} {
		w.clock.SetTime(w.clock.Now().Add(step.after))
		w.hold(t, w.stored(t))
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
	w.request = func(_ context.Context, _ *corev1.Secret, held token) (string, error) {
		w.asked = append(w.asked, held)
		return jwtOf(t, "RS256", claimsOf(epoch.Add(-30*day), w.clock.Now().Add(minValidity))), nil
	}
	for passed := time.Duration(0); passed < 10*time.Minute; passed += time.Second {
		w.clock.SetTime(epoch.Add(passed))
		w.hold(t, w.stored(t))
		if err := w.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.written(); got != "update secrets, update secrets" || len(w.asked) != 2 {
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

func TestFailureToStoreTheTokenIsReturned(t *testing.T) {
	w := newWorld(t, secretOf(t, configOf("https://b.example", tokenOf(t, epoch, 30*time.Minute))), func() (string, error) { return tokenOf(t, epoch, 30*day), nil })
	behind := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("changed"))
	w.client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, behind })
	err := w.sync(t.Context(), key)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "update Secret with renewed peer credential") {
		t.Errorf("got %v", err)
	}
}

// A provisional token is exchanged at once, its successor after half its lifetime, and
// failures are retried.
func TestTokenIsRenewedAsLongAsTheSecretExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig())))
		client, recorder := kubernetesfake.NewClientset(), events.NewFakeRecorder(100)
		factory := informers.NewSharedInformerFactory(client, 0)
		c := New(client, "mcs-system", clock.RealClock{}, recorder, factory.Core().V1().Secrets())
		factory.StartWithContext(ctx)
		var start time.Time // of the bubble, as all of these
		asked := make(chan time.Duration, 100)
		var failing atomic.Bool
		c.request = func(context.Context, *corev1.Secret, token) (string, error) {
			asked <- time.Since(start)
			if failing.Load() {
				return "", errors.New("no answer")
			}
			return tokenOf(t, time.Now(), lifetime), nil
		}
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
		expect(15*day, 15*day+time.Hour, 15*day+2*time.Hour)
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
		factory.Shutdown()
	})
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
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &i.question); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(i.Close)
	return i
}

// secret returns a member Secret for the issuer.
func (i *issuer) secret(t *testing.T, text string) *corev1.Secret {
	t.Helper()
	config := configOf(i.URL, text)
	config.Clusters["b"].TLSServerName = ""
	config.Clusters["b"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	return secretOf(t, config)
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
	held, err := readToken(old)
	if err != nil {
		t.Fatal(err)
	}
	got, err := requestToken(t.Context(), server.secret(t, old), held)
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
	held, err := readToken(old)
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
			got, err := requestToken(t.Context(), newIssuer(t, test.code, test.answer).secret(t, old), held)
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
	held, err := readToken(old)
	if err != nil {
		t.Fatal(err)
	}
	server := newIssuer(t, http.StatusCreated, issued("x"))
	impostor := server.secret(t, old)
	config := configIn(t, impostor)
	config.Clusters["b"].CertificateAuthorityData = nil
	if _, err := requestToken(t.Context(), secretOf(t, config), held); err == nil || server.credential != "" {
		t.Errorf("another server received %q: %v", server.credential, err)
	}
	config.Clusters["b"].InsecureSkipTLSVerify = true
	if _, err := requestToken(t.Context(), secretOf(t, config), held); err == nil || server.credential != "" || !strings.Contains(err.Error(), "insecure-skip-tls-verify is not allowed") {
		t.Errorf("another server received %q: %v", server.credential, err)
	}
}
