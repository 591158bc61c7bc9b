// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

var (
	jwtOf    = membertest.JWT
	claimsOf = membertest.TokenClaims
	tokenOf  = membertest.Token
)

// R290, R387, R413: only a token that can be renewed, is of the same account, is valid for some
// time, by the clock of this cluster, and is not large may replace the current one.
func TestUnacceptableTokensAreRefused(t *testing.T) {
	sized := func(padding int) string {
		claims := claimsOf(epoch, epoch.Add(30*day))
		claims["padding"] = strings.Repeat("x", padding)
		return jwtOf(t, "RS256", claims)
	}
	of := func(account string) string {
		claims := claimsOf(epoch, epoch.Add(30*day))
		claims["sub"] = "system:serviceaccount:" + account
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
		{"of a clock that is ahead", tokenOf(t, epoch.Add(7*day), 30*day), ""},
		{"of a clock that is far ahead", tokenOf(t, epoch.Add(8*day), 30*day), "valid from 2026-01-09T00:00:00Z, which could expire before it is renewed: compare the clocks of the clusters"},
		{"short-lived, of a clock that is ahead", tokenOf(t, epoch.Add(15*time.Minute), time.Hour), ""},
		{"short-lived, of a clock that is far ahead", tokenOf(t, epoch.Add(16*time.Minute), time.Hour), "which could expire before it is renewed"},
		{"valid for ever", tokenOf(t, epoch, 290*365*day), ""},
		{"with a line break", tokenOf(t, epoch, 30*day) + "\r\n", "cannot be renewed: not a service account token with an expiry"},
		{"of another account", of("mcs-system:peer-b"), `of service account "mcs-system/peer-b" instead of "mcs-system/peer-a": find out who controls the server`},
		{"of another namespace", of("default:peer-a"), `of service account "default/peer-a" instead of "mcs-system/peer-a"`},
		{"without expiry", "secret", "cannot be renewed: not a service account token with an expiry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := acceptable(test.text, peertoken.Token{Namespace: "mcs-system", Account: "peer-a"}, epoch)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// R410, R413: a declared token is exchanged at once, however long it is valid, and what the member
// issued is renewed after half its lifetime, or half of what was requested.
func TestDeclaredTokenIsDueAtOnceAndARenewedOneAfterHalfItsLifetime(t *testing.T) {
	for _, test := range []struct{ life, renewed time.Duration }{
		{30 * day, 15 * day},
		{31 * day, 15 * day}, // nobody requested that
		{8000 * 365 / 100 * day, 15 * day},
		{day, day / 2},
		{time.Hour, time.Hour / 2},
		{30 * time.Minute, 15 * time.Minute},
		{0, 0},
	} {
		held := credential{tokens: []token{{Token: peertoken.Token{Issued: epoch, Expires: epoch.Add(test.life)}}}}
		if got := held.due(); got.After(epoch.Add(-365 * day)) { // also if the clock of the member is ahead
			t.Errorf("declared token with lifetime %s is due at %s, want at once", test.life, got)
		}
		held.tokens = append(held.tokens, token{})
		if got := held.due().Sub(epoch); got != test.renewed {
			t.Errorf("renewed token with lifetime %s is due after %s, want %s", test.life, got, test.renewed)
		}
	}
}

// R270: the text of a member is shown without characters that change what a terminal shows.
func TestNoteIsPrintable(t *testing.T) {
	failure := errors.New("forbidden: \x1b]0;title\x07\nWarning: \u202efake" + strings.Repeat(" text", 1000))
	for _, expires := range []time.Time{epoch.Add(-time.Hour), epoch.Add(time.Hour)} {
		note := credential{expires: expires}.note(epoch, failure)
		if strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.Contains(note, "forbidden: ") || len(note) > truncate.MaxEventNote {
			t.Errorf("got %q", note)
		}
	}
}

// R410: the member may grant access, or become reachable, after the token was declared.
func TestRetriesAreMoreFrequentNearTheExpiryAndBeforeTheFirstExchange(t *testing.T) {
	for _, test := range []struct{ left, declared, renewed time.Duration }{
		{15 * day, 5 * time.Minute, time.Hour},
		{10 * time.Hour, 5 * time.Minute, time.Hour},
		{5 * time.Hour, 5 * time.Minute, 30 * time.Minute},
		{10 * time.Minute, time.Minute, time.Minute},
		{50 * time.Second, 5 * time.Second, 5 * time.Second},
		{time.Second, 5 * time.Second, 5 * time.Second},
		{0, time.Hour, time.Hour},
		{-day, time.Hour, time.Hour},
	} {
		for count, want := range map[int]time.Duration{1: test.declared, 2: test.renewed} {
			if got := (credential{expires: epoch.Add(test.left), tokens: make([]token, count)}).retryIn(epoch); got != want {
				t.Errorf("%s before the expiry, %d tokens: got retry in %s, want %s", test.left, count, got, want)
			}
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

// heldIn returns what is held with a member Secret.
func heldIn(t *testing.T, member, renewed *corev1.Secret) credential {
	t.Helper()
	c, ok := held(member, renewed)
	if !ok {
		t.Fatal("nothing to renew")
	}
	return c
}

// R386: a renewed token is used only with what it was renewed from.
func TestRenewedTokenBelongsToWhatTheMemberSecretDeclares(t *testing.T) {
	bootstrap, renewed := tokenOf(t, epoch, 30*time.Minute), tokenOf(t, epoch.Add(time.Minute), 30*day)
	declare := func(changes ...func(*clientcmdapi.Config)) *corev1.Secret {
		config := configOf("https://b.example", bootstrap)
		for _, change := range changes {
			change(config)
		}
		return secretOf(t, config)
	}
	from := heldIn(t, declare(), nil).from
	for _, test := range []struct {
		name    string
		change  func(*clientcmdapi.Config)
		belongs bool
	}{
		{"the same", func(*clientcmdapi.Config) {}, true},
		{"another context", func(c *clientcmdapi.Config) { c.Contexts["x"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "peer"} }, true},
		{"another name", func(c *clientcmdapi.Config) {
			c.AuthInfos["x"], c.Contexts["b"].AuthInfo = c.AuthInfos["peer"], "x"
		}, true},
		{"another token", func(c *clientcmdapi.Config) { c.AuthInfos["peer"].Token = tokenOf(t, epoch, time.Hour) }, false},
		{"another server", func(c *clientcmdapi.Config) { c.Clusters["b"].Server = "https://c.example" }, false},
		{"another server name", func(c *clientcmdapi.Config) { c.Clusters["b"].TLSServerName = "c.example" }, false},
		{"another authority", func(c *clientcmdapi.Config) { c.Clusters["b"].CertificateAuthorityData = []byte("other") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			member := declare(test.change)
			got := heldIn(t, member, withToken(member, nil, from, renewed, epoch))
			if got.renewed() != test.belongs || (got.tokens[0].text == renewed) != test.belongs {
				t.Errorf("got %+v, want the renewed token: %t", got, test.belongs)
			}
		})
	}
	foreign := claimsOf(epoch, epoch.Add(30*day))
	foreign["sub"] = "system:serviceaccount:mcs-system:peer-b"
	other := withToken(declare(), nil, from, renewed, epoch)
	other.Type = corev1.SecretTypeOpaque
	for name, ignored := range map[string]*corev1.Secret{
		"none": nil, "another type": other, "a password": withToken(declare(), nil, from, "secret", epoch), "nothing": withToken(declare(), nil, from, "", epoch),
		"a token of another account": withToken(declare(), nil, from, jwtOf(t, "RS256", foreign), epoch), "a line break": withToken(declare(), nil, from, renewed+"\n", epoch),
	} {
		if got := heldIn(t, declare(), ignored); got.renewed() {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestRenewedSecretHasTheTokenOnly(t *testing.T) {
	member := secretOf(t, configOf("https://b.example", "old"))
	member.UID = "uid"
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "mcs-system", Name: "member-b.renewed", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "member-b", UID: "uid"}},
		},
		Type: clusterset.RenewedSecretType, Data: map[string][]byte{"digest": []byte("new")},
	}
	if diff := cmp.Diff(want, withToken(member, nil, "digest", "new", epoch)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	existing := want.DeepCopy()
	existing.UID, existing.ResourceVersion, existing.Labels, existing.Annotations = "renewed", "7", map[string]string{"team": "platform"}, map[string]string{"a": "b"}
	existing.Finalizers = []string{"example.com/keep"}
	existing.Data["other"], existing.OwnerReferences[0].UID = []byte("x"), "gone"
	if !abandoned(member, existing) || abandoned(member, want) || abandoned(member, nil) {
		t.Error("only a renewed credential of another member Secret is abandoned")
	}
	want.UID, want.ResourceVersion, want.Labels, want.Annotations = existing.UID, existing.ResourceVersion, existing.Labels, existing.Annotations
	if diff := cmp.Diff(want, withToken(member, existing, "digest", "new", epoch)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// R414: what was renewed from other declarations is kept as long as it may be of use.
func TestLatestRenewedTokensAreKept(t *testing.T) {
	member := secretOf(t, configOf("https://b.example", "old"))
	existing := withToken(member, nil, "current", tokenOf(t, epoch, 30*day), epoch)
	for from, text := range map[string]string{
		"first": tokenOf(t, epoch.Add(time.Hour), 30*day), "second": tokenOf(t, epoch.Add(2*time.Hour), 30*day), "third": tokenOf(t, epoch.Add(3*time.Hour), 30*day),
		"expired": tokenOf(t, epoch.Add(4*time.Hour), time.Hour), "token": "of an unknown kind",
	} {
		existing.Data[from] = []byte(text)
	}
	for _, test := range []struct {
		from string
		at   time.Duration
		want []string
	}{
		{"current", day, []string{"current", "second", "third"}},
		{"first", day, []string{"first", "second", "third"}},
		{"new", day, []string{"new", "second", "third"}},
		{"new", 30*day + 2*time.Hour, []string{"new", "third"}},
		{"new", 31 * day, []string{"new"}},
	} {
		got := withToken(member, existing, test.from, "new", epoch.Add(test.at)).Data
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, test.want) {
			t.Errorf("renewed %s after %s: got %q, want %q", test.from, test.at, keys, test.want)
		}
		for from, text := range got {
			if want := map[bool]string{true: "new", false: string(existing.Data[from])}[from == test.from]; string(text) != want {
				t.Errorf("renewed %s: got %s for %s", test.from, text, from)
			}
		}
	}
}
