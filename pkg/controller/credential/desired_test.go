// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// jwtOf returns a token with these claims. Its signature is not verified.
func jwtOf(t *testing.T, algorithm string, claims map[string]any) string {
	t.Helper()
	part := func(content map[string]any) string {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]any{"alg": algorithm, "kid": "key"}) + "." + part(claims) + "." + base64.RawURLEncoding.EncodeToString([]byte("signature"))
}

// claimsOf returns the claims of a kube-apiserver token for the account peer-a.
func claimsOf(issued, expires time.Time) map[string]any {
	return map[string]any{
		"iss": "https://kubernetes.default.svc", "aud": []string{"https://kubernetes.default.svc"}, "sub": "system:serviceaccount:mcs-system:peer-a", "jti": "1",
		"iat": issued.Unix(), "nbf": issued.Unix(), "exp": expires.Unix(),
		"kubernetes.io": map[string]any{"namespace": "mcs-system", "serviceaccount": map[string]string{"name": "peer-a", "uid": "2"}},
	}
}

// tokenOf returns a token of the account peer-a.
func tokenOf(t *testing.T, issued time.Time, life time.Duration) string {
	t.Helper()
	return jwtOf(t, "RS256", claimsOf(issued, issued.Add(life)))
}

func TestReadToken(t *testing.T) {
	want := token{namespace: "mcs-system", account: "peer-a", issued: epoch, expires: epoch.Add(30 * day)}
	for _, algorithm := range []string{"RS256", "ES256", "PS512", "EdDSA"} {
		got, err := readToken(jwtOf(t, algorithm, claimsOf(epoch, epoch.Add(30*day))))
		if err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(token{}), cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", algorithm, diff)
		}
	}
}

// Other credentials are renewed by their creators.
func TestOtherCredentialsAreNotRenewable(t *testing.T) {
	changed := func(change func(claims map[string]any)) string {
		claims := claimsOf(epoch, epoch.Add(day))
		change(claims)
		return jwtOf(t, "RS256", claims)
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"a password":         "secret",
		"three parts":        "a.b.c",
		"another algorithm":  jwtOf(t, "XX256", claimsOf(epoch, epoch.Add(day))),
		"without an end":     changed(func(claims map[string]any) { delete(claims, "exp") }),
		"without a start":    changed(func(claims map[string]any) { delete(claims, "iat") }),
		"without a name":     changed(func(claims map[string]any) { delete(claims, "sub") }),
		"a user's":           changed(func(claims map[string]any) { claims["sub"] = "jane" }),
		"a node's":           changed(func(claims map[string]any) { claims["sub"] = "system:node:n1:x" }),
		"an odd name":        changed(func(claims map[string]any) { claims["sub"] = "system:serviceaccount:a:b:c" }),
		"an end that is not": changed(func(claims map[string]any) { claims["exp"] = "tomorrow" }),
	} {
		if got, err := readToken(text); !errors.Is(err, errNotRenewable) || got != (token{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// R290: only a token that can be renewed, is valid for some time and is not large may replace
// the current one.
func TestUnacceptableTokensAreRefused(t *testing.T) {
	sized := func(padding int) string {
		claims := claimsOf(epoch, epoch.Add(30*day))
		claims["padding"] = strings.Repeat("x", padding)
		return jwtOf(t, "RS256", claims)
	}
	for _, test := range []struct{ name, text, want string }{
		{"usual", tokenOf(t, epoch, 30*day), ""},
		{"valid for long enough", tokenOf(t, epoch, minValidity), ""},
		{"short-lived", tokenOf(t, epoch, minValidity-time.Second), "expires at 2026-01-01T00:09:59Z, in less than 10m0s: compare the clocks of the clusters"},
		{"expired", tokenOf(t, epoch.Add(-day), time.Hour), "in less than 10m0s"},
		{"long", sized(maxSize / 2), ""},
		{"too long", sized(maxSize), "bytes, and 16384 are allowed: find out who controls the server"},
		{"empty", "", "cannot be renewed: not a service account token with an expiry"},
		{"without expiry", "secret", "cannot be renewed: not a service account token with an expiry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := acceptable(test.text, epoch)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTokenIsDueAfterHalfItsLifetimeOrAtOnce(t *testing.T) {
	for _, test := range []struct{ life, want, renewed time.Duration }{
		{30 * day, 15 * day, 15 * day},
		{day, day / 2, day / 2},
		{time.Hour, time.Hour / 2, time.Hour / 2},
		{time.Hour - 2*time.Second, 0, 30*time.Minute - time.Second}, // unless it was got by a renewal, it is only there to be exchanged
		{30 * time.Minute, 0, 15 * time.Minute},
		{0, 0, 0},
	} {
		held := token{issued: epoch, expires: epoch.Add(test.life)}
		if got := held.due(false).Sub(epoch); got != test.want {
			t.Errorf("token with lifetime %s is due after %s, want %s", test.life, got, test.want)
		}
		if got := held.due(true).Sub(epoch); got != test.renewed {
			t.Errorf("renewed token with lifetime %s is due after %s, want %s", test.life, got, test.renewed)
		}
	}
}

func TestRetriesAreMoreFrequentNearTheExpiry(t *testing.T) {
	for _, test := range []struct{ left, want time.Duration }{
		{15 * day, time.Hour},
		{10 * time.Hour, time.Hour},
		{5 * time.Hour, 30 * time.Minute},
		{10 * time.Minute, time.Minute},
		{50 * time.Second, 5 * time.Second},
		{time.Second, 5 * time.Second},
		{0, time.Hour},
		{-day, time.Hour},
	} {
		if got := (token{issued: epoch, expires: epoch.Add(test.left)}).retryIn(epoch); got != test.want {
			t.Errorf("%s before the expiry: got retry in %s, want %s", test.left, got, test.want)
		}
	}
}

// configOf returns a kubeconfig for a member with this token.
func configOf(server, text string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["b"] = &clientcmdapi.Cluster{Server: server, TLSServerName: "b.example", CertificateAuthorityData: []byte("authority")}
	config.AuthInfos["peer"] = &clientcmdapi.AuthInfo{Token: text}
	config.Contexts["b"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "peer"}
	config.CurrentContext = "b"
	return config
}

// secretOf returns the Secret of member b.
func secretOf(t *testing.T, config *clientcmdapi.Config) *corev1.Secret {
	t.Helper()
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-b"}, Type: clusterset.MemberSecretType,
		Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("b"), clusterset.MemberSecretKubeconfig: kubeconfig},
	}
}

func configIn(t *testing.T, secret *corev1.Secret) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestOnlyTheTokenChanges(t *testing.T) {
	config := configOf("https://b.example:6443", "old")
	config.AuthInfos["peer"].ClientCertificateData, config.AuthInfos["peer"].ClientKeyData = []byte("certificate"), []byte("key")
	config.AuthInfos["other"] = &clientcmdapi.AuthInfo{Token: "old"}
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "other", Namespace: "shop"}
	config.Extensions["note"] = &runtime.Unknown{Raw: []byte(`{"text":"of somebody"}`), ContentType: runtime.ContentTypeJSON}
	secret := secretOf(t, config)
	secret.ResourceVersion, secret.Labels = "7", map[string]string{"team": "platform"}
	secret.Annotations = map[string]string{clusterset.TTLAnnotation: "90s"}
	secret.Data[clusterset.MemberSecretRelayFor] = []byte("c")
	before := secret.DeepCopy()

	got, err := withToken(secret, "new")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, secret); diff != "" {
		t.Errorf("the cached object was changed: %s", diff)
	}
	wantConfig := configIn(t, before)
	wantConfig.AuthInfos["peer"].Token = "new"
	if diff := cmp.Diff(wantConfig, configIn(t, got)); diff != "" {
		t.Errorf("kubeconfig, want (-), got (+): %s", diff)
	}
	want := before.DeepCopy()
	want.Data[clusterset.MemberSecretKubeconfig] = got.Data[clusterset.MemberSecretKubeconfig]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

func TestTokenIsNotWrittenElsewhere(t *testing.T) {
	noContext, noUser := configOf("https://b", "old"), configOf("https://b", "old")
	noContext.CurrentContext = "other"
	delete(noUser.AuthInfos, "peer")
	garbage := secretOf(t, noUser)
	garbage.Data[clusterset.MemberSecretKubeconfig] = []byte("}{")
	for name, secret := range map[string]*corev1.Secret{"no context": secretOf(t, noContext), "no user": secretOf(t, noUser), "no kubeconfig": garbage} {
		if got, err := withToken(secret, "new"); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
