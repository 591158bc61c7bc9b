// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	random "crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

func loaded(t *testing.T, memory *Memory) map[string]Member {
	t.Helper()
	members, err := memory.load(t.Context(), func(key string, err error) { t.Errorf("%s cannot be decoded: %v", key, err) })
	membertest.Must(t, err)
	return members
}

func names(member Member) string {
	var names []string
	for _, object := range member.Objects {
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func decodeObject(t *testing.T, object any) exports.Object {
	t.Helper()
	decoded, err := exports.Decode(object)
	membertest.Must(t, err)
	return decoded
}

func TestAnotherUIDIsAnotherMember(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	f := decodeObject(t, membertest.ExportedService("b", "web"))
	recorder.Record(0, "b", "old", exports.Ref{Cluster: "b", Service: f.Service}, []exports.Object{f})
	recorder.RecordContact("b", "old", Contact{At: membertest.Epoch})
	recorder.RecordContact("b", "new", Contact{At: membertest.Epoch.Add(time.Second)})
	recorder.Flush(t.Context())
	if got := loaded(t, memory)["b"]; got.UID != "new" || names(got) != "" {
		t.Errorf("recorded of %s: %q", got.UID, names(got))
	}
}

func TestLoadReadsAllPages(t *testing.T) {
	memory := newMemory(t)
	values := map[string][]byte{}
	for i := range pageSize + 1 {
		f := decodeObject(t, membertest.ExportedService("b", fmt.Sprintf("web-%d", i)))
		value, err := encodeObjects([]exports.Object{f})
		membertest.Must(t, err)
		values[recordKey{"b", "uid-b", "b", f.Service}.String()] = value
	}
	membertest.Must(t, memory.save(t.Context(), values))
	if got := len(loaded(t, memory)["b"].Objects); got != pageSize+1 {
		t.Errorf("%d objects came back, want %d", got, pageSize+1)
	}
}

// A record is sent twice: to be compared and to be written. Together that must
// stay below the limit of etcd, which is 1.5 MiB.
func TestBatchesFitIntoATransaction(t *testing.T) {
	memory := newMemory(t)
	values := map[string][]byte{}
	for i := range 6 {
		value := make([]byte, maxRecord)
		_, _ = random.Read(value)
		values[fmt.Sprintf("b/uid/exports/b/ns/%d", i)] = value
	}
	for i := range 2 * maxOperations {
		values[fmt.Sprintf("b/uid/exports/b/ns/small-%d", i)] = []byte("x")
	}
	membertest.Must(t, memory.save(t.Context(), values))
	response, err := store.Get(t.Context(), memory.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	membertest.Must(t, err)
	if response.Count != int64(len(values)) {
		t.Errorf("%d records were written, want %d", response.Count, len(values))
	}
}

func TestEntriesOfAHubAreRecorded(t *testing.T) {
	seen := metav1.NewTime(membertest.Epoch)
	entry := membertest.RelayedEntry("x", func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &seen })
	entries, err := response.Members(&clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{entry}})
	membertest.Must(t, err)
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	recorder.RecordContact("h", "uid-h", Contact{At: membertest.Epoch, Relayed: entries})
	recorder.Flush(t.Context())
	got := loaded(t, memory)["h"]
	if diff := cmp.Diff(entries, got.Relayed); diff != "" || !got.LastSeen.Equal(membertest.Epoch) {
		t.Errorf("last seen %s, %s", got.LastSeen, diff)
	}
}

func TestUnreadableRecordIsSkipped(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	web := decodeObject(t, membertest.ExportedService("b", "web"))
	recorder.Record(0, "b", "uid-b", exports.Ref{Cluster: "b", Service: web.Service}, []exports.Object{web})
	recorder.Flush(t.Context())
	for _, key := range []string{"b/uid-b/exports/b/ns/broken", "b/uid-b/exports/b/ns/empty", "c/uid-c/seen", "stray"} {
		_, err := store.Put(t.Context(), memory.prefix+key, strings.TrimPrefix(key, "b/uid-b/exports/b/ns/empty"))
		membertest.Must(t, err)
	}
	var unreadable []string
	members, err := memory.load(t.Context(), func(key string, _ error) { unreadable = append(unreadable, key) })
	membertest.Must(t, err)
	if len(unreadable) != 4 || names(members["b"]) != "web.b" {
		t.Errorf("unreadable are %v, and of b is known %q", unreadable, names(members["b"]))
	}
}
