// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Memory is what every member last exported, in etcd. A record holds one
// service of one cluster as one member told it; it is keyed by the member's id
// and UID, so that a cluster which takes over an id inherits nothing.
type Memory struct {
	client *clientv3.Client
	prefix string
}

// NewMemory keeps records below a prefix of its own.
func NewMemory(client *clientv3.Client, prefix string) *Memory {
	return &Memory{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

const (
	pageSize = 500
	// maxTransaction and maxOperations keep a write within the default limits
	// of an etcd server. A record counts twice: it is compared and written.
	maxTransaction = 1 << 20
	maxRecord      = maxTransaction / 2
	maxOperations  = 100
	seenRecord     = "seen"
	exportsRecord  = "exports"
)

// Remembered is what is known of a member from before.
type Remembered struct {
	UID      types.UID
	LastSeen time.Time
	// claimedAt is since when it claims its id, and secret the name of the Secret
	// that led to it: another cluster may claim the same.
	claimedAt time.Time
	secret    string
	// cidrs are its part of the addresses for one IP in all clusters.
	cidrs []string
	// lost is true if it counted as lost: a server that did not run for a while
	// cannot tell that from when it last saw the member.
	lost  bool
	facts []fact
	// relayed are the entries of a hub.
	relayed map[string]*clusterset.Member
}

// record is a service as it is written.
type record struct {
	Services []clustersetv1alpha1.ExportedService       `json:"services,omitempty"`
	Slices   []clustersetv1alpha1.ExportedEndpointSlice `json:"slices,omitempty"`
}

// sighting is when a member was last seen, as it is written.
type sighting struct {
	LastSeen  time.Time                   `json:"lastSeen"`
	ClaimedAt time.Time                   `json:"claimedAt,omitzero"`
	Secret    string                      `json:"secret,omitempty"`
	CIDRs     []string                    `json:"cidrs,omitempty"`
	Lost      bool                        `json:"lost,omitempty"`
	Relayed   []clustersetv1alpha1.Member `json:"relayed,omitempty"`
}

// recordKey is where a record is kept, below the prefix.
type recordKey struct {
	id      string
	uid     types.UID
	cluster string
	service types.NamespacedName
}

func (k recordKey) String() string {
	return path.Join(k.id, string(k.uid), exportsRecord, k.cluster, k.service.Namespace, k.service.Name)
}

func seenKey(id string, uid types.UID) string { return path.Join(id, string(uid), seenRecord) }

// load reads everything, by member id. A record that cannot be read is left
// out: the member will tell it again.
func (m *Memory) load(ctx context.Context, unreadable func(key string, err error)) (map[string]Remembered, error) {
	members := map[string]map[types.UID]*Remembered{}
	from, end := m.prefix, clientv3.GetPrefixRangeEnd(m.prefix)
	for {
		page, err := m.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return nil, err
		}
		for _, pair := range page.Kvs {
			if err := m.recall(members, strings.TrimPrefix(string(pair.Key), m.prefix), pair.Value); err != nil {
				unreadable(string(pair.Key), err)
			}
		}
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	result := map[string]Remembered{}
	for id, byUID := range members {
		for _, remembered := range byUID {
			// There is more than one only if a successor was just accepted.
			if latest, ok := result[id]; !ok || remembered.LastSeen.After(latest.LastSeen) {
				result[id] = *remembered
			}
		}
	}
	return result, nil
}

func (m *Memory) recall(members map[string]map[types.UID]*Remembered, key string, value []byte) error {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return fmt.Errorf("the key is not one of ours")
	}
	id, uid := parts[0], types.UID(parts[1])
	if members[id] == nil {
		members[id] = map[types.UID]*Remembered{}
	}
	remembered := members[id][uid]
	if remembered == nil {
		remembered = &Remembered{UID: uid}
		members[id][uid] = remembered
	}
	if parts[2] == seenRecord {
		var seen sighting
		if err := decode(value, &seen); err != nil {
			return err
		}
		remembered.LastSeen, remembered.lost = seen.LastSeen, seen.Lost
		remembered.claimedAt, remembered.secret, remembered.cidrs = seen.ClaimedAt, seen.Secret, seen.CIDRs
		if len(seen.Relayed) > 0 {
			entries, err := readEntries(&clustersetv1alpha1.MemberList{Items: seen.Relayed})
			if err != nil {
				return err
			}
			remembered.relayed = entries
		}
		return nil
	}
	var held record
	if err := decode(value, &held); err != nil {
		return err
	}
	for i := range held.Services {
		fact, err := read(&held.Services[i])
		if err != nil {
			return err
		}
		remembered.facts = append(remembered.facts, fact)
	}
	for i := range held.Slices {
		fact, err := read(&held.Slices[i])
		if err != nil {
			return err
		}
		remembered.facts = append(remembered.facts, fact)
	}
	return nil
}

// save writes records, and removes those without facts. It compares before it
// writes, because every replica remembers the same.
func (m *Memory) save(ctx context.Context, values map[string][]byte) error {
	var operations []clientv3.Op
	size := 0
	commit := func() error {
		if len(operations) == 0 {
			return nil
		}
		_, err := m.client.Txn(ctx).Then(operations...).Commit()
		operations, size = nil, 0
		return err
	}
	for key, value := range values {
		key = m.prefix + key
		if len(operations) == maxOperations || size+2*len(value) > maxTransaction {
			if err := commit(); err != nil {
				return err
			}
		}
		size += 2 * len(value)
		if value == nil {
			operations = append(operations, clientv3.OpDelete(key))
			continue
		}
		same := clientv3.Compare(clientv3.Value(key), "=", string(value))
		operations = append(operations, clientv3.OpTxn([]clientv3.Cmp{same}, nil, []clientv3.Op{clientv3.OpPut(key, string(value))}))
	}
	return commit()
}

// forget removes everything of a member.
func (m *Memory) forget(ctx context.Context, id string) error {
	_, err := m.client.Delete(ctx, m.prefix+id+"/", clientv3.WithPrefix())
	return err
}

func encodeFacts(facts []fact) ([]byte, error) {
	if len(facts) == 0 {
		return nil, nil
	}
	var written record
	for _, fact := range facts {
		switch object := fact.object.(type) {
		case *clusterset.ExportedService:
			var out clustersetv1alpha1.ExportedService
			if err := clustersetv1alpha1.Convert_clusterset_ExportedService_To_v1alpha1_ExportedService(object, &out, nil); err != nil {
				return nil, err
			}
			written.Services = append(written.Services, out)
		case *clusterset.ExportedEndpointSlice:
			var out clustersetv1alpha1.ExportedEndpointSlice
			if err := clustersetv1alpha1.Convert_clusterset_ExportedEndpointSlice_To_v1alpha1_ExportedEndpointSlice(object, &out, nil); err != nil {
				return nil, err
			}
			written.Slices = append(written.Slices, out)
		}
	}
	return encode(written)
}

func encodeSighting(sight sight) ([]byte, error) {
	seen := sighting{LastSeen: sight.at, ClaimedAt: sight.claimedAt, Secret: sight.secret, CIDRs: sight.cidrs, Lost: sight.lost}
	for _, entry := range sight.relayed {
		var out clustersetv1alpha1.Member
		if err := clustersetv1alpha1.Convert_clusterset_Member_To_v1alpha1_Member(entry, &out, nil); err != nil {
			return nil, err
		}
		seen.Relayed = append(seen.Relayed, out)
	}
	return encode(seen)
}

func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	if err := json.NewEncoder(compressed).Encode(value); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func decode(data []byte, value any) error {
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(compressed)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, value)
}
