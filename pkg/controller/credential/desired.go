// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// lifetime is the requested lifetime of tokens. The member may grant less. It is also
	// how long two clusters may be disconnected without having to join again.
	lifetime = 30 * 24 * time.Hour
	// provisional is the lifetime below which a token is exchanged at once, unless the
	// member issued it in exchange for another one.
	provisional = time.Hour

	requestTimeout = 10 * time.Second
	// requestPause is the minimum time between two requests to a member, and renewPause
	// that between two tokens that are stored: each is a write of the Secret.
	requestPause  = 3 * time.Second
	renewPause    = minValidity / 2
	shortestRetry = 5 * time.Second
	longestRetry  = time.Hour

	// minValidity and maxSize are what a token needs to be stored. The maximum that a
	// kube-apiserver can be configured to issue is an hour or more, and its tokens have
	// about 1 KiB.
	minValidity = 10 * time.Minute
	maxSize     = 16 << 10
)

// token are the claims of a service account token. They are not verified: the server
// that receives the token does that.
type token struct {
	namespace, account string
	issued, expires    time.Time
}

// errNotRenewable is returned for credentials that are not service account tokens, or do
// not expire. They are renewed by the person or program that created them, if at all.
var errNotRenewable = errors.New("not a service account token with an expiry")

func readToken(text string) (token, error) {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &claims); err != nil {
		return token{}, errNotRenewable
	}
	parts := strings.Split(claims.Subject, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" || claims.IssuedAt == nil || claims.ExpiresAt == nil {
		return token{}, errNotRenewable
	}
	return token{parts[2], parts[3], claims.IssuedAt.Time, claims.ExpiresAt.Time}, nil
}

// acceptable returns why a token that a member issued does not replace the current one. A
// member must not make this cluster store large Secrets, or write them all the time.
func acceptable(text string, now time.Time) error {
	if len(text) > maxSize {
		return fmt.Errorf("member issued a token of %d bytes, and %d are allowed: find out who controls the server in the kubeconfig", len(text), maxSize)
	}
	issued, err := readToken(text)
	if err != nil {
		return fmt.Errorf("member issued a credential that cannot be renewed: %w", err)
	}
	if issued.expires.Sub(now) < minValidity {
		return fmt.Errorf("member issued a token that expires at %s, in less than %s: compare the clocks of the clusters, and find out who controls the server in the kubeconfig",
			issued.expires.UTC().Format(time.RFC3339), minValidity)
	}
	return nil
}

// due returns when the token is renewed: after half its lifetime, or at once if it is
// provisional and was not issued in exchange for another one. Some clusters issue
// short-lived tokens only.
func (t token) due(renewed bool) time.Time {
	life := t.expires.Sub(t.issued)
	if life < provisional && !renewed {
		return t.issued
	}
	return t.issued.Add(life / 2)
}

// retryIn returns the delay after a failure, which is shorter the sooner the token
// expires. An expired token is hardly ever renewed, and retried rarely.
func (t token) retryIn(now time.Time) time.Duration {
	if !t.expires.After(now) {
		return longestRetry
	}
	return min(max(t.expires.Sub(now)/10, shortestRetry), longestRetry)
}

// withToken returns the Secret with another token in its kubeconfig.
func withToken(secret *corev1.Secret, text string) (*corev1.Secret, error) {
	config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return nil, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.AuthInfos[context.AuthInfo] == nil {
		return nil, fmt.Errorf("current-context %q does not exist or has no user", config.CurrentContext)
	}
	config.AuthInfos[context.AuthInfo].Token = text
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	renewed := secret.DeepCopy()
	renewed.Data[clusterset.MemberSecretKubeconfig] = kubeconfig
	return renewed, nil
}
