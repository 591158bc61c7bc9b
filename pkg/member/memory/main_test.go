// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// replica is a Recorder of a server whose Secrets are for clusters b and h.
type replica struct {
	*Recorder
	t *testing.T
}

// newReplica returns a Recorder that has read the memory.
func newReplica(t *testing.T, store record.Store) (*replica, map[string]Member) {
	t.Helper()
	r := &replica{NewRecorder(store, Unopposed, clock.RealClock{}), t}
	recalled, err := r.Load(t.Context(), map[string]string{"member-b": "b", "member-h": "h"})
	membertest.Must(t, err)
	return r, recalled
}

// newWriter returns a Recorder that is elected.
func newWriter(t *testing.T, store record.Store) *replica {
	t.Helper()
	r, _ := newReplica(t, store)
	membertest.Must(t, r.TakeOver(t.Context()))
	return r
}

func (r *replica) flush() {
	r.t.Helper()
	if !r.Flush(r.t.Context()) {
		r.t.Fatal("it could not be written")
	}
}

// service returns a Service of a cluster, as one member exports it.
func service(t testing.TB, cluster, name string) (exports.Ref, *clusterset.ExportedService) {
	t.Helper()
	object, err := exports.Decode(membertest.ExportedService(cluster, name))
	if err != nil {
		t.Fatal(err)
	}
	return exports.Ref{Cluster: cluster, Service: object.Service}, object.Object.(*clusterset.ExportedService)
}

// record records Services of a cluster, as that cluster exports them.
func (r *replica) record(id string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		ref, service := service(r.t, id, name)
		r.Record(r.Epoch(id), id, uidOf(id), ref, service)
	}
}

// many returns the names of Services.
func many(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("web-%d", i)
	}
	return names
}

func uidOf(id string) types.UID { return types.UID("uid-" + id) }

// heard records a contact with a member whose Services are all known.
func (r *replica) heard(id string) { r.RecordContact(id, uidOf(id), contactOf(id)) }

func contactOf(id string) Contact {
	return Contact{ClaimedAt: membertest.Epoch, Secret: "member-" + id, CIDRs: []string{"243.1.0.0/16"}, Properties: []clusterset.ClusterProperty{{Name: "region", Value: "eu"}}}
}

// recalled returns what a server that starts now would recall.
func recalled(t *testing.T, store record.Store) map[string]Member {
	t.Helper()
	_, members := newReplica(t, store)
	return members
}

// names returns the names of the Services of a member.
func names(member Member) string {
	var names []string
	for _, object := range member.Services {
		names = append(names, object.Service.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
