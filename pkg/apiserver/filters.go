// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

// exporters knows which clusters export a Service.
type exporters interface {
	Clusters(namespace, name string) []string
}

// advice returns, for a request that would write a virtual resource, what the
// resource is computed from and what to do instead.
type advice func(info *request.RequestInfo, exporters exporters) string

func adviseExportedService(*request.RequestInfo, exporters) string {
	return "ExportedServices are computed from the ServiceExports and Services of their source cluster; change those instead"
}

func adviseExportedEndpointSlice(*request.RequestInfo, exporters) string {
	return "ExportedEndpointSlices are computed from the EndpointSlices of their source cluster; change those instead"
}

func adviseMember(*request.RequestInfo, exporters) string {
	return fmt.Sprintf("Members are computed from the Secrets of type %s; create, change or delete a Secret instead", clusterset.MemberSecretType)
}

func adviseClusterProperty(info *request.RequestInfo, _ exporters) string {
	name := info.Name
	if name == "" || name == about.ClusterIDProperty {
		name = multicluster.ClusterIDClaim
	}
	const computed = "ClusterProperties are computed from the ClusterClaims of this cluster; "
	if name == multicluster.ClusterSetClaim { // immutable
		return computed + fmt.Sprintf("create or delete ClusterClaim %s instead to join or leave a ClusterSet", name)
	}
	return computed + fmt.Sprintf("change the ClusterClaim instead (kubectl edit clusterclaim %s)", name)
}

func adviseServiceImport(info *request.RequestInfo, exporters exporters) string {
	const computed = "ServiceImports are computed from the ServiceExports of all clusters in the ClusterSet; "
	switch info.Verb {
	case "create":
		return computed + fmt.Sprintf("create a ServiceExport of the same name in namespace %q of the cluster that has the Service", info.Namespace)
	case "delete", "deletecollection":
		in := "the exporting clusters"
		if clusters := exporters.Clusters(info.Namespace, info.Name); len(clusters) > 0 {
			in = "clusters " + strings.Join(clusters, ", ")
			if len(clusters) == 1 {
				in = "cluster " + clusters[0]
			}
		}
		if info.Verb == "deletecollection" {
			return computed + fmt.Sprintf("delete the ServiceExports in namespace %q of %s", info.Namespace, in)
		}
		return computed + fmt.Sprintf("delete ServiceExport %q in namespace %q of %s", info.Name, info.Namespace, in)
	}
	return computed + fmt.Sprintf("change Service %q or ServiceExport %q in namespace %q of the exporting clusters", info.Name, info.Name, info.Namespace)
}

// withVirtualRefusal rejects writes to virtual resources and says what to do
// instead. Discovery does not offer such writes, so that the API server itself
// would answer with a bare 405. The filter runs after authentication,
// authorization and audit.
func withVirtualRefusal(next http.Handler, resources []virtualResource, exporters exporters) http.Handler {
	advised := adviceFor(resources)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb == "get" || info.Verb == "list" || info.Verb == "watch" {
			next.ServeHTTP(w, r)
			return
		}
		resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		advise, virtual := advised[resource]
		if !virtual {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", http.MethodGet)
		refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: fmt.Sprintf("%s is read-only, verb %q is not allowed: %s", resource, info.Verb, advise(info, exporters)),
			Details: &metav1.StatusDetails{Group: info.APIGroup, Kind: info.Resource, Name: info.Name},
		}}
		responsewriters.ErrorNegotiated(refusal, Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}

// withKnownProxies answers requests that the kube-apiserver forwards with 503 until the
// authority of its client certificate is known, which the library reads after it began to
// serve. Until then, they would count as anonymous and be refused with 403, which clients
// do not retry. The filter runs before authentication.
func withKnownProxies(next http.Handler, proxies *authenticatorfactory.RequestHeaderConfig) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(proxies.CAContentProvider.CurrentCABundleContent()) == 0 && isForwarded(r, proxies) {
			responsewriters.ErrorNegotiated(gate.Unavailable("mcs-apiserver has not read the authority of the kube-apiserver yet, "+
				"from the key requestheader-client-ca-file of the ConfigMap kube-system/extension-apiserver-authentication"), Codecs, schema.GroupVersion{}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isForwarded reports whether the kube-apiserver forwarded a request. It is not verified yet.
func isForwarded(r *http.Request, proxies *authenticatorfactory.RequestHeaderConfig) bool {
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 &&
		slices.ContainsFunc(proxies.UsernameHeaders.Value(), func(header string) bool { return r.Header.Get(header) != "" })
}

// withHandback ends watches of clients when the group-versions that CRDs may serve return to
// them. mcs-controller does not read them through the kube-apiserver. The filter runs before
// authentication, which removes what shows that a request was forwarded.
func withHandback(next http.Handler, proxies *authenticatorfactory.RequestHeaderConfig, signal *handback.Signal) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/"+multicluster.XGroupName+"/") && isForwarded(r, proxies) {
			r = r.WithContext(signal.WithSignal(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}

// withOpenStorage answers requests that need storage with 503 and the reason while
// storage is closed. The requests of this server itself wait instead: its informers
// would retry up to a minute later. The filter runs after authentication.
func withOpenStorage(next http.Handler, storage *gate.Gate, needsStorage func(*request.RequestInfo) bool, stopping <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !needsStorage(info) {
			next.ServeHTTP(w, r)
			return
		}
		err := storage.Usable()
		if requester, ok := request.UserFrom(r.Context()); err != nil && ok && requester.GetName() == user.APIServerUser {
			err = awaitStorage(r.Context(), storage, stopping)
		}
		if err != nil {
			responsewriters.ErrorNegotiated(err, Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// awaitStorage waits until storage is open, the context ends or the server stops.
func awaitStorage(ctx context.Context, storage *gate.Gate, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-stopping:
		case <-ctx.Done():
		}
	}()
	return storage.Await(ctx)
}
