// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandtest runs commands against fake API servers.
package commandtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Kubeconfig writes a kubeconfig with a context per server.
func Kubeconfig(t *testing.T, servers map[string]string) string {
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

// Run runs a command like app.Main, but without signal handling.
func Run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := app.NewCommand(streams)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return out.String(), errOut.String(), err
}

// Servers are fake kube-apiservers by context. The first is that of the current
// context.
type Servers []struct {
	Context string
	Handler http.HandlerFunc
}

// Run runs a command with a kubeconfig for the servers.
func (s Servers) Run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = s[0].Context
	for _, server := range s {
		started := httptest.NewServer(server.Handler)
		t.Cleanup(started.Close)
		config.Clusters[server.Context] = &clientcmdapi.Cluster{Server: started.URL}
		config.Contexts[server.Context] = &clientcmdapi.Context{Cluster: server.Context, Namespace: "shop"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, path)
	code = app.Main(streams, args)
	return out.String(), errOut.String(), code
}

// Serving returns objects by path, and 404 for other paths.
func Serving(objects map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		object, ok := objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		Answer(w, http.StatusOK, object)
	}
}

// Refusing returns an error for all requests.
func Refusing(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { Answer(w, int(err.ErrStatus.Code), err.ErrStatus) }
}

// Answer writes a JSON response.
func Answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err)
	}
}

// ClusterSetPath is the path of the API group of the ClusterSet.
const ClusterSetPath = "/apis/clusterset.mcs-apiserver.io/v1alpha1/"

func typed(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: kind}
}

// Healthy is a cluster in a ClusterSet.
func Healthy(id string) http.HandlerFunc {
	return Serving(map[string]any{
		ClusterSetPath + "members": clustersetv1alpha1.MemberList{
			TypeMeta: typed("MemberList"), Items: []clustersetv1alpha1.Member{*clustertest.NewMember(id, clustersetv1alpha1.MemberLocal)},
		},
		ClusterSetPath + "exportedservices": clustersetv1alpha1.ExportedServiceList{TypeMeta: typed("ExportedServiceList")},
	})
}

// APIServer is a fake kube-apiserver with mcs-apiserver and without members. Objects that
// were created can be read, but are not listed.
type APIServer struct {
	*httptest.Server
	// Refuse responds to writes that fail, named like "POST roles", and reports
	// whether it did.
	Refuse func(w http.ResponseWriter, r *http.Request, write string) bool

	mu      sync.Mutex
	writes  []string
	objects map[string]any
}

// List returns a list.
func List(version, kind string, items ...any) any {
	return map[string]any{"apiVersion": version, "kind": kind + "List", "items": items}
}

const apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.clusterset.mcs-apiserver.io"

// NotInstalled removes the installation.
func NotInstalled(objects map[string]any) { delete(objects, apiServicePath) }

// Knowing adds a connected member.
func Knowing(id string) func(map[string]any) {
	return func(objects map[string]any) {
		objects[ClusterSetPath+"members"] = List("clusterset.mcs-apiserver.io/v1alpha1", "Member", clustertest.NewMember(id, clustersetv1alpha1.MemberConnected))
	}
}

// Granting adds what gives a peer access.
func Granting(peer string) func(map[string]any) {
	return func(objects map[string]any) {
		const rbac = "/apis/rbac.authorization.k8s.io/v1/"
		access := plan.NewPeerAccess("mcs-system", peer)
		objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = List("v1", "ServiceAccount", access.Account)
		objects[rbac+"clusterrolebindings"] = List("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", access.ClusterBinding)
		objects[rbac+"namespaces/mcs-system/roles"] = List("rbac.authorization.k8s.io/v1", "Role", access.Role)
		objects[rbac+"namespaces/mcs-system/rolebindings"] = List("rbac.authorization.k8s.io/v1", "RoleBinding", access.Binding)
	}
}

// NewAPIServer starts a server with these changes to its objects.
func NewAPIServer(t *testing.T, context string, changes ...func(objects map[string]any)) *APIServer {
	t.Helper()
	const namespaced, rbac = "/api/v1/namespaces/mcs-system/", "/apis/rbac.authorization.k8s.io/v1/"
	objects := map[string]any{
		apiServicePath: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": map[string]any{"service": map[string]string{"namespace": "mcs-system", "name": "mcs-apiserver"}},
		},
		"/api/v1/namespaces/kube-system": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "kube-system", "uid": "uid-" + context}},
		"/apis/multicluster.k8s.io/v1/clusterclaims": List("multicluster.k8s.io/v1", "ClusterClaim",
			map[string]any{"metadata": map[string]string{"name": "id.k8s.io"}, "spec": map[string]string{"value": context}}),
		ClusterSetPath + "members":                  List("clusterset.mcs-apiserver.io/v1alpha1", "Member"),
		namespaced + "secrets":                      List("v1", "Secret"),
		"/api/v1/nodes":                             List("v1", "Node"),
		"/apis/apps/v1/deployments":                 List("apps/v1", "Deployment"),
		namespaced + "serviceaccounts":              List("v1", "ServiceAccount"),
		rbac + "clusterrolebindings":                List("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
		rbac + "namespaces/mcs-system/roles":        List("rbac.authorization.k8s.io/v1", "Role"),
		rbac + "namespaces/mcs-system/rolebindings": List("rbac.authorization.k8s.io/v1", "RoleBinding"),
	}
	for _, change := range changes {
		change(objects)
	}
	s := &APIServer{objects: objects}
	read := Serving(objects)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.mu.Lock()
			defer s.mu.Unlock()
			read(w, r)
			return
		}
		s.write(t, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// write responds with the written object.
func (s *APIServer) write(t *testing.T, w http.ResponseWriter, r *http.Request) {
	write := r.Method + " " + path.Base(r.URL.Path)
	if r.Method == http.MethodDelete {
		write = r.Method + " " + path.Base(path.Dir(r.URL.Path))
	}
	s.mu.Lock()
	s.writes = append(s.writes, write)
	Refuse := s.Refuse
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body) // a server notices a closed connection only while it reads
	if err != nil {
		t.Error(err)
	}
	if Refuse != nil && Refuse(w, r, write) {
		return
	}
	if r.Method == http.MethodDelete {
		Answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		return
	}
	object, err := decode(body)
	if err != nil {
		t.Errorf("%s: %v", write, err)
		return
	}
	if request, ok := object.(*authenticationv1.TokenRequest); ok {
		request.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
		request.Status.Token = Token(path.Base(path.Dir(r.URL.Path)), request.Status.ExpirationTimestamp.Time)
	}
	stored, metadata := r.URL.Path, object.(metav1.Object)
	if r.Method == http.MethodPost {
		stored += "/" + metadata.GetName()
	}
	metadata.SetCreationTimestamp(metav1.Now())
	s.mu.Lock()
	s.objects[stored] = object
	s.mu.Unlock()
	Answer(w, http.StatusCreated, object)
}

// decode decodes a written object.
func decode(body []byte) (runtime.Object, error) {
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		other := &unstructured.Unstructured{}
		return other, other.UnmarshalJSON(body)
	}
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(*kind)
	}
	return object, err
}

// Object returns an object that was created, or is served from the start.
func (s *APIServer) Object(path string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// Token returns a token of a service account that is valid until then.
func Token(account string, until time.Time) string {
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:mcs-system:" + account, "iat": time.Now().Unix(), "exp": until.Unix()})
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode(claims) + "." + encode([]byte("signature"))
}

// Written returns all writes so far.
func (s *APIServer) Written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// Failing rejects these writes.
func Failing(writes ...string) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, _ *http.Request, write string) bool {
		if !slices.Contains(writes, write) {
			return false
		}
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: write}, "x", nil)
		refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		Answer(w, http.StatusForbidden, refusal.ErrStatus)
		return true
	}
}

// Joining returns the arguments to join east and west.
func Joining(t *testing.T, east, west *APIServer, more ...string) []string {
	t.Helper()
	return append([]string{
		"join", "east", "west", "--clusterset", "production", "--kubeconfig", Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}),
		"--server", "east=https://east.example:6443", "--server", "west=https://west.example:6443",
	}, more...)
}
