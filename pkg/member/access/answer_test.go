// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// get requests a path of a server with what ClientConfig returns for it, and
// reads the response.
func get(t *testing.T, limit int64, path string, handler http.HandlerFunc) ([]byte, error) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, err := ClientConfig(kubeconfig(t, &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority}, &clientcmdapi.AuthInfo{Token: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if limit > 0 {
		ctx = WithLimit(ctx, limit)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// R200: a small response that is large once it is decompressed is not read.
func TestCompressedResponsesAreRefused(t *testing.T) {
	_, err := get(t, 0, "/", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values("Accept-Encoding"); len(got) != 1 || got[0] != "identity" {
			t.Errorf("requested %q", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		_, _ = io.CopyN(compressed, zeros{}, 64<<20)
		_ = compressed.Close()
	})
	if err == nil || !strings.Contains(err.Error(), `response is compressed ("gzip")`) {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) { return len(buffer), nil }

// R200: the size of a response is limited; in a watch, that of each event.
func TestResponsesAreLimited(t *testing.T) {
	const event = `{"a":1}` + "\n" // costs 24
	const cost = int64(len(event) + fieldCost)
	for _, test := range []struct {
		name, path, body string
		limit            int64
		tooLarge         bool
	}{
		{"small", "/", event, cost, false},
		{"exceeding the limit", "/", event, cost - 2, true},
		{"by default", "/", strings.Repeat(" ", DefaultLimit), 0, false},
		{"exceeding the default", "/", strings.Repeat(" ", DefaultLimit+1), 0, true},
		{"small events", "/?watch=true", strings.Repeat(event, 1000), cost, false},
		{"many small values that are no events", "/", strings.Repeat(event, 1000), cost, true},
		{"a large event after small ones", "/?watch=true", strings.Repeat(event, 10) + `{"a":"` + strings.Repeat("x", 100), cost, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			body, err := get(t, test.limit, test.path, answer(test.body))
			var tooLarge TooLargeError
			if errors.As(err, &tooLarge) != test.tooLarge || (err == nil) != !test.tooLarge || err == nil && string(body) != test.body {
				t.Errorf("read %d bytes: %v", len(body), err)
			}
			if test.tooLarge && tooLarge.Watch != strings.Contains(test.path, "watch") {
				t.Errorf("%v", err)
			}
		})
	}
}

// R200: an endless response ends at the limit.
func TestEndlessResponseEnds(t *testing.T) {
	_, err := get(t, 1<<20, "/?watch=true", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"x":"`)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
				return
			}
		}
	})
	if err == nil || err.Error() != "event of a watch is larger than the limit: decoding it would take more than 1Mi" {
		t.Errorf("got %v", err)
	}
}

// R200: errors are logged, and limited accordingly; warnings are not logged at all.
func TestErrorsAreShort(t *testing.T) {
	_, err := get(t, 1<<20, "/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, strings.Repeat("x", errorLimit+1))
	})
	if err == nil || err.Error() != "response is larger than the limit: decoding it would take more than 16Ki" {
		t.Errorf("got %v", err)
	}
	config, err := ClientConfig(kubeconfig(t, &clientcmdapi.Cluster{Server: "https://b"}, &clientcmdapi.AuthInfo{Token: "x"}))
	if err != nil || config.WarningHandler != (rest.NoWarnings{}) {
		t.Errorf("warnings are passed to %T: %v", config.WarningHandler, err)
	}
}

// Events are told apart by the rules of JSON.
func TestWatchOfAnotherTypeIsRefused(t *testing.T) {
	_, err := get(t, 0, "/?watch=true", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/cbor-seq") })
	if err == nil || !strings.Contains(err.Error(), `response is of type "application/cbor-seq", want application/json`) {
		t.Errorf("got %v", err)
	}
}

// R281: a member does not decide how long this process waits.
func TestRetryAfterIsIgnored(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		requests := 0
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.Header().Set("Retry-After", "604800")
			w.WriteHeader(code)
		}))
		t.Cleanup(server.Close)
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		config, err := ClientConfig(kubeconfig(t, &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: authority}, &clientcmdapi.AuthInfo{Token: "x"}))
		if err != nil {
			t.Fatal(err)
		}
		config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, scheme.Codecs.WithoutConversion()
		client, err := rest.RESTClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err = client.Get().AbsPath("/x").Do(ctx).Error()
		cancel()
		if requests != 1 || !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%d: %d requests, %v", code, requests, err)
		}
	}
}
