// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

// R565: a server, or a Pod behind it, gets neither the token of the user nor what the user may read by a redirect.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var stolen atomic.Int32
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer attacker.Close()
	for name, location := range map[string]string{"to another host": attacker.URL, "to Secrets": "../../../../../kube-system/secrets"} {
		t.Run(name, func(t *testing.T) {
			var followed atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/secrets") {
					followed.Add(1)
				}
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusFound)
			}))
			defer server.Close()
			config := clientcmdapi.NewConfig()
			config.Clusters["east"] = &clientcmdapi.Cluster{Server: server.URL}
			config.AuthInfos["east"] = &clientcmdapi.AuthInfo{Token: "precious"}
			config.Contexts["east"] = &clientcmdapi.Context{Cluster: "east", AuthInfo: "east"}
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := clientcmd.WriteToFile(*config, file); err != nil {
				t.Fatal(err)
			}
			f := &cluster.Factory{Flags: cluster.ConfigFlags()}
			*f.Flags.KubeConfig = file
			c, err := f.ForContext("east")
			if err != nil {
				t.Fatal(err)
			}
			plain, err := rest.HTTPClientFor(c.Config)
			if err != nil {
				t.Fatal(err)
			}
			for what, read := range map[string]func() error{
				"list": func() error {
					_, err := c.Kubernetes.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
					return err
				},
				"members": func() error {
					_, err := c.MCS.ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{})
					return err
				},
				"proxy": func() error {
					stream, err := c.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/shop/pods/x/proxy/metrics").Stream(t.Context())
					if err == nil {
						_, _ = io.ReadAll(stream)
						stream.Close()
					}
					return err
				},
				"other clients of the config": func() error {
					response, err := plain.Get(server.URL + "/version")
					if err == nil {
						response.Body.Close()
					}
					return err
				},
			} {
				if err := read(); err == nil || !strings.Contains(err.Error(), "which is not followed") {
					t.Errorf("%s: got error %v", what, err)
				}
			}
			if stolen.Load() > 0 || followed.Load() > 0 {
				t.Errorf("%d requests went to the other host, %d to Secrets", stolen.Load(), followed.Load())
			}
		})
	}
}
