// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"
)

// Clients of client-go repeat any request after a 5xx that has Retry-After.
func TestOnlyWritesThatWereNotDoneAreToBeRepeated(t *testing.T) {
	for what, test := range map[string]struct {
		// failure is an error without a response; otherwise status and reason are the response.
		failure error
		status  int
		reason  string

		code   int32
		repeat bool
	}{
		"connection refused":   {failure: syscall.ECONNREFUSED, code: http.StatusServiceUnavailable, repeat: true},
		"connection lost":      {failure: io.ErrUnexpectedEOF, code: http.StatusGatewayTimeout},
		"no response":          {failure: context.DeadlineExceeded, code: http.StatusGatewayTimeout},
		"error of the host":    {status: http.StatusInternalServerError, reason: "InternalError", code: http.StatusGatewayTimeout},
		"host without storage": {status: http.StatusServiceUnavailable, reason: "ServiceUnavailable", code: http.StatusGatewayTimeout},
		"timeout in the host":  {status: http.StatusInternalServerError, reason: "ServerTimeout", code: http.StatusGatewayTimeout},
		"no permission":        {status: http.StatusForbidden, reason: "Forbidden", code: http.StatusServiceUnavailable, repeat: true},
		"overloaded":           {status: http.StatusTooManyRequests, reason: "TooManyRequests", code: http.StatusTooManyRequests, repeat: true},
	} {
		host := configMaps{namespace: "mcs-storage", client: &fake.RESTClient{
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion, VersionedAPIPath: "/api/v1",
			Client: fake.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
				if test.failure != nil {
					return nil, &url.Error{Op: request.Method, URL: request.URL.String(), Err: test.failure}
				}
				body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "details": {"retryAfterSeconds": 1}}`, test.reason, test.status)
				return &http.Response{
					StatusCode: test.status, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: request, Body: io.NopCloser(bytes.NewBufferString(body)),
				}, nil
			}),
		}}
		wrapper := &corev1.ConfigMap{}
		wrapper.Name = "wrapper"
		for verb, write := range map[string]func() error{
			"create": func() error { _, err := host.create(t.Context(), wrapper); return err },
			"update": func() error { _, err := host.update(t.Context(), wrapper); return err },
			"delete": func() error { return host.delete(t.Context(), wrapper) },
		} {
			err := unavailable(write())
			got, ok := err.(apierrors.APIStatus)
			if !ok || got.Status().Code != test.code {
				t.Errorf("%s: %s: got %v, want %d", what, verb, err, test.code)
				continue
			}
			if _, repeat := apierrors.SuggestsClientDelay(err); repeat != test.repeat {
				t.Errorf("%s: %s: asks the client to repeat: %v, want %v (%v)", what, verb, repeat, test.repeat, err)
			}
		}
	}
}
