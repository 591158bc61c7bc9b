// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

const fuzzedKubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: https://b.example}}], users: [{name: u, user: {token: x}}]}`

// FuzzFeed reads a member that answers every request with any bytes, in the form of a list, a
// watch or an error, and goes on to do so.
//
// R366: nothing that arrives is beyond the limits, invalid, or of another cluster, and reading
// goes on: the feed ends when it is told to.
//
// R368: whatever the member answers, it is not asked all the time.
func FuzzFeed(f *testing.F) {
	service, err := json.Marshal(membertest.ExportedService("b", "web"))
	if err != nil {
		f.Fatal(err)
	}
	slice, err := json.Marshal(membertest.ExportedSlice("b", "web", "web-1"))
	if err != nil {
		f.Fatal(err)
	}
	list := func(kind string, items ...string) []byte {
		return []byte(`{"apiVersion":"clusterset.mcs-apiserver.io/v1alpha1","kind":"` + kind + `","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(items, ",") + `]}`)
	}
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object + `}` + "\n" }
	typed := func(kind, object string) string {
		return `{"apiVersion":"clusterset.mcs-apiserver.io/v1alpha1","kind":"` + kind + `",` + object[1:]
	}
	f.Add(list("ExportedServiceList", string(service)), []byte(event("ADDED", typed("ExportedService", string(service)))+event("DELETED", typed("ExportedService", string(service)))), uint16(0))
	f.Add(list("ExportedEndpointSliceList", string(slice)), []byte(event("MODIFIED", typed("ExportedEndpointSlice", string(slice)))+event("BOOKMARK", `{}`)), uint16(0))
	late := strings.Replace(string(slice), `"spec":{`, `"spec":{"changedAt":"9999-12-31T23:59:59.000000-01:00",`, 1)
	f.Add(list("ExportedEndpointSliceList", late), []byte(event("MODIFIED", typed("ExportedEndpointSlice", late))), uint16(0))
	f.Add([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}`), []byte(event("ERROR", `{"kind":"Status","apiVersion":"v1","code":410}`)), uint16(210))
	f.Add([]byte(`{"items":null,"metadata":{"continue":"x"}}`), []byte(`{}`), uint16(0))
	f.Add([]byte(nil), []byte(nil), uint16(102))
	f.Fuzz(func(t *testing.T, list, watch []byte, above uint16) {
		synctest.Test(t, func(t *testing.T) {
			config, err := access.ClientConfig([]byte(fuzzedKubeconfig))
			if err != nil {
				t.Fatal(err)
			}
			member := &answers{list: list, watch: watch, code: http.StatusOK + int(above)%400}
			config.Transport = member
			policy := exports.Policy{Self: "a", Member: "b", AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Limits: exports.DefaultLimits()}
			sink := &fuzzedSink{t: t}
			const limit = 1 << 20
			feed := New(Config{
				Name: "b", ClusterID: "b", Self: "a", MemoryLimit: limit, Budget: NewBudget(limit), Client: config, Clock: clock.RealClock{},
				Admit: policy.Admit, Sink: sink,
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			feed.Run(ctx)
			if asked := member.asked.Load(); asked > requestBurst+6*requestRate {
				t.Fatalf("the member was asked %d times", asked)
			}
			if sink.outcomes == 0 { // not guarded: nothing is reported after Run
				t.Fatal("the feed reports nothing")
			}
		})
	})
}

// answers is a member that gives the same answers to all requests.
type answers struct {
	list, watch []byte
	code        int
	asked       atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	a.asked.Add(1)
	body := a.list
	if request.URL.Query().Get("watch") == "true" {
		body = a.watch
	}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"https://evil.example"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1,
	}, nil
}

// fuzzedSink checks everything that a feed passes.
type fuzzedSink struct {
	t        *testing.T
	mu       sync.Mutex
	outcomes int
}

func (s *fuzzedSink) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes++
}

func (s *fuzzedSink) fail(err error) {
	s.count()
	if err != nil && len([]rune(err.Error())) > 2*maxError {
		s.t.Errorf("an error has %d bytes", len(err.Error()))
	}
}

// Replace implements Sink.
func (s *fuzzedSink) Replace(kind exports.Kind, arrivals []exports.Arrival) {
	s.count()
	if len(arrivals) > maxObjects[kind] {
		s.t.Errorf("%d %s arrived", len(arrivals), kind)
	}
	for _, arrival := range arrivals {
		if arrival.Object.Kind != kind {
			s.t.Errorf("%+v arrived as %s", arrival.Object, kind)
		}
		s.Upsert(arrival)
	}
}

// Upsert implements Sink.
func (s *fuzzedSink) Upsert(arrival exports.Arrival) {
	s.count()
	if !arrival.Admitted {
		return
	}
	if arrival.Object.Cluster != "b" || arrival.Object.Bytes <= 0 {
		s.t.Errorf("%+v arrived", arrival.Object)
	}
	switch object := arrival.Object.Object.(type) {
	case *clusterset.ExportedService:
		if errs := validation.ValidateExportedService(object); len(errs) > 0 {
			s.t.Error(errs)
		}
	case *clusterset.ExportedEndpointSlice:
		if errs := validation.ValidateExportedEndpointSlice(object); len(errs) > 0 {
			s.t.Error(errs)
		}
		for _, endpoint := range object.Spec.Endpoints {
			for _, address := range endpoint.Addresses {
				if !strings.HasPrefix(address, "10.") {
					s.t.Errorf("address %s arrived", address)
				}
			}
		}
	default:
		s.t.Errorf("%T arrived", object)
	}
}

// Remove implements Sink.
func (s *fuzzedSink) Remove(exports.Object) { s.count() }

// ReadFailed implements Sink.
func (s *fuzzedSink) ReadFailed(_ exports.Kind, err error) { s.fail(err) }

// ClaimsRead implements Sink.
func (s *fuzzedSink) ClaimsRead(claims identity.Claims) {
	s.count()
	if year := claims.ClaimedAt.UTC().Year(); year < 0 || year > 9999 || len(claims.ID)+len(claims.ClusterSet) > access.DefaultLimit {
		s.t.Errorf("claims %+v", claims)
	}
}

// ClaimsFailed implements Sink.
func (s *fuzzedSink) ClaimsFailed(err error) { s.fail(err) }

// Probed implements Sink.
func (s *fuzzedSink) Probed(entries *response.Entries, err error) {
	s.count()
	if err == nil && (entries == nil || len(entries.Members) > response.MaxClusters+1) {
		s.t.Errorf("entries %+v", entries)
	}
}
