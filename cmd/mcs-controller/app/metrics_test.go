// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
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

// Profiles are served beside metrics unless that is disabled.
func TestProfilesCanBeDisabled(t *testing.T) {
	for enabled, want := range map[bool]int{true: http.StatusOK, false: http.StatusNotFound} {
		for path, want := range map[string]int{"/debug/pprof/heap": want, "/metrics": http.StatusOK} {
			response := httptest.NewRecorder()
			newMetricsMux(enabled).ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if response.Code != want {
				t.Errorf("profiling %t, %s: status %d, want %d", enabled, path, response.Code, want)
			}
		}
	}
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

// R524: a metric tells which replica leads, also without leader election. It is not about the Lease
// for registration.
func TestLeadingIsMeasured(t *testing.T) {
	registerMetrics()
	opts := NewOptions()
	opts.LeaderElection.LeaderElect = false
	found, err := newCandidates(opts, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	measured := func() float64 {
		value, err := testutil.GetGaugeMetricValue(leading)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for candidate, want := range map[*leadership.Candidate]float64{found.materialization: 1, found.registration: 0} {
		ctx, stop := context.WithCancel(t.Context())
		err := candidate.Run(ctx, func(context.Context) error {
			if got := measured(); got != want {
				t.Errorf("%v is measured, want %v", got, want)
			}
			stop()
			return nil
		})
		if got := measured(); err != nil || got != 0 {
			t.Errorf("%v is measured after the end, error %v", got, err)
		}
		stop()
	}
}

// R524: metrics tell what mcs-controller writes, and with which result, and nothing about what it
// reads.
func TestWritesAreMeasured(t *testing.T) {
	registerMetrics()
	writes.Reset()
	t.Cleanup(writes.Reset)
	refusals := map[string]string{
		"gone":  `{"kind": "Status", "code": 403, "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace gone is being terminated"}]}}`,
		"large": strings.Repeat("x", 2*maxStatus),
	}
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusConflict)
		case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(refusals[path.Base(path.Dir(r.URL.Path))]))
		}
	}))
	t.Cleanup(cluster.Close)
	client := &http.Client{Transport: countWrites(cluster.Client().Transport)}
	send := func(method, url string) {
		request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if want := refusals[path.Base(path.Dir(request.URL.Path))]; err != nil || string(body) != want {
			t.Errorf("%s: %d bytes of the response are left, want %d (error %v)", url, len(body), len(want), err)
		}
	}
	const slices = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
	send(http.MethodGet, cluster.URL+slices)
	send(http.MethodGet, cluster.URL+slices+"?watch=true")
	send(http.MethodPost, cluster.URL+slices)
	send(http.MethodPost, cluster.URL+slices)
	send(http.MethodPatch, cluster.URL+slices+"/web")
	send(http.MethodDelete, cluster.URL+slices+"/web")
	send(http.MethodPut, cluster.URL+"/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports/web/status")
	send(http.MethodPost, cluster.URL+"/apis/authorization.k8s.io/v1/subjectaccessreviews")
	send(http.MethodPost, cluster.URL+"/metrics")
	send(http.MethodPost, cluster.URL+"/api/v1/namespaces/gone/services")
	send(http.MethodPost, cluster.URL+"/api/v1/namespaces/large/services")
	cluster.Close()
	send(http.MethodPost, cluster.URL+"/api/v1/namespaces/shop/services")
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(`
# HELP mcs_controller_writes_total [ALPHA] Requests of mcs-controller that write, by resource, verb and the code of the response: error if there was none, and NamespaceTerminating instead of 403 if the namespace is being deleted.
# TYPE mcs_controller_writes_total counter
mcs_controller_writes_total{code="200",resource="endpointslices",verb="create"} 2
mcs_controller_writes_total{code="200",resource="endpointslices",verb="delete"} 1
mcs_controller_writes_total{code="200",resource="endpointslices",verb="patch"} 1
mcs_controller_writes_total{code="409",resource="serviceexports/status",verb="update"} 1
mcs_controller_writes_total{code="403",resource="services",verb="create"} 1
mcs_controller_writes_total{code="NamespaceTerminating",resource="services",verb="create"} 1
mcs_controller_writes_total{code="error",resource="services",verb="create"} 1
`), "mcs_controller_writes_total"); err != nil {
		t.Error(err)
	}
}

// R524: all clients of mcs-controller count what they write.
func TestClientsCountWrites(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{clusters: [{name: a, cluster: {server: "https://a"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := (&Options{Kubeconfig: kubeconfig}).hostConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*rest.Config{"cluster": host, "mcs-apiserver": ownConfig(host, "https://localhost:6443", "localhost", newAuthority())} {
		if config.WrapTransport == nil {
			t.Fatalf("the client of %s counts nothing", name)
		}
		if _, ok := config.WrapTransport(http.DefaultTransport).(countedWrites); !ok {
			t.Errorf("the client of %s does not count writes", name)
		}
	}
}

// R524: a metric tells when the serving certificate expires, as soon as there is one, and after it
// was renewed.
func TestExpiryOfTheServingCertificateIsMeasured(t *testing.T) {
	none := map[string]float64{}
	if got := membertest.Gather(t, &certificateCollector{certificate: content{}}); !maps.Equal(got, none) {
		t.Errorf("got %v without a certificate", got)
	}
	pem, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := cert.ParseCertsPEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"mcs_controller_serving_certificate_expiry_timestamp_seconds": float64(parsed[0].NotAfter.Unix())}
	if got := membertest.Gather(t, &certificateCollector{certificate: content{pem: pem}}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// content is a certificate.
type content struct {
	dynamiccertificates.CertKeyContentProvider
	pem []byte
}

func (c content) CurrentCertKeyContent() (certificate, key []byte) { return c.pem, nil }
