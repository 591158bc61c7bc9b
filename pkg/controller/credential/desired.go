// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	// lifetime is the requested lifetime of tokens. The member may grant less. It is also
	// how long two clusters may be disconnected without having to join again.
	lifetime = 30 * 24 * time.Hour

	requestTimeout = 10 * time.Second
	// requestPause is the minimum time between two requests to a member, and renewPause
	// that between two tokens that are stored: each is a write of the Secret.
	requestPause  = 3 * time.Second
	renewPause    = minValidity / 2
	shortestRetry = 5 * time.Second
	longestRetry  = time.Hour
	// exchangeRetry is the longest delay until the exchange of a declared token is retried:
	// the member may not have granted access yet.
	exchangeRetry = 5 * time.Minute

	// minValidity and maxSize are what a token needs to be stored. The maximum that a
	// kube-apiserver can be configured to issue is an hour or more, and its tokens have
	// about 1 KiB.
	minValidity = 10 * time.Minute
	maxSize     = 16 << 10
	// maxTokens is how many renewed tokens are kept for a member. If the member Secret declares
	// again what it declared before, as after a rollback, the bootstrap token has expired.
	maxTokens = 3
)

// token is a token that this cluster holds.
type token struct {
	peertoken.Token
	text string
}

// credential is what this cluster holds for a member.
type credential struct {
	// config leads to the member, and from identifies what the member Secret declares.
	config *rest.Config
	from   string
	// tokens are the renewed one, if there is one, and the declared one.
	tokens []token
	// expires is when the last of them does.
	expires time.Time
}

// held returns what this cluster holds for a member, from the member Secret and the renewed
// credential, which may be nil. It is false if there is nothing to renew: the Member shows what is
// wrong with a Secret, and other credentials are renewed by their creators.
func held(member, renewed *corev1.Secret) (credential, bool) {
	config, err := access.ClientConfig(member.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return credential{}, false
	}
	declared, err := peertoken.Parse(config.BearerToken)
	if err != nil {
		return credential{}, false
	}
	c := credential{config: config, from: secret.Credential(config)}
	for _, text := range secret.ParseRenewed(renewed).Tokens(c.from, config.BearerToken) {
		parsed, err := peertoken.Parse(text)
		if err != nil || !parsed.Is(declared) {
			continue
		}
		c.tokens = append(c.tokens, token{parsed, text})
		if parsed.Expires.After(c.expires) {
			c.expires = parsed.Expires
		}
	}
	return c, true
}

// renewed reports whether the member issued the first token in exchange for another one.
func (c credential) renewed() bool { return len(c.tokens) > 1 }

// acceptable returns why a token that a member issued does not replace one of the account. A
// member must not make this cluster store large Secrets, or write them all the time.
func acceptable(text string, account peertoken.Token, now time.Time) error {
	if len(text) > maxSize {
		return fmt.Errorf("member issued a token of %d bytes, and %d are allowed: find out who controls the server in the kubeconfig", len(text), maxSize)
	}
	issued, err := peertoken.Parse(text)
	if err != nil {
		return fmt.Errorf("member issued a credential that cannot be renewed: %w", err)
	}
	if !issued.Is(account) {
		return fmt.Errorf("member issued a token of service account %.300q instead of %q: find out who controls the server in the kubeconfig",
			issued.Namespace+"/"+issued.Account, account.Namespace+"/"+account.Account)
	}
	if issued.Expires.Sub(now) < minValidity {
		return fmt.Errorf("member issued a token that expires at %s, in less than %s: compare the clocks of the clusters, and find out who controls the server in the kubeconfig",
			issued.Expires.UTC().Format(time.RFC3339), minValidity)
	}
	if life := lifeOf(issued); halfLife(issued).Sub(now) > life*3/4 {
		return fmt.Errorf("member issued a token that is valid from %s, which could expire before it is renewed: compare the clocks of the clusters, and find out who controls the server in the kubeconfig",
			issued.Issued.UTC().Format(time.RFC3339))
	}
	return nil
}

// lifeOf returns the lifetime of a token. More than was requested is not believed.
func lifeOf(token peertoken.Token) time.Duration {
	return min(token.Expires.Sub(token.Issued), lifetime)
}

// halfLife returns when half the lifetime of a token has passed.
func halfLife(token peertoken.Token) time.Time { return token.Issued.Add(lifeOf(token) / 2) }

// due returns when the credential is renewed. What is declared is exchanged at once: nobody
// else renews it, and it may be in files. What the member issued is renewed after half its
// lifetime.
func (c credential) due() time.Time {
	if !c.renewed() {
		return time.Time{}
	}
	return halfLife(c.tokens[0].Token)
}

// retryIn returns the delay after a failure, which is shorter the sooner the credential
// expires. An expired one is hardly ever renewed, and retried rarely.
func (c credential) retryIn(now time.Time) time.Duration {
	longest := longestRetry
	if !c.renewed() {
		longest = exchangeRetry
	}
	if !c.expires.After(now) {
		return longestRetry
	}
	return min(max(c.expires.Sub(now)/10, shortestRetry), longest)
}

// note returns the text of the Event about a credential that could not be renewed. The error may
// be text of the member.
func (c credential) note(now time.Time, failure error) string {
	at, err := c.expires.UTC().Format(time.RFC3339), truncate.Message(failure.Error(), truncate.MaxEventNote)
	if !c.expires.After(now) {
		return truncate.Bytes(fmt.Sprintf("Peer credential expired at %s; replace the token in the Secret, or in the file that declares it, for example with kubectl mcs join: %s", at, err), truncate.MaxEventNote)
	}
	return truncate.Bytes(fmt.Sprintf("Peer credential expires at %s and could not be renewed; if this continues, replace the token in the Secret before, or in the file that declares it, for example with kubectl mcs join: %s", at, err), truncate.MaxEventNote)
}

// validName returns why a Secret with a renewed credential cannot have a name.
func validName(name string) error {
	if excess := len(name) - validation.DNS1123SubdomainMaxLength; excess > 0 {
		return fmt.Errorf("name of Secret %q is too long: give the member Secret a name that is shorter by %d characters", name, excess)
	}
	return nil
}

// withToken returns the Secret with a renewed credential of a member. existing is the one
// that it replaces, or nil. It is deleted with the member Secret. Nothing may keep it, and
// mcs-controller may not write a Secret with finalizers.
func withToken(member, existing *corev1.Secret, from, text string, now time.Time) *corev1.Secret {
	renewed := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: member.Namespace, Name: clusterset.RenewedSecretName(member.Name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: member.Name, UID: member.UID}},
		},
		Type: clusterset.RenewedSecretType,
		Data: map[string][]byte{},
	}
	tokens := secret.ParseRenewed(existing)
	delete(tokens, from)
	for _, other := range latest(tokens, maxTokens-1, now) {
		renewed.Data[other] = []byte(tokens[other])
	}
	renewed.Data[from] = []byte(text)
	if existing != nil {
		renewed.UID, renewed.ResourceVersion = existing.UID, existing.ResourceVersion
		renewed.Labels, renewed.Annotations = existing.Labels, existing.Annotations
	}
	return renewed
}

// latest returns what the tokens that were issued last were renewed from, without those that
// have expired. A member Secret may declare again what it declared before.
func latest(tokens secret.Renewed, number int, now time.Time) []string {
	issued := map[string]time.Time{}
	for from, text := range tokens {
		if token, err := peertoken.Parse(text); err == nil && token.Expires.After(now) {
			issued[from] = token.Issued
		}
	}
	sorted := slices.SortedFunc(maps.Keys(issued), func(a, b string) int { return cmp.Or(issued[b].Compare(issued[a]), cmp.Compare(a, b)) })
	return sorted[:min(number, len(sorted))]
}

// abandoned reports whether a renewed credential is about to be deleted because the member
// Secret that it belonged to was deleted and created again.
func abandoned(member, renewed *corev1.Secret) bool {
	return renewed != nil && !slices.ContainsFunc(renewed.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == member.UID })
}
