// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secret parses the Secrets that make clusters members.
package secret

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// minMemoryLimit is the lowest memory limit: a value without a unit would be a
// mistake, and prevent any import.
const minMemoryLimit = 1 << 20

// Spec is the content of a member Secret.
type Spec struct {
	Name    string
	UID     types.UID
	Created metav1.Time
	// ClusterID is empty unless the Secret has a valid one.
	ClusterID string
	// Relay are the other clusters that the member may relay.
	Relay route.Scope
	// AllowedCIDRs are the networks that endpoints may be in; empty for all.
	AllowedCIDRs []netip.Prefix
	// AllowedNamespaces are those that the member may export into; nil for the default.
	AllowedNamespaces sets.Set[string]
	// Limits are what the exports of the member may take.
	Limits exports.Usage
	// JoinedAt is when the member joined the ClusterSet; zero if the Secret does not
	// say.
	JoinedAt time.Time
	// AllocationCIDRs are what the member may allocate shared ClusterSet IPs from; nil if
	// the Secret does not say, and empty for nothing.
	AllocationCIDRs []netip.Prefix
	// Config leads to the member. It lacks the token, which may be renewed at any time.
	Config *rest.Config
	Token  string
	// Credential identifies the server and the credential that the Secret declares.
	Credential string
	// TTL is zero unless the Secret overrides it.
	TTL time.Duration
	// LostPolicy is empty unless the Secret overrides it.
	LostPolicy clusterset.LostPolicy
	// Expelled is whether the member is expelled.
	Expelled bool
	// Digest changes with everything that a feed depends on, except the token.
	Digest string
	// Problem is set if the Secret is invalid.
	Problem error
}

// EntryName returns the name of the member's entry. Cluster IDs have no dots,
// so the entry of a Secret without an ID cannot be mistaken for that of a cluster.
func (s *Spec) EntryName() string {
	if s.ClusterID == "" {
		return s.FallbackName()
	}
	return s.ClusterID
}

// FallbackName returns the name of the entry if the cluster ID is missing or in
// use by another entry.
func (s *Spec) FallbackName() string { return "secret." + s.Name }

// Broken returns what counts of a Secret that became invalid: what it said before, except
// whether it expels the member.
func (s *Spec) Broken(invalid *Spec) *Spec {
	broken := *s
	broken.Problem, broken.Digest, broken.Expelled = invalid.Problem, invalid.Digest, invalid.Expelled
	return &broken
}

// Parse reads a member Secret. It never fails: what is wrong with the Secret is
// part of the result.
func Parse(secret *corev1.Secret) *Spec {
	s := &Spec{Name: secret.Name, UID: secret.UID, Created: secret.CreationTimestamp}
	data := field.NewPath("data")
	var errs []error
	id := strings.TrimSpace(string(secret.Data[clusterset.MemberSecretClusterID]))
	if invalid := validation.ValidateClusterID(id, data.Key(clusterset.MemberSecretClusterID)); len(invalid) > 0 {
		errs = append(errs, invalid.ToAggregate())
	} else {
		s.ClusterID = id
	}
	errs = append(errs, s.parseCIDRs(secret.Data[clusterset.MemberSecretAllowedCIDRs], data)...)
	errs = append(errs, s.parseNamespaces(secret.Data[clusterset.MemberSecretAllowedNamespaces], data)...)
	s.Limits = exports.DefaultLimits()
	errs = append(errs, s.parseMemoryLimit(secret.Data[clusterset.MemberSecretMemoryLimit], data)...)
	errs = append(errs, parseCount(secret, clusterset.MemberSecretServiceLimit, data, &s.Limits.Services)...)
	errs = append(errs, parseCount(secret, clusterset.MemberSecretEndpointLimit, data, &s.Limits.Endpoints)...)
	errs = append(errs, s.parseJoinedAt(secret.Data[clusterset.MemberSecretJoinedAt], data)...)
	errs = append(errs, s.parseAllocationCIDRs(secret.Data[clusterset.MemberSecretAllocationCIDRs], data)...)
	errs = append(errs, s.parseRelay(secret.Data[clusterset.MemberSecretRelayFor], data)...)
	errs = append(errs, s.parseAnnotations(secret.Annotations)...)
	config, err := access.ClientConfig(secret.Data[clusterset.MemberSecretKubeconfig])
	if err == nil {
		_, err = rest.TransportFor(config) // finds invalid certificates and keys
	}
	if err != nil {
		errs, config = append(errs, fmt.Errorf("%s: %w", data.Key(clusterset.MemberSecretKubeconfig), err)), nil
	}
	if config != nil {
		s.Credential = Credential(config)
		s.Token, config.BearerToken = config.BearerToken, ""
	}
	s.Config, s.Problem, s.Digest = config, inOneLine(errs), digest(secret, s.Token)
	return s
}

// inOneLine returns an error with all messages, or nil.
func inOneLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errors.New(strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; "))
}

func (s *Spec) parseCIDRs(value []byte, data *field.Path) (errs []error) {
	for _, text := range clusterset.SplitList(string(value)) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q must be a CIDR, such as 10.101.0.0/16", data.Key(clusterset.MemberSecretAllowedCIDRs), text))
			continue
		}
		s.AllowedCIDRs = append(s.AllowedCIDRs, prefix)
	}
	return errs
}

func (s *Spec) parseNamespaces(value []byte, data *field.Path) (errs []error) {
	for _, name := range clusterset.SplitList(string(value)) {
		for _, problem := range apivalidation.ValidateNamespaceName(name, false) {
			errs = append(errs, field.Invalid(data.Key(clusterset.MemberSecretAllowedNamespaces), name, problem))
		}
		if s.AllowedNamespaces == nil {
			s.AllowedNamespaces = sets.New[string]()
		}
		s.AllowedNamespaces.Insert(name)
	}
	return errs
}

func (s *Spec) parseMemoryLimit(value []byte, data *field.Path) []error {
	text := strings.TrimSpace(string(value))
	if text == "" {
		return nil
	}
	limit, err := resource.ParseQuantity(text)
	if err != nil || limit.Value() < minMemoryLimit {
		return []error{fmt.Errorf("%s: %q must be a quantity of at least %s, such as 128Mi",
			data.Key(clusterset.MemberSecretMemoryLimit), text, resource.NewQuantity(minMemoryLimit, resource.BinarySI))}
	}
	s.Limits.Bytes = limit.Value()
	return nil
}

// parseCount reads a limit that is a number, if the Secret has it.
func parseCount(secret *corev1.Secret, key string, data *field.Path, limit *int64) []error {
	text := strings.TrimSpace(string(secret.Data[key]))
	if text == "" {
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		return []error{fmt.Errorf("%s: %q must be a number, 0 or more", data.Key(key), text)}
	}
	*limit = value
	return nil
}

func (s *Spec) parseJoinedAt(value []byte, data *field.Path) []error {
	text := strings.TrimSpace(string(value))
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return []error{fmt.Errorf("%s: %q must be a time of the form 2006-01-02T15:04:05Z", data.Key(clusterset.MemberSecretJoinedAt), text)}
	}
	s.JoinedAt = at.UTC()
	return nil
}

func (s *Spec) parseAllocationCIDRs(value []byte, data *field.Path) []error {
	texts := clusterset.SplitList(string(value))
	if len(texts) == 0 {
		return nil
	}
	if slices.Equal(texts, []string{clusterset.MemberSecretNoAllocationCIDRs}) {
		texts = nil
	}
	cidrs, err := clustersetip.ParseCIDRs(texts)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", data.Key(clusterset.MemberSecretAllocationCIDRs), err)}
	}
	s.AllocationCIDRs = cidrs
	return nil
}

func (s *Spec) parseRelay(value []byte, data *field.Path) (errs []error) {
	for _, id := range clusterset.SplitList(string(value)) {
		if id == "*" {
			s.Relay.All = true
			continue
		}
		if invalid := validation.ValidateClusterID(id, data.Key(clusterset.MemberSecretRelayFor)); len(invalid) > 0 {
			errs = append(errs, invalid.ToAggregate())
			continue
		}
		if s.Relay.IDs == nil {
			s.Relay.IDs = sets.New[string]()
		}
		s.Relay.IDs.Insert(id)
	}
	return errs
}

func (s *Spec) parseAnnotations(annotations map[string]string) (errs []error) {
	if text, ok := annotations[clusterset.ExpelledAnnotation]; ok {
		if s.Expelled = text == "true"; !s.Expelled && text != "false" {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be true or false", clusterset.ExpelledAnnotation, text))
		}
	}
	if text, ok := annotations[clusterset.TTLAnnotation]; ok {
		ttl, err := time.ParseDuration(text)
		if err != nil || ttl < liveness.MinTTL {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be a duration of at least %s", clusterset.TTLAnnotation, text, liveness.MinTTL))
		} else {
			s.TTL = ttl
		}
	}
	if text, ok := annotations[clusterset.LostPolicyAnnotation]; ok {
		policy := clusterset.LostPolicy(text)
		if err := validation.ValidateLostPolicy(policy); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w", clusterset.LostPolicyAnnotation, err))
		} else {
			s.LostPolicy = policy
		}
	}
	return errs
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
	for _, annotation := range []string{clusterset.TTLAnnotation, clusterset.LostPolicyAnnotation, clusterset.ExpelledAnnotation} {
		fmt.Fprintf(hash, "%q", secret.Annotations[annotation])
	}
	return hex.EncodeToString(hash.Sum(nil))
}
