// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

// exportedBy are the clusters that export ns/web. Nothing else is exported.
type exportedBy []string

func (e exportedBy) Clusters(namespace, name string) []string {
	if namespace == "ns" && name == "web" {
		return e
	}
	return nil
}

// serve sends a request through a filter and reports whether it passed.
func serve(t *testing.T, filter func(http.Handler) http.Handler, r *http.Request) (passed bool, _ *httptest.ResponseRecorder) {
	t.Helper()
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	filter(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })).
		ServeHTTP(answer, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	return passed, answer
}

const (
	imports    = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/ns/serviceimports"
	kepImports = "/apis/multicluster.k8s.io/v1alpha1/namespaces/ns/serviceimports"
	clusterSet = "/apis/clusterset.mcs-apiserver.io/v1alpha1/"
	properties = "/apis/about.k8s.io/v1beta1/clusterproperties"
)

// R29, R139: every write is rejected with what to do instead.
func TestWritesToVirtualResourcesAreRejected(t *testing.T) {
	for _, test := range []struct{ method, path, want string }{
		{http.MethodPost, imports, `create a ServiceExport of the same name in namespace "ns" of the cluster that has the Service`},
		{http.MethodPut, imports + "/web", `change Service "web" or ServiceExport "web" in namespace "ns" of the exporting clusters`},
		{http.MethodPatch, imports + "/web", `change Service "web"`},
		{http.MethodPatch, imports + "/web?fieldManager=x&dryRun=All", `change Service "web"`},
		{http.MethodPut, imports + "/web/status", `change Service "web"`},
		{http.MethodDelete, imports + "/web", `delete ServiceExport "web" in namespace "ns" of clusters a, b`},
		{http.MethodDelete, imports + "/other", `delete ServiceExport "other" in namespace "ns" of the exporting clusters`},
		{http.MethodDelete, imports, `delete the ServiceExports in namespace "ns" of the exporting clusters`},
		{http.MethodDelete, kepImports + "/web", `delete ServiceExport "web" in namespace "ns" of clusters a, b`},
		{http.MethodPost, clusterSet + "namespaces/ns/exportedservices", "change those instead"},
		{http.MethodDelete, clusterSet + "namespaces/ns/exportedendpointslices/x", "change those instead"},
		{http.MethodPost, clusterSet + "members", "Secrets of type clusterset.mcs-apiserver.io/member; create, change or delete a Secret instead"},
		{http.MethodPut, properties + "/example.com", "kubectl edit clusterclaim example.com"},
		{http.MethodPut, properties + "/cluster.clusterset.k8s.io", "kubectl edit clusterclaim id.k8s.io"},
		{http.MethodPut, properties + "/clusterset.k8s.io", "create or delete ClusterClaim clusterset.k8s.io"},
		{http.MethodPost, properties, "kubectl edit clusterclaim id.k8s.io"},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			passed, answer := serve(t, func(next http.Handler) http.Handler {
				return withVirtualRefusal(next, virtualResources(nil), exportedBy{"a", "b"})
			},
				httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
			if passed || answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != http.MethodGet {
				t.Fatalf("passed: %v, response %d %v", passed, answer.Code, answer.Header())
			}
			var status metav1.Status
			if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			if status.Kind != "Status" || status.Reason != metav1.StatusReasonMethodNotAllowed || status.Code != http.StatusMethodNotAllowed ||
				!strings.Contains(status.Message, test.want) || !strings.Contains(status.Message, "is read-only") {
				t.Errorf("got %+v, want %q in the message", status, test.want)
			}
		})
	}
}

func TestOtherRequestsPass(t *testing.T) {
	for _, test := range []struct{ method, path string }{
		{http.MethodGet, imports}, {http.MethodGet, imports + "/web"}, {http.MethodGet, imports + "?watch=1"}, {http.MethodGet, clusterSet + "members"},
		{http.MethodPost, "/apis/multicluster.x-k8s.io/v1beta1/namespaces/ns/serviceexports"},
		{http.MethodDelete, "/apis/multicluster.k8s.io/v1/clusterclaims/x"},
		// A resource of the same name in another group.
		{http.MethodDelete, "/apis/example.com/v1/namespaces/ns/serviceimports/web"},
		{http.MethodPost, "/healthz"},
	} {
		passed, answer := serve(t, func(next http.Handler) http.Handler {
			return withVirtualRefusal(next, virtualResources(nil), exportedBy{})
		},
			httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil))
		if !passed {
			t.Errorf("%s %s is rejected: %s", test.method, test.path, answer.Body)
		}
	}
}

// R141: requests are answered with the reason while storage is closed, except for
// virtual resources that have been computed.
func TestRequestsFailWithTheReasonWhileStorageIsClosed(t *testing.T) {
	storage := gate.New()
	storage.Close(errors.New("namespace does not exist"))
	filter := func(next http.Handler) http.Handler {
		return withOpenStorage(next, storage, func(info *request.RequestInfo) bool { return info.Resource != "serviceimports" }, nil)
	}
	exports := strings.Replace(imports, "serviceimports", "serviceexports", 1)
	get := func(path string) (bool, *httptest.ResponseRecorder) {
		return serve(t, filter, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	for _, path := range []string{exports, exports + "/web/status", exports + "?watch=1", clusterSet + "members"} {
		passed, answer := get(path)
		if passed || answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || !strings.Contains(answer.Body.String(), "namespace does not exist") {
			t.Errorf("%s: passed: %v, response %d %v %s", path, passed, answer.Code, answer.Header(), answer.Body)
		}
	}
	for _, path := range []string{imports, "/livez", "/apis"} {
		if passed, answer := get(path); !passed {
			t.Errorf("%s: response %d %s", path, answer.Code, answer.Body)
		}
	}
	storage.Open()
	if passed, answer := get(exports); !passed {
		t.Errorf("open: response %d %s", answer.Code, answer.Body)
	}
}

// Informers of this server must not back off while storage is closed.
func TestRequestsOfTheServerItselfWaitForStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage, stopping := gate.New(), make(chan struct{})
		send := func() <-chan bool {
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser})
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(imports, "serviceimports", "serviceexports", 1), nil)
			result := make(chan bool, 1)
			go func() {
				passed, _ := serve(t, func(next http.Handler) http.Handler {
					return withOpenStorage(next, storage, func(*request.RequestInfo) bool { return true }, stopping)
				}, r)
				result <- passed
			}()
			return result
		}
		first := send()
		time.Sleep(time.Hour)
		if len(first) != 0 {
			t.Fatal("the request did not wait")
		}
		storage.Open()
		if passed := <-first; !passed {
			t.Error("the request failed although storage was opened")
		}
		storage.Close(errors.New("lost"))
		second := send()
		synctest.Wait()
		close(stopping)
		if passed := <-second; passed {
			t.Error("the request passed although storage is closed")
		}
	})
}

// authorities is a bundle of certificates that is not read yet if it is empty.
type authorities struct {
	dynamiccertificates.CAContentProvider
	bundle []byte
}

func (a *authorities) CurrentCABundleContent() []byte { return a.bundle }

// R190: requests that the kube-apiserver forwards to a server that was just started fail
// with an error that clients retry.
func TestForwardedRequestsWaitForTheAuthority(t *testing.T) {
	authority := &authorities{}
	proxies := &authenticatorfactory.RequestHeaderConfig{CAContentProvider: authority, UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}}
	served := withKnownProxies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), proxies)
	serve := func(user string, certificates ...*x509.Certificate) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/apis/multicluster.x-k8s.io/v1beta1/serviceimports", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: certificates}
		r.Header.Set("X-Remote-User", user)
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		return w
	}
	if w := serve("kate", &x509.Certificate{}); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("without the authority: %d %v, want 503 with Retry-After", w.Code, w.Header())
	}
	if w := serve(""); w.Code != http.StatusOK {
		t.Errorf("with a token: %d", w.Code)
	}
	if w := serve("", &x509.Certificate{}); w.Code != http.StatusOK {
		t.Errorf("not forwarded, with a certificate: %d", w.Code)
	}
	authority.bundle = []byte("certificate")
	if w := serve("kate", &x509.Certificate{}); w.Code != http.StatusOK {
		t.Errorf("with the authority: %d", w.Code)
	}
}
