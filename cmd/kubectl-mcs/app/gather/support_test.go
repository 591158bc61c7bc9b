// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// token returns what looks like the token of a service account.
func token() string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(`{"sub":"system:serviceaccount:x:hushhush"}`)) + ".hushhush"
}

// answer writes a JSON response.
func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err)
	}
}

// kubeconfigOf writes a kubeconfig with a context per server.
func kubeconfigOf(t *testing.T, servers map[string]string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for name, server := range servers {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
