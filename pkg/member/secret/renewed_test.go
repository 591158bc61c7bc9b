// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
)

// R415: renewed tokens are stored by this: another version must compute the same.
func TestCredentialDoesNotChangeWithTheVersion(t *testing.T) {
	declared, err := access.ClientConfig([]byte(`
apiVersion: v1
kind: Config
clusters: [{name: b, cluster: {server: "https://b.example:6443", tls-server-name: b.example, certificate-authority-data: YXV0aG9yaXR5Cg==}}]
users: [{name: peer, user: {token: token}}]
contexts: [{name: b, context: {cluster: b, user: peer}}]
current-context: b
`))
	if err != nil {
		t.Fatal(err)
	}
	for want, config := range map[string]*rest.Config{
		"v1-a9c9a4b4fa3c4598370642031689162d9590c3e211e77660e1d49af2a716ed8c": declared,
		"v1-743ae51ec1815b1c6ec0d0789bbff27ffc161814a0bae7a7e1a7e470de39f0fd": {Host: "https://b.example", Username: "user", Password: "password", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("certificate"), KeyData: []byte("key")}},
	} {
		got := Credential(config)
		if got != want {
			t.Errorf("got %s, want %s: use another version, and read both", got, want)
		}
		if invalid := validation.IsConfigMapKey(got); len(invalid) > 0 {
			t.Errorf("%s is not a key of a Secret: %q", got, invalid)
		}
	}
}

// R386: a token is used with what it was renewed from, and with nothing else.
func TestTokensOfAMember(t *testing.T) {
	source := &corev1.Secret{Type: clusterset.RenewedSecretType, Data: map[string][]byte{"a": []byte("of-a"), "b": []byte("of-b"), "empty": nil}}
	for _, test := range []struct {
		credential, declared string
		want                 []string
	}{
		{"a", "declared", []string{"of-a", "declared"}},
		{"b", "declared", []string{"of-b", "declared"}},
		{"c", "declared", []string{"declared"}},
		{"empty", "declared", []string{"declared"}},
		{"", "declared", []string{"declared"}},
		{"a", "", nil}, // a certificate
	} {
		if got := ParseRenewed(source).Tokens(test.credential, test.declared); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	for name, other := range map[string]*corev1.Secret{"none": nil, "another type": {Data: source.Data}} {
		if got := ParseRenewed(other); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
