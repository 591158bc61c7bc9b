// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peertoken reads the tokens with which clusters read from each other.
package peertoken

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/types"
)

// Token are the claims of a service account token. They are not verified: the server
// that receives the token does that.
type Token struct {
	Namespace, Account string
	// AccountUID is the UID of the service account: tokens end with it, also if there is another
	// one of the same name. It is empty if the token does not say.
	AccountUID      types.UID
	Issued, Expires time.Time
}

// claims are those that Parse reads.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes struct {
		ServiceAccount struct {
			UID types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// ErrOther is returned for credentials that are not service account tokens, or do not
// expire. They are renewed by the person or program that created them, if at all.
var ErrOther = errors.New("not a service account token with an expiry")

// compact is the form of a token. The decoder of Base64 also accepts line breaks, which no
// request can contain.
var compact = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+$`)

// Parse reads a token.
func Parse(text string) (Token, error) {
	var claims claims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &claims); err != nil || !compact.MatchString(text) {
		return Token{}, ErrOther
	}
	parts := strings.Split(claims.Subject, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" || claims.IssuedAt == nil || claims.ExpiresAt == nil {
		return Token{}, ErrOther
	}
	return Token{parts[2], parts[3], claims.Kubernetes.ServiceAccount.UID, claims.IssuedAt.Time, claims.ExpiresAt.Time}, nil
}

// Is reports whether a token is of the same service account.
func (t Token) Is(other Token) bool {
	return t.Namespace == other.Namespace && t.Account == other.Account
}

// Expired returns when the last of some tokens expired, and false if one of them has not, or
// may not have.
func Expired(texts []string, now time.Time) (time.Time, bool) {
	last, known := Last(texts)
	if !known || last.Expires.After(now) {
		return time.Time{}, false
	}
	return last.Expires, true
}

// Last returns the token that expires last, and false if that is unknown of one of them.
func Last(texts []string) (Token, bool) {
	var last Token
	for _, text := range texts {
		token, err := Parse(text)
		if err != nil {
			return Token{}, false
		}
		if token.Expires.After(last.Expires) {
			last = token
		}
	}
	return last, len(texts) > 0
}
