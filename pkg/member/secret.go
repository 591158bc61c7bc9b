// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
)

// spec is what a Secret says.
type spec struct {
	secret  string
	uid     types.UID
	created metav1.Time
	// id is empty when the Secret does not give a usable one.
	id    string
	relay relayScope
	// allowed are the networks that endpoints may be in; empty for all.
	allowed []netip.Prefix
	// config is without the token, which may be replaced at any time.
	config *rest.Config
	token  string
	// ttl is zero unless the Secret has its own.
	ttl time.Duration
	// lostPolicy is empty unless the Secret has its own.
	lostPolicy clusterset.LostPolicy
	// digest changes with everything that a connection depends on, but for the
	// token.
	digest string
	// problem is why the Secret cannot be used.
	problem error
}

// entryName is the name of the member's entry. Ids have no dots, so that the
// entry of a Secret without an id cannot be taken for a cluster's.
func (s *spec) entryName() string {
	if s.id == "" {
		return "secret." + s.secret
	}
	return s.id
}

// relayScope is for whom else a member may speak.
type relayScope struct {
	all bool
	ids sets.Set[string]
}

func (r relayScope) any() bool             { return r.all || len(r.ids) > 0 }
func (r relayScope) allows(id string) bool { return r.all || r.ids.Has(id) }

// parseSecret never fails: what is wrong is part of the result, to be shown.
func parseSecret(secret *corev1.Secret) *spec {
	s := &spec{secret: secret.Name, uid: secret.UID, created: secret.CreationTimestamp}
	var errs []error
	data := field.NewPath("data")
	id := strings.TrimSpace(string(secret.Data[clusterset.MemberSecretClusterID]))
	if invalid := validation.ValidateClusterID(id, data.Key(clusterset.MemberSecretClusterID)); len(invalid) > 0 {
		errs = append(errs, invalid.ToAggregate())
	} else {
		s.id = id
	}
	for _, text := range listed(secret.Data[clusterset.MemberSecretAllowedCIDRs]) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", data.Key(clusterset.MemberSecretAllowedCIDRs), err))
			continue
		}
		s.allowed = append(s.allowed, prefix)
	}
	for _, relayed := range listed(secret.Data[clusterset.MemberSecretRelayFor]) {
		if relayed == "*" {
			s.relay.all = true
			continue
		}
		if invalid := validation.ValidateClusterID(relayed, data.Key(clusterset.MemberSecretRelayFor)); len(invalid) > 0 {
			errs = append(errs, invalid.ToAggregate())
			continue
		}
		if s.relay.ids == nil {
			s.relay.ids = sets.New[string]()
		}
		s.relay.ids.Insert(relayed)
	}
	if text, given := secret.Annotations[clusterset.TTLAnnotation]; given {
		ttl, err := time.ParseDuration(text)
		if err != nil || ttl < MinTTL {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be a duration of at least %s", clusterset.TTLAnnotation, text, MinTTL))
		}
		s.ttl = ttl
	}
	if text, given := secret.Annotations[clusterset.LostPolicyAnnotation]; given {
		if s.lostPolicy = clusterset.LostPolicy(text); s.lostPolicy != clusterset.LostPolicyKeep && s.lostPolicy != clusterset.LostPolicyWithdraw {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be %s or %s", clusterset.LostPolicyAnnotation, text, clusterset.LostPolicyWithdraw, clusterset.LostPolicyKeep))
		}
	}
	config, err := access.ClientConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", data.Key(clusterset.MemberSecretKubeconfig), err))
	}
	if config != nil {
		s.token, config.BearerToken = config.BearerToken, ""
	}
	s.config, s.problem, s.digest = config, errors.Join(errs...), digest(secret, s.token)
	return s
}

// listed are the parts of a value that lists several.
func listed(value []byte) []string {
	return strings.FieldsFunc(string(value), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

func digest(secret *corev1.Secret, token string) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		value := secret.Data[key]
		if token != "" {
			value = bytes.ReplaceAll(value, []byte(token), nil)
		}
		fmt.Fprintf(hash, "%q=%q\n", key, value)
	}
	for _, annotation := range []string{clusterset.TTLAnnotation, clusterset.LostPolicyAnnotation} {
		fmt.Fprintf(hash, "%q", secret.Annotations[annotation])
	}
	return hex.EncodeToString(hash.Sum(nil))
}
