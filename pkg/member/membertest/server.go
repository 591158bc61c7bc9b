// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membertest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Server is the API of a member, as far as it is read.
type Server struct {
	*httptest.Server

	mu       sync.Mutex
	objects  map[string][]runtime.Object
	watchers map[string]map[chan event]bool
	entry    clustersetv1alpha1.Member
	tokens   sets.Set[string]
	requests sets.Set[string]
}

// NewServer starts a server that accepts the tokens token-1 and token-2.
func NewServer(t *testing.T, id string) *Server {
	t.Helper()
	claim := func(name, value string) runtime.Object { return ClusterClaim(name, value, Epoch) }
	s := &Server{
		objects: map[string][]runtime.Object{
			"clusterclaims": {claim(multicluster.ClusterIDClaim, id), claim(multicluster.ClusterSetClaim, "set")},
		},
		watchers: map[string]map[chan event]bool{}, entry: Entry(id), tokens: sets.New("token-1", "token-2"), requests: sets.New[string](),
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// Kubeconfig returns a kubeconfig that leads to the server.
func (s *Server) Kubeconfig(token string) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return Kubeconfig("server: "+s.URL+"\ncertificate-authority-data: "+base64.StdEncoding.EncodeToString(authority), "token: "+token)
}

// event is an event of a watch.
type event struct {
	Type   watch.EventType `json:"type"`
	Object runtime.Object  `json:"object"`
}

// Export adds a Service and sends it to all watchers.
func (s *Server) Export(service string, changes ...func(*clustersetv1alpha1.ExportedService)) {
	object := ExportedService(s.entry.Name, service)
	object.APIVersion, object.Kind = clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedService"
	for _, change := range changes {
		change(object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entry.Status.Exports++
	s.objects["exportedservices"] = append(s.objects["exportedservices"], object)
	s.sendLocked(event{watch.Added, object})
}

// Change changes what the member tells about itself, which is read with the next probe.
func (s *Server) Change(change func(*clustersetv1alpha1.MemberStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.entry.Status)
}

// Withdraw removes a Service, and tells all watchers.
func (s *Server) Withdraw(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects["exportedservices"] = slices.DeleteFunc(slices.Clone(s.objects["exportedservices"]), func(object runtime.Object) bool {
		withdrawn := object.(*clustersetv1alpha1.ExportedService).Spec.Service == service
		if withdrawn {
			s.entry.Status.Exports--
			s.sendLocked(event{watch.Deleted, object})
		}
		return withdrawn
	})
}

// Expire ends all watches of Services: their resource version is expired.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := apierrors.NewResourceExpired("the resource version is too old").Status()
	status.APIVersion, status.Kind = "v1", "Status"
	s.sendLocked(event{watch.Error, &status})
}

func (s *Server) sendLocked(sent event) {
	for watcher := range s.watchers["exportedservices"] {
		watcher <- sent
	}
}

// Revoke rejects a token from now on, and ends all connections.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	s.tokens.Delete(token)
	s.mu.Unlock()
	s.CloseClientConnections()
}

// Requests returns all requests so far: the User-Agent, the resource, and the selector.
func (s *Server) Requests() sets.Set[string] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.Clone()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	token, _ := bearer(r)
	allowed := s.tokens.Has(token)
	s.requests.Insert(r.UserAgent() + " " + resource + " " + query.Get("labelSelector") + query.Get("fieldSelector"))
	objects, entry := s.objects[resource], s.entry
	events := make(chan event, 100)
	if query.Get("watch") != "" {
		if s.watchers[resource] == nil {
			s.watchers[resource] = map[chan event]bool{}
		}
		s.watchers[resource][events] = true
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[resource], events)
	}()
	encoder := json.NewEncoder(w)
	switch {
	case !allowed:
		w.WriteHeader(http.StatusUnauthorized)
		_ = encoder.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized})
	case resource == "members":
		_ = encoder.Encode(clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{entry}})
	case query.Get("watch") == "":
		_ = encoder.Encode(map[string]any{"metadata": map[string]string{"resourceVersion": "1"}, "items": objects})
	default:
		if query.Get("sendInitialEvents") == "true" {
			for _, object := range objects {
				_ = encoder.Encode(event{watch.Added, object})
			}
			_ = encoder.Encode(map[string]any{"type": "BOOKMARK", "object": bookmark(resource)})
		}
		for {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case next := <-events:
				_ = encoder.Encode(next)
			}
		}
	}
}

func bearer(r *http.Request) (string, bool) {
	const prefix = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) < len(prefix) {
		return "", false
	}
	return header[len(prefix):], true
}

// bookmark returns the event that ends the initial events.
func bookmark(resource string) any {
	kind := map[string][2]string{
		"exportedservices":       {clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedService"},
		"exportedendpointslices": {clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedEndpointSlice"},
		"clusterclaims":          {"multicluster.k8s.io/v1", "ClusterClaim"},
	}[resource]
	return map[string]any{"apiVersion": kind[0], "kind": kind[1], "metadata": map[string]any{
		"resourceVersion": "1", "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
}

// NewHandlerServer starts a server that answers with a handler.
func NewHandlerServer(t *testing.T, handler http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{Server: httptest.NewTLSServer(handler)}
	t.Cleanup(s.Close)
	return s
}
