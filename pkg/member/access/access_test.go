// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig returns a kubeconfig with one context. What is rejected in detail is
// tested where member Secrets are parsed.
func kubeconfig(t *testing.T, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	if cluster != nil {
		config.Clusters["b"] = cluster
	}
	if user != nil {
		config.AuthInfos["peer"] = user
	}
	config.Contexts["b"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "peer"}
	config.CurrentContext = "b"
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A credential may be a token or a certificate, and the server may have a
// certificate authority and a name of its own.
func TestInlineCredentialsAreAccepted(t *testing.T) {
	got, err := ClientConfig(kubeconfig(t,
		&clientcmdapi.Cluster{Server: "https://10.0.0.1:6443/prefix", TLSServerName: "b.example", CertificateAuthorityData: []byte("authority")},
		&clientcmdapi.AuthInfo{Token: "token", ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://10.0.0.1:6443/prefix" || got.ServerName != "b.example" || string(got.CAData) != "authority" || got.BearerToken != "token" ||
		string(got.CertData) != "certificate" || string(got.KeyData) != "key" {
		t.Errorf("got %+v", got)
	}
	if got.QPS >= 0 {
		t.Errorf("requests are limited to %v per second by the client, instead of by the server", got.QPS)
	}
}

func TestAllProblemsAreReportedInOrder(t *testing.T) {
	bad := kubeconfig(t,
		&clientcmdapi.Cluster{Server: "http://b", CertificateAuthority: "/ca", InsecureSkipTLSVerify: true},
		&clientcmdapi.AuthInfo{
			TokenFile: "/token", ClientCertificate: "/crt", ClientKey: "/key", AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc"},
			Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode},
		})
	const want = `cluster: server "http://b" must be an https URL
cluster: certificate-authority is not allowed, because it would read a file of the API server: set certificate-authority-data
cluster: insecure-skip-tls-verify is not allowed, because any server could impersonate the member: set certificate-authority-data
user: auth-provider is not allowed, because it would run a plugin in the API server: use a token or a client certificate
user: client-certificate is not allowed, because it would read a file of the API server: set client-certificate-data
user: client-key is not allowed, because it would read a file of the API server: set client-key-data
user: exec is not allowed, because it would run a program in the API server: use a token or a client certificate
user: tokenFile is not allowed, because it would read a file of the API server: set token`
	for range 10 { // a message that varies would look like a change of the member
		if _, err := ClientConfig(bad); err == nil || err.Error() != want {
			t.Fatalf("got:\n%v\nwant:\n%s", err, want)
		}
	}
}

func TestIncompleteContextIsRejected(t *testing.T) {
	cluster, user := &clientcmdapi.Cluster{Server: "https://b"}, &clientcmdapi.AuthInfo{Token: "x"}
	for name, text := range map[string][]byte{"no cluster": kubeconfig(t, nil, user), "no user": kubeconfig(t, cluster, nil)} {
		if _, err := ClientConfig(text); err == nil || !strings.Contains(err.Error(), `context "b": cluster "b" or user "peer" is missing`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
