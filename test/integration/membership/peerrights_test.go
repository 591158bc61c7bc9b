// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var reads = []string{"get", "list", "watch"}

// ours has every resource that mcs-apiserver serves, and what a peer may do with it. A
// resource that is missing here fails the test: somebody has to decide.
var ours = map[string][]string{
	"exportedendpointslices.clusterset.mcs-apiserver.io": reads,
	"exportedservices.clusterset.mcs-apiserver.io":       reads,
	"members.clusterset.mcs-apiserver.io":                reads,
	"clusterclaims.multicluster.k8s.io":                  reads,
	"clusterproperties.about.k8s.io":                     nil,
	"clusterprofiles.multicluster.x-k8s.io":              nil,
	"clusterprofiles/status.multicluster.x-k8s.io":       nil,
	"placementdecisions.multicluster.x-k8s.io":           nil,
	"serviceexports.multicluster.k8s.io":                 nil,
	"serviceexports/status.multicluster.k8s.io":          nil,
	"serviceimports.multicluster.k8s.io":                 nil,
	"serviceexports.multicluster.x-k8s.io":               nil,
	"serviceexports/status.multicluster.x-k8s.io":        nil,
	"serviceimports.multicluster.x-k8s.io":               nil,
}

// hosts has what a peer may do with resources of the kube-apiserver: renew its own token,
// and ask about itself, which every user may.
var hosts = map[string][]string{
	"serviceaccounts/token":                         {"create"},
	"selfsubjectreviews.authentication.k8s.io":      {"create"},
	"selfsubjectaccessreviews.authorization.k8s.io": {"create"},
	"selfsubjectrulesreviews.authorization.k8s.io":  {"create"},
}

// rules are all rules of a peer in the namespace of the installation.
var rules = []string{
	"[create] on [selfsubjectaccessreviews selfsubjectrulesreviews] in [authorization.k8s.io] named []",
	"[create] on [selfsubjectreviews] in [authentication.k8s.io] named []",
	"[create] on [serviceaccounts/token] in [] named [peer-west]",
	"[get list watch] on [clusterclaims] in [multicluster.k8s.io] named []",
	"[get list watch] on [exportedservices exportedendpointslices members] in [clusterset.mcs-apiserver.io] named []",
}

// paths are what every service account may read besides resources.
var paths = []string{
	"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/healthz", "/livez", "/readyz", "/version",
	"/.well-known/openid-configuration", "/openid/v1/jwks",
}

// peerRequest is a request for a resource, or for a path if it has no verb.
type peerRequest struct {
	resource, verb, method, path string
	// own is whether the request is for the service account of the peer, if for any.
	own bool
}

func (a peerRequest) String() string {
	return fmt.Sprintf("%s %s (%s %s)", a.verb, a.resource, a.method, a.path)
}

// allowed reports whether a peer may do it.
func (a peerRequest) allowed() bool {
	if a.verb == "" {
		return slices.ContainsFunc(paths, func(pattern string) bool {
			prefix, any := strings.CutSuffix(pattern, "*")
			return a.path == pattern || any && strings.HasPrefix(a.path, prefix)
		})
	}
	return slices.Contains(slices.Concat(ours[a.resource], hosts[a.resource]), a.verb) && (a.own || a.resource != "serviceaccounts/token")
}

// requestsFor returns all requests for a resource: every verb, whether the resource
// supports it or not, in the namespace of the installation, in another one, and in all.
func requestsFor(version schema.GroupVersion, resource metav1.APIResource) []peerRequest {
	base := path.Join("/apis", version.Group, version.Version)
	if version.Group == "" {
		base = "/api/" + version.Version
	}
	name, subresource, _ := strings.Cut(resource.Name, "/")
	qualified := schema.GroupResource{Group: version.Group, Resource: resource.Name}.String()
	scopes := []string{base}
	if resource.Namespaced {
		scopes = []string{base, base + "/namespaces/" + installation.Namespace, base + "/namespaces/default"}
	}
	var all []peerRequest
	for _, scope := range scopes {
		collection := path.Join(scope, name)
		add := func(verb, method, path string, own bool) {
			all = append(all, peerRequest{qualified, verb, method, path, own && strings.Contains(path, "/"+installation.Namespace+"/")})
		}
		if subresource == "" {
			add("list", http.MethodGet, collection, false)
			add("watch", http.MethodGet, collection+"?watch=true", false)
			add("create", http.MethodPost, collection, false)
			add("deletecollection", http.MethodDelete, collection, false)
		}
		if resource.Namespaced && scope == base {
			continue
		}
		for _, object := range []string{"peer-west", "mcs-apiserver"} {
			item, own := path.Join(collection, object, subresource), object == "peer-west"
			add("get", http.MethodGet, item, own)
			add("update", http.MethodPut, item, own)
			add("patch", http.MethodPatch, item, own)
			add("delete", http.MethodDelete, item, own)
			if subresource != "" {
				add("create", http.MethodPost, item, own)
			}
		}
	}
	return all
}

// discover returns all requests that a server could serve.
func discover(t *testing.T, config *rest.Config) []peerRequest {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	expect.NoError(t, err)
	_, lists, err := client.ServerGroupsAndResources()
	expect.NoError(t, err)
	var all []peerRequest
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		expect.NoError(t, err)
		for _, resource := range list.APIResources {
			all = append(all, requestsFor(version, resource)...)
		}
	}
	var index metav1.RootPaths
	raw, err := client.RESTClient().Get().AbsPath("/").DoRaw(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, json.Unmarshal(raw, &index))
	for _, path := range append(index.Paths, "/", "/debug/pprof/", "/configz", "/flagz", "/statusz", "/readyz/storage") {
		all = append(all, peerRequest{method: http.MethodGet, path: path})
	}
	return all
}

// R255: of all resources and verbs of both servers, a peer may use exactly those that are
// listed above; everything else is 403.
func TestWhatAPeerMayDo(t *testing.T) {
	join(t, "east", "west")
	admin, err := east().Plane.AdminConfig()
	expect.NoError(t, err)
	direct, err := east().APIServers[0].Config()
	expect.NoError(t, err)
	peer := peerConfigs(t, west(), east())
	for server, config := range map[string]*rest.Config{"kube-apiserver": admin, "mcs-apiserver": direct} {
		t.Run(server, func(t *testing.T) {
			all := discover(t, config)
			if server == "mcs-apiserver" {
				expectDecided(t, all)
			}
			expectAnswers(t, peer[server], all)
		})
	}
	// Verbs that no request has, such as impersonate.
	client, err := kubernetes.NewForConfig(peer["kube-apiserver"])
	expect.NoError(t, err)
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: installation.Namespace}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	found := sets.New[string]()
	for _, rule := range review.Status.ResourceRules {
		found.Insert(fmt.Sprintf("%v on %v in %v named %v", rule.Verbs, rule.Resources, rule.APIGroups, rule.ResourceNames))
	}
	if !slices.Equal(sets.List(found), rules) || review.Status.Incomplete {
		t.Errorf("rules of a peer are\n%s", strings.Join(sets.List(found), "\n"))
	}
}

// expectDecided fails for resources of mcs-apiserver that nobody has decided about, and
// for those that do not exist.
func expectDecided(t *testing.T, all []peerRequest) {
	t.Helper()
	served := sets.New[string]()
	for _, wanted := range all {
		if wanted.verb != "" {
			served.Insert(wanted.resource)
		}
	}
	if decided := sets.New(slices.Collect(maps.Keys(ours))...); !decided.Equal(served) {
		t.Errorf("decide what a peer may do with %v; %v are not served", sets.List(served.Difference(decided)), sets.List(decided.Difference(served)))
	}
}

// expectAnswers sends all requests as a peer.
func expectAnswers(t *testing.T, config *rest.Config, all []peerRequest) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	var sending errgroup.Group
	sending.SetLimit(4)
	for _, wanted := range all {
		sending.Go(func() error {
			ctx, cancel := context.WithCancel(t.Context()) // ends a watch
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, wanted.method, config.Host+wanted.path, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[wanted.verb == "patch"])
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			response.Body.Close()
			if got := response.StatusCode; (got == http.StatusForbidden) == wanted.allowed() || got == http.StatusUnauthorized || got >= http.StatusInternalServerError {
				t.Errorf("%s: %d, allowed should be %v", wanted, got, wanted.allowed())
			}
			return nil
		})
	}
	expect.NoError(t, sending.Wait())
	t.Logf("sent %d requests", len(all))
}
