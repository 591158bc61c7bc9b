// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// The health endpoints are accessible without credentials, as the kubelet needs
// them; all other paths require credentials.
func TestHealthOfTheServer(t *testing.T) {
	anonymous, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	server := suite.APIServers[0].URL()
	expect.Contains(t, string(get(t, anonymous, server+"/livez?verbose", "*/*")), "[+]ping ok", "livez check passed")
	expect.Contains(t, string(get(t, anonymous, server+"/readyz?verbose", "*/*")),
		"[+]informer-sync ok", "[+]storage ok", "[+]virtual-resources ok", "[+]shutdown ok", "readyz check passed")
	for _, path := range []string{"/apis/multicluster.x-k8s.io/v1beta1/serviceexports", "/metrics", "/debug/pprof/"} {
		response, err := anonymous.Get(server + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without credentials: got %s", path, response.Status)
		}
	}
}
