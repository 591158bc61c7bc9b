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
	// lifetime is that of the tokens asked for. The other cluster may give less.
	// It is also how long two clusters may be apart and still know each other.
	lifetime = 30 * 24 * time.Hour
	// provisional is how short-lived a token is that is only meant to be
	// exchanged, unless it was got by exchanging one.
	provisional = time.Hour

	requestTimeout = 10 * time.Second
	// renewPause is the least time between two requests for one member's token.
	renewPause    = 3 * time.Second
	shortestRetry = 5 * time.Second
	longestRetry  = time.Hour
)

// token is what a token of a service account says of itself. It is not
// verified: whoever gets it does that.
type token struct {
	namespace, account string
	issued, expires    time.Time
}

// errNotRenewable is for credentials that are not tokens of service accounts, or
// that do not expire: they are the business of whoever made them.
var errNotRenewable = errors.New("not a token of a service account that expires")

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

// due is when the token should be replaced: halfway, so that there is as much
// time again in which that may fail; and at once if it is provisional. Some
// clusters give none that live longer.
func (t token) due(renewed bool) time.Time {
	life := t.expires.Sub(t.issued)
	if life < provisional && !renewed {
		return t.issued
	}
	return t.issued.Add(life / 2)
}

// retryIn is how long to wait after a failure, the less the closer the end. After
// that it is most likely too late.
func (t token) retryIn(now time.Time) time.Duration {
	if !t.expires.After(now) {
		return longestRetry
	}
	return min(max(t.expires.Sub(now)/10, shortestRetry), longestRetry)
}

// withToken is the Secret with another token in its kubeconfig.
func withToken(secret *corev1.Secret, text string) (*corev1.Secret, error) {
	config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		return nil, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.AuthInfos[context.AuthInfo] == nil {
		return nil, fmt.Errorf("current-context %q: there is no such context, or it has no user", config.CurrentContext)
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
