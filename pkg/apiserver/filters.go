// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// exporters says which clusters export a service.
type exporters interface {
	Clusters(namespace, name string) []string
}

// advice says, for a computed resource, what it is computed from and what to
// do instead of writing to it.
type advice func(info *request.RequestInfo, exporters exporters) string

var computedAdvice = map[schema.GroupResource]advice{
	multicluster.XResource("serviceimports"): adviseImport,
	multicluster.Resource("serviceimports"):  adviseImport,
	clusterset.Resource("exportedservices"): func(*request.RequestInfo, exporters) string {
		return "it is computed from the ServiceExports and Services of the cluster that it comes from: change these there"
	},
	clusterset.Resource("exportedendpointslices"): func(*request.RequestInfo, exporters) string {
		return "it is computed from the EndpointSlices of the cluster that it comes from: change these there"
	},
	clusterset.Resource("members"): func(*request.RequestInfo, exporters) string {
		return "it is computed from the Secrets of type clusterset.mcs-apiserver.io/member: create, change or delete these"
	},
	about.Resource("clusterproperties"): func(info *request.RequestInfo, _ exporters) string {
		name := info.Name
		if name == "" || name == about.ClusterIDProperty {
			name = multicluster.ClusterIDClaim
		}
		return fmt.Sprintf("it shows the ClusterClaims of this cluster: change a claim instead (kubectl edit clusterclaim %s)", name)
	},
}

func adviseImport(info *request.RequestInfo, exporters exporters) string {
	const computed = "it is computed from the ServiceExports of all clusters of the ClusterSet: "
	name := info.Name
	if name == "" {
		name = "NAME"
	}
	target := fmt.Sprintf("the ServiceExport %q in namespace %q", name, info.Namespace)
	switch info.Verb {
	case "create":
		return computed + fmt.Sprintf("create %s in the cluster that has the Service", strings.Replace(target, `"NAME"`, "of that name", 1))
	case "delete", "deletecollection":
		where := "the clusters that export it"
		if clusters := exporters.Clusters(info.Namespace, info.Name); len(clusters) > 0 {
			where = strings.Join(clusters, ", ")
		}
		if info.Verb == "deletecollection" {
			target = fmt.Sprintf("the ServiceExports in namespace %q", info.Namespace)
		}
		return computed + fmt.Sprintf("delete %s in %s", target, where)
	}
	return computed + fmt.Sprintf("change the Service %q or %s in the clusters that export it", name, target)
}

// withComputedRefusal answers writes to computed resources with what to do
// instead. Discovery does not offer such writes, so without it the answer
// would be a bare 405. It stands behind authentication, authorization and audit.
func withComputedRefusal(next http.Handler, exporters exporters) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb == "get" || info.Verb == "list" || info.Verb == "watch" {
			next.ServeHTTP(w, r)
			return
		}
		resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		advise, computed := computedAdvice[resource]
		if !computed {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", http.MethodGet)
		refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: fmt.Sprintf("%s cannot be written (%s): %s", resource, info.Verb, advise(info, exporters)),
			Details: &metav1.StatusDetails{Group: info.APIGroup, Kind: info.Resource, Name: info.Name},
		}}
		responsewriters.ErrorNegotiated(refusal, Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}

// readers notes which clusters read from this one.
type readers interface {
	Heard(userAgent string)
}

// withReaders notes who asks for members: every cluster that has this one for
// a member does, and says which cluster it is.
func withReaders(next http.Handler, readers readers) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.APIGroup == clusterset.GroupName && info.Resource == "members" {
			readers.Heard(r.UserAgent())
		}
		next.ServeHTTP(w, r)
	})
}
