// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

const (
	// SecretType is that of the Secrets that make clusters members.
	SecretType corev1.SecretType = "clusterset.mcs-apiserver.io/member"
	// SecretClusterID is the key of the member's cluster id.
	SecretClusterID = "cluster-id"
	// SecretKubeconfig is the key of the kubeconfig that leads to the member.
	SecretKubeconfig = "kubeconfig"
	// SecretRelayFor is the key of the ids that a hub may speak for besides its
	// own, separated by commas; * stands for all.
	SecretRelayFor = "relay-for"
	// SecretAllowedCIDRs is the key of the networks that the member's Pods may be
	// in, separated by commas. Without it they may be anywhere.
	SecretAllowedCIDRs = "allowed-cidrs"
	// TTLAnnotation on the Secret overrides how long a member may be silent.
	TTLAnnotation = "clusterset.mcs-apiserver.io/ttl"
	// LostPolicyAnnotation on the Secret overrides what happens to the member's
	// endpoints when it is lost.
	LostPolicyAnnotation = "clusterset.mcs-apiserver.io/lost-policy"
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
	config  *rest.Config
	// ttl is zero unless the Secret has its own.
	ttl time.Duration
	// lostPolicy is empty unless the Secret has its own.
	lostPolicy clusterset.LostPolicy
	// digest changes with everything that a connection depends on.
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
	s := &spec{secret: secret.Name, uid: secret.UID, created: secret.CreationTimestamp, digest: digest(secret)}
	var errs []error
	data := field.NewPath("data")
	id := strings.TrimSpace(string(secret.Data[SecretClusterID]))
	if invalid := validation.ValidateClusterID(id, data.Key(SecretClusterID)); len(invalid) > 0 {
		errs = append(errs, invalid.ToAggregate())
	} else {
		s.id = id
	}
	for _, text := range listed(secret.Data[SecretAllowedCIDRs]) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", data.Key(SecretAllowedCIDRs), err))
			continue
		}
		s.allowed = append(s.allowed, prefix)
	}
	for _, relayed := range listed(secret.Data[SecretRelayFor]) {
		if relayed == "*" {
			s.relay.all = true
			continue
		}
		if invalid := validation.ValidateClusterID(relayed, data.Key(SecretRelayFor)); len(invalid) > 0 {
			errs = append(errs, invalid.ToAggregate())
			continue
		}
		if s.relay.ids == nil {
			s.relay.ids = sets.New[string]()
		}
		s.relay.ids.Insert(relayed)
	}
	if text, given := secret.Annotations[TTLAnnotation]; given {
		ttl, err := time.ParseDuration(text)
		if err != nil || ttl < MinTTL {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be a duration of at least %s", TTLAnnotation, text, MinTTL))
		}
		s.ttl = ttl
	}
	if text, given := secret.Annotations[LostPolicyAnnotation]; given {
		if s.lostPolicy = clusterset.LostPolicy(text); s.lostPolicy != clusterset.LostPolicyKeep && s.lostPolicy != clusterset.LostPolicyWithdraw {
			errs = append(errs, fmt.Errorf("annotation %s: %q must be %s or %s", LostPolicyAnnotation, text, clusterset.LostPolicyWithdraw, clusterset.LostPolicyKeep))
		}
	}
	config, err := clientConfig(secret.Data[SecretKubeconfig])
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", data.Key(SecretKubeconfig), err))
	}
	s.config, s.problem = config, errors.Join(errs...)
	return s
}

// listed are the parts of a value that lists several.
func listed(value []byte) []string {
	return strings.FieldsFunc(string(value), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

func digest(secret *corev1.Secret) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		fmt.Fprintf(hash, "%q=%q\n", key, secret.Data[key])
	}
	for _, annotation := range []string{TTLAnnotation, LostPolicyAnnotation} {
		fmt.Fprintf(hash, "%q", secret.Annotations[annotation])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// clientConfig reads a kubeconfig that somebody else may have written. It must
// not make this process run programs, read files or trust anybody.
func clientConfig(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("required: the kubeconfig that leads to the member")
	}
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("not a kubeconfig: %w", err)
	}
	context, ok := loaded.Contexts[loaded.CurrentContext]
	if !ok || context == nil {
		return nil, fmt.Errorf("current-context %q: there is no such context", loaded.CurrentContext)
	}
	cluster, auth := loaded.Clusters[context.Cluster], loaded.AuthInfos[context.AuthInfo]
	if cluster == nil || auth == nil {
		return nil, fmt.Errorf("context %q: its cluster %q or its user %q is missing", loaded.CurrentContext, context.Cluster, context.AuthInfo)
	}
	if err := errors.Join(vetCluster(cluster), vetUser(auth)); err != nil {
		return nil, err
	}
	// Only what was looked at, whatever else the kubeconfig holds.
	only := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{context.Cluster: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{context.AuthInfo: auth},
		Contexts:       map[string]*clientcmdapi.Context{loaded.CurrentContext: context},
		CurrentContext: loaded.CurrentContext,
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(only, only.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func vetCluster(cluster *clientcmdapi.Cluster) error {
	var errs []error
	if server, err := url.Parse(cluster.Server); err != nil || server.Scheme != "https" {
		errs = append(errs, fmt.Errorf("cluster: server %q must be an https URL", cluster.Server))
	}
	if cluster.CertificateAuthority != "" {
		errs = append(errs, fileReference("cluster: certificate-authority", "certificate-authority-data"))
	}
	if cluster.InsecureSkipTLSVerify {
		errs = append(errs, errors.New("cluster: insecure-skip-tls-verify is refused, because anybody could pose as the member: give certificate-authority-data"))
	}
	return errors.Join(errs...)
}

func vetUser(auth *clientcmdapi.AuthInfo) error {
	var errs []error
	for name, reference := range map[string]struct{ file, instead string }{
		"client-certificate": {auth.ClientCertificate, "client-certificate-data"},
		"client-key":         {auth.ClientKey, "client-key-data"},
		"tokenFile":          {auth.TokenFile, "token"},
	} {
		if reference.file != "" {
			errs = append(errs, fileReference("user: "+name, reference.instead))
		}
	}
	if auth.Exec != nil {
		errs = append(errs, errors.New("user: exec is refused, because it would run a program in the API server: give a token or a client certificate"))
	}
	if auth.AuthProvider != nil {
		errs = append(errs, errors.New("user: auth-provider is refused, because it would run a plugin in the API server: give a token or a client certificate"))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func fileReference(name, instead string) error {
	return fmt.Errorf("%s is refused, because it would read a file of the API server: give %s", name, instead)
}
