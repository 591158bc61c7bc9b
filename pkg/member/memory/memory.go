// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps what every member last exported across restarts of this
// server.
package memory

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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

// Memory stores what every member last exported in etcd. A record holds one
// Service of one cluster as one member exported it. Its key contains the ID and
// the UID of the member, so a cluster that takes over an ID inherits nothing.
type Memory struct {
	client *clientv3.Client
	prefix string
}

// New returns a Memory that keeps its records below a prefix.
func New(client *clientv3.Client, prefix string) *Memory {
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

// Member is what is remembered of a member.
type Member struct {
	UID      types.UID
	LastSeen time.Time
	// ClaimedAt is when it claimed its ID, and Secret the name of the Secret that
	// led to it: another cluster may claim the same ID.
	ClaimedAt time.Time
	Secret    string
	// CIDRs are its allocation CIDRs.
	CIDRs []string
	// Lost is set if it counted as lost: after a downtime of this server, that does
	// not follow from LastSeen.
	Lost    bool
	Objects []exports.Object
	// Relayed are the entries of a hub.
	Relayed map[string]*clusterset.Member
}

// record is the encoding of a Service.
type record struct {
	Services []clustersetv1alpha1.ExportedService       `json:"services,omitempty"`
	Slices   []clustersetv1alpha1.ExportedEndpointSlice `json:"slices,omitempty"`
}

// contactRecord is the encoding of a Contact.
type contactRecord struct {
	LastSeen  time.Time                   `json:"lastSeen"`
	ClaimedAt time.Time                   `json:"claimedAt,omitzero"`
	Secret    string                      `json:"secret,omitempty"`
	CIDRs     []string                    `json:"cidrs,omitempty"`
	Lost      bool                        `json:"lost,omitempty"`
	Relayed   []clustersetv1alpha1.Member `json:"relayed,omitempty"`
}

// recordKey is the key of a record, without the prefix.
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

// load reads everything, by member ID. Records that cannot be decoded are
// skipped: the feed of the member brings their content again.
func (m *Memory) load(ctx context.Context, unreadable func(key string, err error)) (map[string]Member, error) {
	members := map[string]map[types.UID]*Member{}
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
	result := map[string]Member{}
	for id, byUID := range members {
		for _, remembered := range byUID {
			// There are several only if another cluster just took over the ID.
			if latest, ok := result[id]; !ok || remembered.LastSeen.After(latest.LastSeen) {
				result[id] = *remembered
			}
		}
	}
	return result, nil
}

func (m *Memory) recall(members map[string]map[types.UID]*Member, key string, value []byte) error {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return fmt.Errorf("unexpected key")
	}
	id, uid := parts[0], types.UID(parts[1])
	if members[id] == nil {
		members[id] = map[types.UID]*Member{}
	}
	remembered := members[id][uid]
	if remembered == nil {
		remembered = &Member{UID: uid}
		members[id][uid] = remembered
	}
	if parts[2] == seenRecord {
		var seen contactRecord
		if err := decode(value, &seen); err != nil {
			return err
		}
		remembered.LastSeen, remembered.Lost = seen.LastSeen, seen.Lost
		remembered.ClaimedAt, remembered.Secret, remembered.CIDRs = seen.ClaimedAt, seen.Secret, seen.CIDRs
		if len(seen.Relayed) > 0 {
			entries, err := response.Members(&clustersetv1alpha1.MemberList{Items: seen.Relayed})
			if err != nil {
				return err
			}
			remembered.Relayed = entries
		}
		return nil
	}
	var held record
	if err := decode(value, &held); err != nil {
		return err
	}
	for i := range held.Services {
		object, err := exports.Decode(&held.Services[i])
		if err != nil {
			return err
		}
		remembered.Objects = append(remembered.Objects, object)
	}
	for i := range held.Slices {
		object, err := exports.Decode(&held.Slices[i])
		if err != nil {
			return err
		}
		remembered.Objects = append(remembered.Objects, object)
	}
	return nil
}

// save writes records, and removes those without a value. It compares before it
// writes, because every replica records the same.
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

func encodeObjects(objects []exports.Object) ([]byte, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	var written record
	for _, object := range objects {
		switch object := object.Object.(type) {
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

func encodeContact(contact Contact) ([]byte, error) {
	seen := contactRecord{LastSeen: contact.At, ClaimedAt: contact.ClaimedAt, Secret: contact.Secret, CIDRs: contact.CIDRs, Lost: contact.Lost}
	for _, entry := range contact.Relayed {
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
