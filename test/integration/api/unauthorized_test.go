// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// guardedPaths returns the paths of all resources of the server, and those of others that
// reveal or cost something.
func guardedPaths(t *testing.T) []string {
	t.Helper()
	paths := []string{"/metrics", "/debug/pprof/profile?seconds=60", "/configz", "/apis/multicluster.x-k8s.io/v1beta1/nothing"}
	for _, name := range installation.GroupVersions {
		version, group, _ := strings.Cut(name, ".")
		served := expect.Must(suite.Kubernetes.Discovery().ServerResourcesForGroupVersion(group + "/" + version))(t)
		for _, resource := range served.APIResources {
			name, subresource, _ := strings.Cut(resource.Name, "/")
			path := fmt.Sprintf("/apis/%s/%s/%s", group, version, name)
			if resource.Namespaced {
				path = fmt.Sprintf("/apis/%s/%s/namespaces/default/%s", group, version, name)
			}
			if subresource != "" {
				path += "/any/" + subresource
			}
			paths = append(paths, path, path+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		}
	}
	if len(paths) < 20 {
		t.Fatalf("found only %v", paths)
	}
	return paths
}

// R267: requests without credentials, and of users without permissions, are refused before
// anything is read, whether they are sent to mcs-apiserver itself or to the kube-apiserver.
func TestNothingIsServedWithoutAuthorization(t *testing.T) {
	direct := rest.AnonymousClientConfig(expect.Must(suite.APIServers[0].Config())(t))
	aggregated := adminConfig(t)
	aggregated.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	paths := guardedPaths(t)
	for name, config := range map[string]*rest.Config{"without credentials": direct, "without permissions": aggregated} {
		t.Run(name, func(t *testing.T) {
			client := expect.Must(rest.HTTPClientFor(config))(t)
			for _, path := range paths {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					request := expect.Must(http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader("{not an object")))(t)
					response, err := client.Do(request)
					expect.NoError(t, err)
					response.Body.Close()
					if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
						t.Errorf("%s %s: got %s, want 401 or 403", method, path, response.Status)
					}
				}
			}
		})
	}
	// The same request of an administrator is served.
	expect.Must(client(t).ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{}))(t)
}
