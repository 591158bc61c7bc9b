// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// memberServer is the API of a member, as far as it is read.
type memberServer struct {
	*httptest.Server

	mu       sync.Mutex
	objects  map[string][]runtime.Object
	watchers map[string]map[chan runtime.Object]bool
	entry    clustersetv1alpha1.Member
	tokens   sets.Set[string]
	// asked is who asked for what, with which selector.
	asked sets.Set[string]
}

func newMemberServer(t *testing.T, id string) *memberServer {
	t.Helper()
	claim := func(name, value string) runtime.Object {
		return &multiclusterv1.ClusterClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "multicluster.k8s.io/v1", Kind: "ClusterClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", CreationTimestamp: metav1.NewTime(epoch)}, Spec: multiclusterv1.ClusterClaimSpec{Value: value},
		}
	}
	s := &memberServer{
		objects: map[string][]runtime.Object{
			"clusterclaims": {claim(multicluster.ClusterIDClaim, id), claim(multicluster.ClusterSetClaim, "set")},
		},
		watchers: map[string]map[chan runtime.Object]bool{}, entry: own(id), tokens: sets.New("token-1", "token-2"), asked: sets.New[string](),
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// kubeconfig leads to the server.
func (s *memberServer) kubeconfig(token string) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return kubeconfig("server: "+s.URL+"\ncertificate-authority-data: "+base64.StdEncoding.EncodeToString(authority), "token: "+token)
}

// export adds a service and tells everybody who watches.
func (s *memberServer) export(service string) {
	object := exportedService(s.entry.Name, service)
	object.APIVersion, object.Kind = clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedService"
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entry.Status.Exports++
	s.objects["exportedservices"] = append(s.objects["exportedservices"], object)
	for watcher := range s.watchers["exportedservices"] {
		watcher <- object
	}
}

// refuse takes a credential away, and ends what was begun with it.
func (s *memberServer) refuse(token string) {
	s.mu.Lock()
	s.tokens.Delete(token)
	s.mu.Unlock()
	s.CloseClientConnections()
}

func (s *memberServer) hasBeenAsked(question string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.Has(question)
}

// ServeHTTP implements http.Handler.
func (s *memberServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	token, _ := bearer(r)
	allowed := s.tokens.Has(token)
	s.asked.Insert(r.UserAgent() + " " + resource + " " + query.Get("labelSelector") + query.Get("fieldSelector"))
	objects, entry := s.objects[resource], s.entry
	events := make(chan runtime.Object, 100)
	if query.Get("watch") != "" {
		if s.watchers[resource] == nil {
			s.watchers[resource] = map[chan runtime.Object]bool{}
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
				_ = encoder.Encode(map[string]any{"type": "ADDED", "object": object})
			}
			_ = encoder.Encode(map[string]any{"type": "BOOKMARK", "object": bookmark(resource)})
		}
		for {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case object := <-events:
				_ = encoder.Encode(map[string]any{"type": "ADDED", "object": object})
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

// bookmark says that all objects have been sent.
func bookmark(resource string) any {
	kind := map[string][2]string{
		"exportedservices":       {clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedService"},
		"exportedendpointslices": {clustersetv1alpha1.SchemeGroupVersion.String(), "ExportedEndpointSlice"},
		"clusterclaims":          {"multicluster.k8s.io/v1", "ClusterClaim"},
	}[resource]
	return map[string]any{"apiVersion": kind[0], "kind": kind[1], "metadata": map[string]any{
		"resourceVersion": "1", "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
}
