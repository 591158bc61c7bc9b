// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// sink holds what a feed reads.
type sink struct {
	mu      sync.Mutex
	objects map[exports.Key]exports.Object
	// problems are refusals and failures.
	problems []string
	claims   identity.Claims
	entries  *response.Entries
}

func (s *sink) Replace(kind exports.Kind, arrivals []exports.Arrival) {
	s.mu.Lock()
	for key := range s.objects {
		if key.Kind == kind {
			delete(s.objects, key)
		}
	}
	s.mu.Unlock()
	for _, arrival := range arrivals {
		s.Upsert(arrival)
	}
}

func (s *sink) Upsert(arrival exports.Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[arrival.Object.Key()] = arrival.Object
	if !arrival.Admitted || arrival.Err != nil {
		s.problems = append(s.problems, fmt.Sprint(arrival.Object.Key(), arrival.Err))
	}
}

func (s *sink) Remove(object exports.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, object.Key())
}

func (s *sink) ReadFailed(kind exports.Kind, err error) { s.failed(kind.String(), err) }

func (s *sink) ClaimsFailed(err error) { s.failed("claims", err) }

func (s *sink) failed(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.problems = append(s.problems, what+": "+err.Error())
	}
}

func (s *sink) ClaimsRead(claims identity.Claims) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = claims
}

func (s *sink) Probed(entries *response.Entries, err error) {
	s.failed("probe", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = entries
}

// counts returns how many services and endpoints are known.
func (s *sink) counts() (services, endpoints int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, object := range s.objects {
		switch slice, ok := object.Object.(*clusterset.ExportedEndpointSlice); {
		case ok:
			endpoints += len(slice.Spec.Endpoints)
		case key.Kind == exports.Services:
			services++
		}
	}
	return services, endpoints
}

// The feed with which clusters read members admits all that the generator exports.
func TestFeedAdmitsEverything(t *testing.T) {
	member := startMember(t)
	member.Export(web, 100)
	member.Export(large, 10)
	secret := expect.Must(member.Secret(nil))(t)
	config := expect.Must(clientcmd.RESTConfigFromKubeConfig(secret[clusterset.MemberSecretKubeconfig]))(t)
	token := config.BearerToken
	config.BearerToken = "" // the feed adds it
	read := &sink{objects: map[exports.Key]exports.Object{}}
	policy := exports.Policy{Self: "home", Member: "west", Limits: exports.DefaultLimits()}
	reading := feed.New(feed.Config{
		Name: "west", ClusterID: "west", Self: "home", MemoryLimit: exports.DefaultMemoryLimit, Budget: feed.NewBudget(exports.DefaultMemoryLimit),
		Client: config, Tokens: []string{token}, Clock: clock.RealClock{}, Admit: policy.Admit, Sink: read,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reading.Run(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()
	await := func(services int) {
		t.Helper()
		expect.Within(t, 30*time.Second, "exports of the member", func(context.Context) error {
			wanted, endpoints := member.Totals()
			gotServices, gotEndpoints := read.counts()
			if gotServices != services || gotServices != wanted || gotEndpoints != endpoints {
				return fmt.Errorf("%d services and %d endpoints, want %d and %d", gotServices, gotEndpoints, wanted, endpoints)
			}
			return nil
		})
	}
	await(110)
	member.Export(web, 150)
	await(160)
	member.Export(large, 0)
	await(150)
	read.mu.Lock()
	defer read.mu.Unlock()
	if len(read.problems) > 0 {
		t.Errorf("problems: %v", read.problems)
	}
	if read.claims.ID != "west" || read.claims.ClusterSet != "set" || read.entries == nil || read.entries.Members["west"] == nil || read.entries.Refused > 0 {
		t.Errorf("claims %+v, entries %+v", read.claims, read.entries)
	}
}
