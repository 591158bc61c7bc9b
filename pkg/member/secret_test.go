// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const goodCluster = `server: https://b.example:6443`

// kubeconfig has one context. cluster and user are lines of YAML.
func kubeconfig(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: it
contexts:
- {name: it, context: {cluster: it, user: it}}
clusters:
- name: it
  cluster:
    ` + strings.ReplaceAll(cluster, "\n", "\n    ") + `
users:
- name: it
  user:
    ` + strings.ReplaceAll(user, "\n", "\n    ") + "\n"
}

func secretOf(id, kubeconfig string, changes ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "member-" + id, UID: "secret-uid", CreationTimestamp: metav1.NewTime(epoch)},
		Type:       clusterset.MemberSecretType,
		Data:       map[string][]byte{clusterset.MemberSecretClusterID: []byte(id), clusterset.MemberSecretKubeconfig: []byte(kubeconfig)},
	}
	for _, change := range changes {
		change(secret)
	}
	return secret
}

func with(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

func annotated(value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations = map[string]string{clusterset.TTLAnnotation: value} }
}

var goodKubeconfig = kubeconfig(goodCluster, "token: secret")

func TestKubeconfigThatWouldRunReadOrTrustAnythingIsRefused(t *testing.T) {
	for _, test := range []struct{ name, kubeconfig, want string }{
		{"exec", kubeconfig(goodCluster, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}"), "user: exec is refused"},
		{"auth-provider", kubeconfig(goodCluster, "auth-provider: {name: oidc}"), "user: auth-provider is refused"},
		{"authority in a file", kubeconfig(goodCluster+"\ncertificate-authority: /etc/ca.crt", "token: x"), "give certificate-authority-data"},
		{"certificate in a file", kubeconfig(goodCluster, "client-certificate: /etc/tls.crt"), "give client-certificate-data"},
		{"key in a file", kubeconfig(goodCluster, "client-key: /etc/tls.key"), "give client-key-data"},
		{"token in a file", kubeconfig(goodCluster, "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), "give token"},
		{"http", kubeconfig("server: http://b.example", "token: x"), "must be an https URL"},
		{"no server", kubeconfig("tls-server-name: b", "token: x"), "must be an https URL"},
		{"no verification", kubeconfig(goodCluster+"\ninsecure-skip-tls-verify: true", "token: x"), "insecure-skip-tls-verify is refused"},
		{"no current context", strings.Replace(goodKubeconfig, "current-context: it", "", 1), "there is no such context"},
		{"unknown current context", strings.Replace(goodKubeconfig, "current-context: it", "current-context: other", 1), `current-context "other"`},
		{"context without a user", strings.Replace(goodKubeconfig, "user: it}}", "user: other}}", 1), `its user "other" is missing`},
		{"garbage", "}{", "not a kubeconfig"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", "not a kubeconfig"},
		{"empty", "", "required: the kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := parseSecret(secretOf("b", test.kubeconfig))
			if said.problem == nil || !strings.Contains(said.problem.Error(), test.want) {
				t.Errorf("got %v, want %q in it", said.problem, test.want)
			}
			if said.problem != nil && !strings.Contains(said.problem.Error(), "data[kubeconfig]") {
				t.Errorf("%v does not say where", said.problem)
			}
			if said.config != nil {
				t.Error("there is something to connect with")
			}
		})
	}
}

func TestEverythingWrongWithASecretIsSaid(t *testing.T) {
	said := parseSecret(secretOf("B", kubeconfig("server: http://b", "exec: {apiVersion: v1, command: sh}\ntokenFile: /token"),
		with(clusterset.MemberSecretRelayFor, "c.d"), annotated("soon")))
	for _, want := range []string{"data[cluster-id]", "data[relay-for]", "ttl", "https", "exec", "tokenFile"} {
		if !strings.Contains(said.problem.Error(), want) {
			t.Errorf("%q is missing in %v", want, said.problem)
		}
	}
}

func TestOtherContextsOfAKubeconfigDoNotMatter(t *testing.T) {
	text := goodKubeconfig + `- name: evil
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}, tokenFile: /token}
`
	text = strings.Replace(text, "clusters:\n", "clusters:\n- {name: evil, cluster: {server: 'http://evil', certificate-authority: /etc/shadow}}\n", 1)
	text = strings.Replace(text, "contexts:\n", "contexts:\n- {name: evil, context: {cluster: evil, user: evil}}\n", 1)
	said := parseSecret(secretOf("b", text))
	if said.problem != nil {
		t.Fatal(said.problem)
	}
	if said.config.Host != "https://b.example:6443" || said.token != "secret" || said.config.BearerToken != "" || said.config.ExecProvider != nil || said.config.BearerTokenFile != "" || said.config.CAFile != "" {
		t.Errorf("the connection is to %s with %+v", said.config.Host, said.config)
	}
}

// R4, R5: an id is one label, and a refusal says so.
func TestClusterIDInASecretIsOneLabel(t *testing.T) {
	for id, valid := range map[string]bool{"b": true, " b\n": true, "b.c": false, "B": false, "": false, strings.Repeat("b", 64): false} {
		said := parseSecret(secretOf(id, goodKubeconfig))
		if (said.problem == nil) != valid {
			t.Errorf("id %q: %v, want valid: %v", id, said.problem, valid)
		}
		if valid && said.id != "b" {
			t.Errorf("id %q is read as %q", id, said.id)
		}
		if !valid && (said.id != "" || !strings.Contains(said.problem.Error(), "a cluster ID must be a single DNS label without dots")) {
			t.Errorf("id %q is taken for %q: %v", id, said.id, said.problem)
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
		said := parseSecret(secretOf("b", goodKubeconfig, with(clusterset.MemberSecretRelayFor, test.text)))
		if (said.problem != nil) != test.invalid || said.relay.any() != test.any {
			t.Errorf("%q: problem %v, any %v", test.text, said.problem, said.relay.any())
		}
		for _, id := range test.allowed {
			if !said.relay.allows(id) {
				t.Errorf("%q does not allow %q", test.text, id)
			}
		}
		for _, id := range test.denied {
			if said.relay.allows(id) {
				t.Errorf("%q allows %q", test.text, id)
			}
		}
	}
}

func TestSecretMayHaveItsOwnTTL(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "30s": MinTTL, "29s": 0, "-1h": 0, "soon": 0, "": 0} {
		said := parseSecret(secretOf("b", goodKubeconfig, annotated(text)))
		if (said.problem == nil) != (want > 0) || want > 0 && said.ttl != want {
			t.Errorf("ttl %q: %s, %v, want %s", text, said.ttl, said.problem, want)
		}
	}
	if said := parseSecret(secretOf("b", goodKubeconfig)); said.ttl != 0 || said.problem != nil {
		t.Errorf("without the annotation: %s, %v", said.ttl, said.problem)
	}
}

func TestDigestChangesWithWhatAConnectionDependsOn(t *testing.T) {
	digest := func(changes ...func(*corev1.Secret)) string {
		return parseSecret(secretOf("b", goodKubeconfig, changes...)).digest
	}
	before := digest()
	for name, change := range map[string]func(*corev1.Secret){
		"certificate": with(clusterset.MemberSecretKubeconfig, kubeconfig(goodCluster, "token: secret\nclient-certificate-data: eA==\nclient-key-data: eA==")),
		"id":          with(clusterset.MemberSecretClusterID, "c"),
		"relay":       with(clusterset.MemberSecretRelayFor, "c"),
		"ttl":         annotated("90s"),
	} {
		if digest(change) == before {
			t.Errorf("another %s makes no difference", name)
		}
	}
	if digest(func(s *corev1.Secret) {
		s.Labels, s.ResourceVersion, s.Annotations = map[string]string{"x": "y"}, "8", map[string]string{"x": "y"}
	}) != before {
		t.Error("metadata makes a difference")
	}
	if digest(with(clusterset.MemberSecretKubeconfig, kubeconfig(goodCluster, "token: other"))) != before {
		t.Error("another token makes a difference: it can be replaced while the connection is open")
	}
	// Keys and values are not to be mixed up.
	if digest(with("x", "y")) == digest(with("x=\"y\"\n", "")) {
		t.Error("two different Secrets have one digest")
	}
}
