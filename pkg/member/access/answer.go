// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// DefaultLimit is how much memory it may take to decode a response, unless
// WithLimit sets another limit. What is read once, such as the members list of a
// hub with a thousand members, needs less.
const DefaultLimit = 4 << 20

// errorLimit is how much memory it may take to decode an error. Errors are logged.
const errorLimit = 16 << 10

type limitKey struct{}

// WithLimit limits the memory that it may take to decode a response to requests
// with the context, in bytes: of the whole response, or of each event of a watch.
func WithLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// TooLargeError reports that a cluster responds with more than is read.
type TooLargeError struct {
	Limit int64
	// Watch is set if an event of a watch is too large.
	Watch bool
}

// Error implements error.
func (e TooLargeError) Error() string {
	what := "response"
	if e.Watch {
		what = "event of a watch"
	}
	return fmt.Sprintf("%s is larger than the limit: decoding it would take more than %s", what, resource.NewQuantity(e.Limit, resource.BinarySI))
}

// Reason is the reason of the condition that reports the error.
func (TooLargeError) Reason() string { return clusterset.ReasonResponseTooLarge }

// bounded requests responses that are not compressed, and ends those that are
// too large: another cluster must not be able to use up the memory of this process.
type bounded struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Accept-Encoding", "identity")
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Header.Del("Retry-After") // the client would wait that long; callers retry sooner, and say what failed
	if encoding := response.Header.Get("Content-Encoding"); response.Uncompressed || encoding != "" && encoding != "identity" {
		_ = response.Body.Close()
		return nil, fmt.Errorf("response is compressed (%.100q), although that was not requested: it could be of any size", encoding)
	}
	watch := request.URL.Query().Get("watch") == "true" && response.StatusCode == http.StatusOK
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); watch && (err != nil || kind != "application/json") {
		_ = response.Body.Close()
		return nil, fmt.Errorf("response is of type %.100q, want application/json", response.Header.Get("Content-Type"))
	}
	limit, ok := request.Context().Value(limitKey{}).(int64)
	if !ok {
		limit = DefaultLimit
	}
	if response.StatusCode >= http.StatusBadRequest {
		limit = min(limit, errorLimit)
	}
	response.Body = &boundedBody{ReadCloser: response.Body, limit: limit, watch: watch}
	return response, nil
}

// boundedBody fails when its content, or an event in it, becomes too large.
type boundedBody struct {
	io.ReadCloser
	limit   int64
	watch   bool
	scanner scanner
}

// Read implements io.Reader.
func (b *boundedBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	for _, next := range buffer[:n] {
		if b.scanner.next(next) && b.watch {
			b.scanner.cost = 0
		}
		if b.scanner.cost > b.limit {
			return 0, TooLargeError{Limit: b.limit, Watch: b.watch}
		}
	}
	return n, err
}
