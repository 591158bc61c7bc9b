// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

// maxDocument is the maximum size of a document, in bytes.
const maxDocument = 256 << 10

// document identifies a document: the contact of a member, or a chunk of the
// Services that it exports.
type document struct {
	// member is the cluster ID of the member.
	member  string
	contact bool
	// prefix is that of the chunk.
	prefix string
}

const contactName, servicesName = "contact", "services"

// String returns the name of the document, a DNS subdomain that ends with the ID of
// the member.
func (d document) String() string {
	switch {
	case d.contact:
		return contactName + "." + d.member
	case d.prefix == "":
		return servicesName + "." + d.member
	}
	return servicesName + "-" + d.prefix + "." + d.member
}

// parseName returns the document with a name.
func parseName(name string) (document, bool) {
	kind, member, _ := strings.Cut(name, ".")
	if len(validation.ValidateClusterID(member, nil)) > 0 {
		return document{}, false
	}
	if kind == contactName {
		return document{member: member, contact: true}, true
	}
	kind, prefix, divided := strings.Cut(kind, "-")
	return document{member: member, prefix: prefix}, kind == servicesName && divided == (prefix != "") && isPrefix(prefix)
}

// Contact is what is remembered of a member besides its exports.
type Contact struct {
	// ClaimedAt is when it claimed its ID, and Secret the name of the Secret that
	// led to it: another cluster may claim the same ID.
	ClaimedAt time.Time
	Secret    string
	// CIDRs are its allocation CIDRs, and Properties its ClusterProperties.
	CIDRs      []string
	Properties []clusterset.ClusterProperty
	// Relayed are the entries of a hub, by cluster ID. What changes all the time is
	// not remembered of them.
	Relayed map[string]*clusterset.Member
}

func (c Contact) equal(other Contact) bool {
	return c.ClaimedAt.Equal(other.ClaimedAt) && c.Secret == other.Secret && slices.Equal(c.CIDRs, other.CIDRs) && slices.Equal(c.Properties, other.Properties) &&
		apiequality.Semantic.DeepEqual(c.Relayed, other.Relayed)
}

// lasting returns the contact without what is not remembered of a hub's entries.
func (c Contact) lasting() Contact {
	if c.Relayed == nil {
		return c
	}
	entries := make(map[string]*clusterset.Member, len(c.Relayed))
	for id, entry := range c.Relayed {
		entries[id] = lasting(entry)
	}
	c.Relayed = entries
	return c
}

// lasting returns what is remembered of a hub's entry. Of its conditions, that is whether
// the hub refuses the allocation CIDRs of the cluster.
func lasting(entry *clusterset.Member) *clusterset.Member {
	status := &entry.Status
	remembered := &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{Name: entry.Name},
		Status: clusterset.MemberStatus{
			ClusterID: status.ClusterID, ClusterUID: status.ClusterUID, ClusterSet: status.ClusterSet, IDClaimedAt: status.IDClaimedAt,
			State: status.State, LostPolicy: status.LostPolicy, Path: status.Path, ClusterSetIPCIDRs: status.ClusterSetIPCIDRs,
		},
	}
	if response.AllocationRefused(entry) {
		remembered.Status.Conditions = []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: clusterset.ReasonNotAssigned}}
	}
	return remembered
}

// recorded is the content of a document with a Contact.
type recorded struct {
	uid types.UID
	Contact
	// chunks are the prefixes of all chunks that have Services, sorted: a document that
	// is missing is not taken for one that never existed.
	chunks []string
}

// contactDocument is the encoding of a recorded Contact.
type contactDocument struct {
	UID        types.UID                            `json:"uid"`
	ClaimedAt  time.Time                            `json:"claimedAt,omitzero"`
	Secret     string                               `json:"secret,omitempty"`
	CIDRs      []string                             `json:"cidrs,omitempty"`
	Properties []clustersetv1alpha1.ClusterProperty `json:"properties,omitempty"`
	Chunks     []string                             `json:"chunks,omitempty"`
	Relayed    []clustersetv1alpha1.Member          `json:"relayed,omitempty"`
}

// servicesDocument is the encoding of a chunk. A cluster that takes over an ID
// inherits nothing: UID is that of the cluster that exports the Services.
type servicesDocument struct {
	UID      types.UID                            `json:"uid"`
	Services []clustersetv1alpha1.ExportedService `json:"services"`
}

func encodeContact(contact recorded) ([]byte, error) {
	written := contactDocument{UID: contact.uid, ClaimedAt: contact.ClaimedAt.UTC(), Secret: contact.Secret, CIDRs: contact.CIDRs, Chunks: contact.chunks}
	for _, property := range contact.Properties {
		written.Properties = append(written.Properties, clustersetv1alpha1.ClusterProperty(property))
	}
	for _, id := range slices.Sorted(maps.Keys(contact.Relayed)) {
		var out clustersetv1alpha1.Member
		if err := clustersetv1alpha1.Convert_clusterset_Member_To_v1alpha1_Member(contact.Relayed[id], &out, nil); err != nil {
			return nil, err
		}
		written.Relayed = append(written.Relayed, out)
	}
	return encode(written)
}

func decodeContact(data []byte) (recorded, error) {
	var read contactDocument
	if err := decode(data, &read); err != nil {
		return recorded{}, err
	}
	contact := recorded{read.UID, Contact{ClaimedAt: read.ClaimedAt, Secret: read.Secret, CIDRs: read.CIDRs}, read.Chunks}
	if len(read.Relayed) > 0 {
		entries, err := response.Members(&clustersetv1alpha1.MemberList{Items: read.Relayed})
		if err != nil {
			return recorded{}, err
		}
		contact.Relayed = entries.Members
	}
	if !response.CIDRsFit(contact.CIDRs) { // recorded by an earlier release
		contact.CIDRs = nil
	}
	for _, property := range read.Properties {
		contact.Properties = append(contact.Properties, clusterset.ClusterProperty(property))
	}
	contact.Properties = clusterset.FittingProperties(contact.Properties)
	return contact, nil
}

// encodeServices returns nil for no Services.
func encodeServices(uid types.UID, services []*clusterset.ExportedService) ([]byte, error) {
	if len(services) == 0 {
		return nil, nil
	}
	written := servicesDocument{UID: uid, Services: make([]clustersetv1alpha1.ExportedService, len(services))}
	for i, service := range services {
		if err := clustersetv1alpha1.Convert_clusterset_ExportedService_To_v1alpha1_ExportedService(service, &written.Services[i], nil); err != nil {
			return nil, err
		}
	}
	return encode(written)
}

func decodeServices(data []byte) (types.UID, []exports.Object, error) {
	var read servicesDocument
	if err := decode(data, &read); err != nil {
		return "", nil, err
	}
	objects := make([]exports.Object, 0, len(read.Services))
	for i := range read.Services {
		object, err := exports.Decode(&read.Services[i])
		if err != nil {
			return "", nil, err
		}
		objects = append(objects, object)
	}
	return read.UID, objects, nil
}

// compressors are reused: a new one allocates more than a megabyte.
var compressors = sync.Pool{New: func() any {
	compressor, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	utilruntime.Must(err) // the level is valid
	return compressor
}}

func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	compressor := compressors.Get().(*gzip.Writer)
	defer compressors.Put(compressor)
	compressor.Reset(&buffer)
	if err := json.NewEncoder(compressor).Encode(value); err != nil {
		return nil, err
	}
	if err := compressor.Close(); err != nil {
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
