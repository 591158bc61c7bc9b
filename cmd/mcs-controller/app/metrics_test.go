// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// review answers TokenReviews and SubjectAccessReviews: all tokens but one are names of users,
// and one user may get one path.
func review(w http.ResponseWriter, r *http.Request) {
	var object struct {
		Spec struct {
			Token, User           string
			NonResourceAttributes authorizationv1.NonResourceAttributes
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&object)
	var status any = authorizationv1.SubjectAccessReviewStatus{
		Allowed: object.Spec.User == "prometheus" && object.Spec.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	if path.Base(r.URL.Path) == "tokenreviews" {
		status = authenticationv1.TokenReviewStatus{Authenticated: object.Spec.Token != "forged", User: authenticationv1.UserInfo{Username: object.Spec.Token}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status})
}

// R293: metrics are served to users that may get the path, and to nobody else.
func TestMetricsNeedPermission(t *testing.T) {
	cluster := httptest.NewServer(http.HandlerFunc(review))
	t.Cleanup(cluster.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: cluster.URL})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		token, method, path string
		want                int
	}{
		{"prometheus", http.MethodGet, "/metrics", http.StatusOK},
		{"prometheus", http.MethodPost, "/metrics", http.StatusForbidden},
		{"prometheus", http.MethodGet, "/debug/pprof/", http.StatusForbidden},
		{"tenant", http.MethodGet, "/metrics", http.StatusForbidden},
		{"forged", http.MethodGet, "/metrics", http.StatusUnauthorized},
		{"", http.MethodGet, "/metrics", http.StatusUnauthorized},
	} {
		t.Run(test.token+" "+test.method+" "+test.path, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			if test.token != "" {
				request.Header.Set("Authorization", "Bearer "+test.token)
			}
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code != test.want {
				t.Errorf("got %d, want %d: %s", response.Code, test.want, response.Body)
			}
		})
	}
}
