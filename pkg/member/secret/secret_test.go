// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

func annotated(value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations = map[string]string{clusterset.TTLAnnotation: value} }
}

var goodKubeconfig = membertest.ValidKubeconfig()

func TestUnsafeKubeconfigIsRejected(t *testing.T) {
	for _, test := range []struct{ name, kubeconfig, want string }{
		{"exec", membertest.Kubeconfig(membertest.Cluster, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}"), "user: exec is not allowed"},
		{"auth-provider", membertest.Kubeconfig(membertest.Cluster, "auth-provider: {name: oidc}"), "user: auth-provider is not allowed"},
		{"authority in a file", membertest.Kubeconfig(membertest.Cluster+"\ncertificate-authority: /etc/ca.crt", "token: x"), "set certificate-authority-data"},
		{"certificate in a file", membertest.Kubeconfig(membertest.Cluster, "client-certificate: /etc/tls.crt"), "set client-certificate-data"},
		{"key in a file", membertest.Kubeconfig(membertest.Cluster, "client-key: /etc/tls.key"), "set client-key-data"},
		{"token in a file", membertest.Kubeconfig(membertest.Cluster, "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), "set token"},
		{"http", membertest.Kubeconfig("server: http://b.example", "token: x"), "must be an https URL"},
		{"no host", membertest.Kubeconfig("server: https://", "token: x"), "must be an https URL"},
		{"no server", membertest.Kubeconfig("tls-server-name: b", "token: x"), "must be an https URL"},
		{"no verification", membertest.Kubeconfig(membertest.Cluster+"\ninsecure-skip-tls-verify: true", "token: x"), "insecure-skip-tls-verify is not allowed"},
		{"no current context", strings.Replace(goodKubeconfig, "current-context: it", "", 1), `current-context "" does not exist`},
		{"unknown current context", strings.Replace(goodKubeconfig, "current-context: it", "current-context: other", 1), `current-context "other"`},
		{"context without a user", strings.Replace(goodKubeconfig, "user: it}}", "user: other}}", 1), `user "other" is missing`},
		{"garbage", "}{", "not a kubeconfig"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", "not a kubeconfig"},
		{"empty", "", "required: the kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := Parse(membertest.Secret("b", test.kubeconfig))
			if spec.Problem == nil || !strings.Contains(spec.Problem.Error(), test.want) {
				t.Errorf("got %v, want %q in it", spec.Problem, test.want)
			}
			if spec.Problem != nil && !strings.Contains(spec.Problem.Error(), "data[kubeconfig]") {
				t.Errorf("%v does not name the key", spec.Problem)
			}
			if spec.Config != nil {
				t.Error("an invalid Secret has a client configuration")
			}
		})
	}
}

func TestAllProblemsOfASecretAreReported(t *testing.T) {
	spec := Parse(membertest.Secret("B", membertest.Kubeconfig("server: http://b", "exec: {apiVersion: v1, command: sh}\ntokenFile: /token"),
		membertest.With(clusterset.MemberSecretRelayFor, "c.d"), membertest.With(clusterset.MemberSecretJoinedAt, "1971"),
		membertest.With(clusterset.MemberSecretAllocationCIDRs, "243.1.0.7/16"), annotated("soon")))
	for _, want := range []string{"data[cluster-id]", "data[relay-for]", "data[joined-at]", "data[allocation-cidrs]", "243.1.0.0/16", "ttl", "https", "exec", "tokenFile"} {
		if !strings.Contains(spec.Problem.Error(), want) {
			t.Errorf("%q is missing in %v", want, spec.Problem)
		}
	}
}

// R329: problems are told apart, and say what is expected instead.
func TestProblemsOfASecretAreInOneLine(t *testing.T) {
	spec := Parse(membertest.Secret("b", membertest.ValidKubeconfig(),
		membertest.With(clusterset.MemberSecretAllowedCIDRs, "10.100.0.0, 10.101.0.0/16"), membertest.With(clusterset.MemberSecretServiceLimit, "many")))
	const want = `data[allowed-cidrs]: "10.100.0.0" must be a CIDR, such as 10.101.0.0/16; data[service-limit]: "many" must be a number, 0 or more`
	if spec.Problem == nil || spec.Problem.Error() != want {
		t.Errorf("got %v, want %s", spec.Problem, want)
	}
}

// R288: a Secret may say from which CIDRs a member allocates, also that it does from none.
func TestAllocationCIDRsOfASecret(t *testing.T) {
	for text, want := range map[string][]netip.Prefix{
		"": nil, " \n": nil, "none": {},
		"243.1.0.0/16, fd00:243::1:0/112\n": {netip.MustParsePrefix("243.1.0.0/16"), netip.MustParsePrefix("fd00:243::1:0/112")},
	} {
		spec := Parse(membertest.Secret("b", membertest.ValidKubeconfig(), membertest.With(clusterset.MemberSecretAllocationCIDRs, text)))
		if got := spec.AllocationCIDRs; spec.Problem != nil || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: got %v (%v), want %v", text, got, spec.Problem, want)
		}
	}
}

func TestOtherContextsOfAKubeconfigAreIgnored(t *testing.T) {
	text := goodKubeconfig + `- name: evil
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}, tokenFile: /token}
`
	text = strings.Replace(text, "clusters:\n", "clusters:\n- {name: evil, cluster: {server: 'http://evil', certificate-authority: /etc/shadow}}\n", 1)
	text = strings.Replace(text, "contexts:\n", "contexts:\n- {name: evil, context: {cluster: evil, user: evil}}\n", 1)
	spec := Parse(membertest.Secret("b", text))
	if spec.Problem != nil {
		t.Fatal(spec.Problem)
	}
	if spec.Config.Host != "https://b.example:6443" || spec.Token != "secret" || spec.Config.BearerToken != "" || spec.Config.ExecProvider != nil || spec.Config.BearerTokenFile != "" || spec.Config.CAFile != "" {
		t.Errorf("the connection is to %s with %+v", spec.Config.Host, spec.Config)
	}
}

// R4, R5: a cluster ID is one label, and the error says so.
func TestClusterIDInASecretIsOneLabel(t *testing.T) {
	for id, valid := range map[string]bool{"b": true, " b\n": true, "b.c": false, "B": false, "": false, strings.Repeat("b", 64): false} {
		spec := Parse(membertest.Secret(id, goodKubeconfig))
		if (spec.Problem == nil) != valid {
			t.Errorf("id %q: %v, want valid: %v", id, spec.Problem, valid)
		}
		if valid && spec.ClusterID != "b" {
			t.Errorf("id %q is read as %q", id, spec.ClusterID)
		}
		if !valid && (spec.ClusterID != "" || !strings.Contains(spec.Problem.Error(), "a cluster ID must be a single DNS label without dots")) {
			t.Errorf("ID %q is read as %q: %v", id, spec.ClusterID, spec.Problem)
		}
	}
}

func TestRelayScopeIsReadFromTheSecret(t *testing.T) {
	for _, test := range []struct {
		text            string
		allowed, denied []string
		any, invalid    bool
	}{
		{text: "", denied: []string{"c", ""}},
		{text: "c", allowed: []string{"c"}, denied: []string{"d"}, any: true},
		{text: " c, d\ne ", allowed: []string{"c", "d", "e"}, denied: []string{"f"}, any: true},
		{text: "*", allowed: []string{"c", "d"}, any: true},
		{text: "c,*", allowed: []string{"c", "d"}, any: true},
		{text: "c.d", denied: []string{"c", "d", "c.d"}, invalid: true},
	} {
		spec := Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretRelayFor, test.text)))
		if (spec.Problem != nil) != test.invalid || spec.Relay.Any() != test.any {
			t.Errorf("%q: problem %v, any %v", test.text, spec.Problem, spec.Relay.Any())
		}
		for _, id := range test.allowed {
			if !spec.Relay.Allows(id) {
				t.Errorf("%q does not allow %q", test.text, id)
			}
		}
		for _, id := range test.denied {
			if spec.Relay.Allows(id) {
				t.Errorf("%q allows %q", test.text, id)
			}
		}
	}
}

func TestSecretMayHaveItsOwnTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "30s": liveness.MinTTL, "29s": 0, "-1h": 0, "soon": 0, "": 0} {
		spec := Parse(membertest.Secret("b", goodKubeconfig, annotated(text)))
		if (spec.Problem == nil) != (want > 0) || want > 0 && spec.TTL != want {
			t.Errorf("ttl %q: %s, %v, want %s", text, spec.TTL, spec.Problem, want)
		}
	}
	if spec := Parse(membertest.Secret("b", goodKubeconfig)); spec.TTL != 0 || spec.Problem != nil {
		t.Errorf("without the annotation: %s, %v", spec.TTL, spec.Problem)
	}
}

func TestDigestChangesWithWhatAFeedDependsOn(t *testing.T) {
	digest := func(changes ...func(*corev1.Secret)) string {
		return Parse(membertest.Secret("b", goodKubeconfig, changes...)).Digest
	}
	before := digest()
	for name, change := range map[string]func(*corev1.Secret){
		"certificate": membertest.With(clusterset.MemberSecretKubeconfig, membertest.Kubeconfig(membertest.Cluster, "token: secret\nclient-certificate-data: eA==\nclient-key-data: eA==")),
		"id":          membertest.With(clusterset.MemberSecretClusterID, "c"),
		"relay":       membertest.With(clusterset.MemberSecretRelayFor, "c"),
		"ttl":         annotated("90s"),
	} {
		if digest(change) == before {
			t.Errorf("another %s does not change the digest", name)
		}
	}
	if digest(func(s *corev1.Secret) {
		s.Labels, s.ResourceVersion, s.Annotations = map[string]string{"x": "y"}, "8", map[string]string{"x": "y"}
	}) != before {
		t.Error("metadata changes the digest")
	}
	if digest(membertest.With(clusterset.MemberSecretKubeconfig, membertest.Kubeconfig(membertest.Cluster, "token: other"))) != before {
		t.Error("another token changes the digest: it can be replaced while the feed is running")
	}
	// Keys and values must not be mixed up.
	if digest(membertest.With("x", "y")) == digest(membertest.With("x=\"y\"\n", "")) {
		t.Error("two different Secrets have one digest")
	}
}

func TestAllowedCIDRs(t *testing.T) {
	spec := Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretAllowedCIDRs, "10.1.0.0/16, fd00:1::/64")))
	if spec.Problem != nil || len(spec.AllowedCIDRs) != 2 || spec.AllowedCIDRs[1].String() != "fd00:1::/64" {
		t.Errorf("got %v, %v", spec.AllowedCIDRs, spec.Problem)
	}
	if spec := Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretAllowedCIDRs, "10.0.0.0"))); spec.Problem == nil || !strings.Contains(spec.Problem.Error(), "data[allowed-cidrs]") {
		t.Errorf("an invalid CIDR is accepted: %v", spec.Problem)
	}
}

// R203: the memory that the exports of a member may take is part of its Secret.
func TestMemoryLimit(t *testing.T) {
	for value, want := range map[string]int64{"": exports.DefaultMemoryLimit, "128Mi": 128 << 20, " 1Gi\n": 1 << 30, "1Mi": 1 << 20} {
		if spec := Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretMemoryLimit, value))); spec.Problem != nil || spec.Limits.Bytes != want {
			t.Errorf("%q: %d, %v", value, spec.Limits.Bytes, spec.Problem)
		}
	}
	for _, value := range []string{"64", "much", "-1Gi", "0"} {
		spec := Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretMemoryLimit, value)))
		if spec.Problem == nil || !strings.Contains(spec.Problem.Error(), "data[memory-limit]") || spec.Limits.Bytes != exports.DefaultMemoryLimit {
			t.Errorf("%q: %d, %v", value, spec.Limits.Bytes, spec.Problem)
		}
	}
}

// R206: the namespaces that a member may export into are part of its Secret.
func TestAllowedNamespaces(t *testing.T) {
	parse := func(value string) *Spec {
		return Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretAllowedNamespaces, value)))
	}
	if spec := parse("shop, pay\nkube-system"); spec.Problem != nil || !spec.AllowedNamespaces.Equal(sets.New("shop", "pay", "kube-system")) {
		t.Errorf("got %v, %v", spec.AllowedNamespaces, spec.Problem)
	}
	if spec := parse(" "); spec.Problem != nil || spec.AllowedNamespaces != nil {
		t.Errorf("got %v, %v", spec.AllowedNamespaces, spec.Problem)
	}
	if spec := parse("shop/web,*"); spec.Problem == nil || strings.Count(spec.Problem.Error(), "data[allowed-namespaces]") != 2 {
		t.Errorf("got %v", spec.Problem)
	}
}

// R222
func TestServiceAndEndpointLimits(t *testing.T) {
	parse := func(services, endpoints string) *Spec {
		return Parse(membertest.Secret("b", goodKubeconfig, membertest.With(clusterset.MemberSecretServiceLimit, services), membertest.With(clusterset.MemberSecretEndpointLimit, endpoints)))
	}
	for _, test := range []struct {
		services, endpoints string
		want                exports.Usage
	}{
		{"", "", exports.DefaultLimits()},
		{"7", " 100000\n", exports.Usage{Bytes: exports.DefaultMemoryLimit, Services: 7, Endpoints: 100_000}},
		{"0", "0", exports.Usage{Bytes: exports.DefaultMemoryLimit}},
	} {
		if spec := parse(test.services, test.endpoints); spec.Problem != nil || spec.Limits != test.want {
			t.Errorf("%q and %q: %+v, %v", test.services, test.endpoints, spec.Limits, spec.Problem)
		}
	}
	spec := parse("-1", "many")
	if spec.Problem == nil || !strings.Contains(spec.Problem.Error(), "data[service-limit]") || !strings.Contains(spec.Problem.Error(), "data[endpoint-limit]") || spec.Limits != exports.DefaultLimits() {
		t.Errorf("%+v, %v", spec.Limits, spec.Problem)
	}
}
