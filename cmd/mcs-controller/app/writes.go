// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// rest_client_requests_total does not tell what was written.
var writes = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_controller", Name: "writes_total", StabilityLevel: metrics.ALPHA,
	Help: "Requests of mcs-controller that write, by resource, verb and the code of the response: error if there was none, and NamespaceTerminating instead of 403 if the namespace is being deleted.",
}, []string{"resource", "verb", "code"})

var leading = metrics.NewGauge(&metrics.GaugeOpts{
	Namespace: "mcs_controller", Name: "leading", StabilityLevel: metrics.ALPHA,
	Help: "1 while this replica of mcs-controller leads, that is, writes derived Services and imported endpoints, and 0 otherwise.",
})

// measureLeading records whether this replica leads.
func measureLeading(leads bool) {
	value := 0.0
	if leads {
		value = 1
	}
	leading.Set(value)
}

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(writes, leading) })

var (
	requestInfo = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	writeVerbs  = sets.New("create", "update", "patch", "delete", "deletecollection")
)

// countWrites counts the requests that write.
func countWrites(next http.RoundTripper) http.RoundTripper { return countedWrites{next} }

type countedWrites struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c countedWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if info, ok := written(r); ok {
		writes.WithLabelValues(path.Join(info.Resource, info.Subresource), info.Verb, code(response, err)).Inc()
	}
	return response, err
}

// maxStatus is how much is read of a response that refuses a request.
const maxStatus = 64 << 10

// code returns the code of a response. That nothing can be created in a namespace that is being
// deleted is to be expected, unlike other reasons of the same code.
func code(response *http.Response, err error) string {
	if err != nil {
		return "error"
	}
	if response.StatusCode == http.StatusForbidden {
		// The cause is the same text in all encodings. Clients read the body again.
		start, _ := io.ReadAll(io.LimitReader(response.Body, maxStatus)) // which fails again if it failed
		response.Body = readCloser{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
		if bytes.Contains(start, []byte(corev1.NamespaceTerminatingCause)) {
			return string(corev1.NamespaceTerminatingCause)
		}
	}
	return strconv.Itoa(response.StatusCode)
}

// readCloser reads from one reader and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// written returns what a request writes, and false if it does not write. Reviews are created, but
// not stored.
func written(r *http.Request) (*request.RequestInfo, bool) {
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest || !writeVerbs.Has(info.Verb) {
		return nil, false
	}
	return info, info.APIGroup != authenticationv1.GroupName && info.APIGroup != authorizationv1.GroupName
}
