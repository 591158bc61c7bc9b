// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// RefuseRedirects makes all clients of a config fail at a redirect. Transports add credentials to every
// request, to whichever host it goes: a server that redirects, or a Pod or Service behind it, could have
// them sent to itself, or have something else read than what was asked for. Servers of the Kubernetes API do
// not redirect.
func RefuseRedirects(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return straight{next} })
}

// straight does not return redirects.
type straight struct{ http.RoundTripper }

func (s straight) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices || response.StatusCode >= http.StatusBadRequest {
		return response, err
	}
	response.Body.Close()
	return nil, fmt.Errorf("the server redirects (status %d) to %q, which is not followed: correct the server of the context", response.StatusCode, response.Header.Get("Location"))
}

// WrappedRoundTripper returns what is wrapped, which libraries look for.
func (s straight) WrappedRoundTripper() http.RoundTripper { return s.RoundTripper }
