// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// FuzzParse parses arbitrary member Secrets, each line of the input being a key and its value.
//
// R367: what is wrong is reported in one line that names the key, and what is used is within
// its rules: in particular, no program is run, no file read, and no server trusted blindly.
func FuzzParse(f *testing.F) {
	f.Add("cluster-id=b\nallowed-cidrs=10.0.0.0/8,fd00::/8\nallowed-namespaces=shop\nmemory-limit=128Mi\nservice-limit=5\nendpoint-limit=0", "10m", "KeepLast", []byte(nil))
	f.Add("cluster-id=B\njoined-at=2026-01-01T00:00:00Z\nallocation-cidrs=none\nrelay-for=c,*", "1ns", "", []byte("{}"))
	for _, user := range []string{"token: x", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}", "tokenFile: /etc/shadow", "auth-provider: {name: x}"} {
		f.Add("cluster-id=b\nallowed-namespaces=shop\nmemory-limit=1Mi", "10m", "Keep", []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: https://b.example}}]\nusers: [{name: u, user: {"+user+"}}]\n"))
	}
	f.Fuzz(func(t *testing.T, lines, ttl, policy string, kubeconfig []byte) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: map[string]string{}},
			Data:       map[string][]byte{clusterset.MemberSecretKubeconfig: kubeconfig},
		}
		for annotation, value := range map[string]string{clusterset.TTLAnnotation: ttl, clusterset.LostPolicyAnnotation: policy} {
			if value != "" {
				secret.Annotations[annotation] = value
			}
		}
		for line := range strings.SplitSeq(lines, "\n") {
			if key, value, found := strings.Cut(line, "="); found && key != clusterset.MemberSecretKubeconfig {
				secret.Data[key] = []byte(value)
			}
		}
		spec := Parse(secret)
		if again := Parse(secret.DeepCopy()); again.Digest != spec.Digest || (again.Problem == nil) != (spec.Problem == nil) {
			t.Fatalf("parsed as %+v, and then as %+v", spec, again)
		}
		if spec.Problem != nil {
			if text := spec.Problem.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "data[") && !strings.Contains(text, "annotation ") {
				t.Fatalf("problem %q names neither a key nor an annotation, in one line", text)
			}
			return
		}
		expectUsable(t, spec)
	})
}

// expectUsable checks a Secret without problems by rules of its own.
func expectUsable(t *testing.T, spec *Spec) {
	t.Helper()
	if !label.MatchString(spec.ClusterID) || spec.EntryName() != spec.ClusterID {
		t.Fatalf("cluster ID %q", spec.ClusterID)
	}
	for name := range spec.AllowedNamespaces {
		if !label.MatchString(name) {
			t.Fatalf("namespace %q", name)
		}
	}
	for _, prefix := range append(append([]netip.Prefix(nil), spec.AllowedCIDRs...), spec.AllocationCIDRs...) {
		if !prefix.IsValid() {
			t.Fatalf("CIDR %v", prefix)
		}
	}
	if spec.Limits.Bytes < 1<<20 || spec.Limits.Services < 0 || spec.Limits.Endpoints < 0 || spec.TTL != 0 && spec.TTL < liveness.MinTTL {
		t.Fatalf("limits %+v, TTL %s", spec.Limits, spec.TTL)
	}
	config := spec.Config
	if config == nil || !strings.HasPrefix(config.Host, "https://") || config.Insecure || config.ExecProvider != nil || config.AuthProvider != nil ||
		config.BearerToken != "" || config.BearerTokenFile != "" || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
		t.Fatalf("client configuration %+v", config)
	}
}
