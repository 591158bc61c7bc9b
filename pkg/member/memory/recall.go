// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// Member is what is remembered of a member.
type Member struct {
	UID types.UID
	Contact
	// Services are its ExportedServices.
	Services []exports.Object
	// Incomplete is set if not all of its documents exist and could be read.
	Incomplete bool
}

// Load reads what is remembered of members. ids are the cluster IDs by the names of
// the Secrets that exist: documents of other clusters are not decoded, and will be
// deleted. Load retries until it succeeds or the context ends: without the memory, it
// would look as if members had exported nothing.
func (r *Recorder) Load(ctx context.Context, ids map[string]string) (map[string]Member, error) {
	var documents map[string][]byte
	if !r.retry(ctx, "Failed to read the recorded exports of members, retrying", func() (err error) {
		documents, _, err = r.store.List(ctx)
		return err
	}) {
		return nil, ctx.Err()
	}
	existing := sets.New(slices.Collect(maps.Values(ids))...)
	stored := map[string]map[document][]byte{}
	former := sets.New[string]()
	for name, data := range documents {
		switch identified, ok := parseName(name); {
		case !ok:
			klog.FromContext(ctx).Info("Ignoring a record of members with an unknown name", "name", name)
		case !existing.Has(identified.member):
			former.Insert(identified.member)
		default:
			if stored[identified.member] == nil {
				stored[identified.member] = map[document][]byte{}
			}
			stored[identified.member][identified] = data
		}
	}
	for id := range former {
		klog.FromContext(ctx).Info("Removing the recorded exports of a cluster that is no longer a member", "cluster", id)
	}
	recalled := map[string]Member{}
	members := map[string]*remembered{}
	for id, documents := range stored {
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "cluster", id)
		if member, complete := recall(klog.NewContext(ctx, logger), id, documents); member != nil {
			recalled[id], members[id] = member.recalled(ids[member.contact.Secret] == id, complete), member
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members, r.forgotten = members, former
	return recalled, nil
}

// recall decodes the documents of a member, and reports whether that is all that was
// recorded. It returns nil if it is unknown whose documents they are. The feed of the
// member brings the content of missing and unreadable documents again.
func recall(ctx context.Context, id string, documents map[document][]byte) (member *remembered, complete bool) {
	logger := klog.FromContext(ctx)
	contact, err := decodeContact(documents[document{member: id, contact: true}])
	complete = err == nil
	if !complete {
		logger.Error(err, "Failed to decode the record of a member")
	}
	chunks := map[string]decoded{}
	for document, data := range documents {
		if document.contact {
			continue
		}
		uid, services, err := decodeServices(data)
		if err != nil {
			logger.Error(err, "Failed to decode recorded exports of a member", "name", document)
		}
		chunks[document.prefix] = decoded{uid, services}
	}
	for _, prefix := range contact.chunks {
		if _, found := chunks[prefix]; !found {
			logger.Error(nil, "Recorded exports of a member are missing, they are unknown until it is read", "name", document{member: id, prefix: prefix})
			complete = false
		}
	}
	uid := contact.uid
	if uid == "" {
		uid = commonUID(chunks)
	}
	if uid == "" {
		return nil, false
	}
	prefixes := sets.KeySet(chunks)
	member = &remembered{uid: uid, contact: contact.Contact, services: newTree(prefixes.UnsortedList()...), tooLarge: sets.New[string]()}
	for prefix, chunk := range chunks {
		if chunk.uid == uid {
			member.add(prefix, chunk.services, prefixes)
		} else { // unreadable, or of another cluster that had the ID
			complete = false
		}
	}
	return member, complete
}

// decoded is a chunk as it was stored, without a UID if it could not be decoded.
type decoded struct {
	uid      types.UID
	services []exports.Object
}

// commonUID returns the UID of all chunks that could be decoded, if it is the same.
func commonUID(chunks map[string]decoded) (common types.UID) {
	for _, chunk := range chunks {
		switch {
		case chunk.uid == "" || chunk.uid == common:
		case common != "":
			return ""
		default:
			common = chunk.uid
		}
	}
	return common
}

// add adds the Services of a document. If the document was divided, but could not be
// deleted yet, it counts only as far as its parts were not written.
func (m *remembered) add(prefix string, services []exports.Object, prefixes sets.Set[string]) {
	for _, object := range services {
		ref := exports.Ref{Cluster: object.Cluster, Service: object.Service}
		at := m.services.find(ref)
		outdated := false
		for depth := len(prefix) + 1; depth <= len(at); depth++ {
			outdated = outdated || prefixes.Has(at[:depth])
		}
		if !outdated {
			m.services.set(ref, object.Object.(*clusterset.ExportedService))
		}
	}
}

// recalled returns what was recalled. If the Secret no longer exists or is for another
// cluster, any Secret for the ID can recall the member.
func (m *remembered) recalled(secretExists, complete bool) Member {
	member := Member{UID: m.uid, Contact: m.contact, Incomplete: !complete}
	if !secretExists {
		member.Secret = ""
	}
	for _, content := range m.services.chunks {
		for ref, service := range content {
			member.Services = append(member.Services, exports.Object{
				Kind: exports.Services, Cluster: ref.Cluster, Service: ref.Service, Name: service.Name, Object: service,
			})
		}
	}
	return member
}
