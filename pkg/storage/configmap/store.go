// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"
)

// Config describes the storage of one resource.
type Config struct {
	// Client and Watches are for requests and watches of the core group of the host.
	Client, Watches rest.Interface
	// Namespace is the storage namespace, and Guard decides whether it can be used.
	Namespace string
	Guard     *NamespaceGuard

	Resource schema.GroupResource
	// ResourcePrefix begins every key of the resource.
	ResourcePrefix string
	Codec          runtime.Codec
	NewFunc        func() runtime.Object
	NewListFunc    func() runtime.Object
	// Attributes returns the labels and the selectable fields of an object.
	Attributes storage.AttrFunc
}

type store struct {
	Config
	configMaps configMaps
	converter  converter
	held       *heldWrappers
	deletions  *deletions
	// count is the number of stored objects, as far as this replica knows.
	count atomic.Int64
}

var _ storage.Interface = &store{}

// New returns the storage of one resource.
func New(config Config) storage.Interface {
	// The prefix must not match keys of a resource with a longer name.
	config.ResourcePrefix = strings.TrimSuffix(config.ResourcePrefix, "/") + "/"
	return &store{
		Config:     config,
		configMaps: configMaps{client: config.Client, watches: config.Watches, namespace: config.Namespace},
		converter:  converter{config, newDecodedObjects()},
		held:       newHeldWrappers(),
		deletions:  newDeletions(),
	}
}

// Versioner implements storage.Interface.
func (s *store) Versioner() storage.Versioner { return versioner }

// ReadinessCheck implements storage.Interface.
func (s *store) ReadinessCheck() error { return s.Guard.gate.Usable() }

// CompactRevision implements storage.Interface. Compactions of the host are not
// observed.
func (s *store) CompactRevision() int64 { return 0 }

// EnableResourceSizeEstimation implements storage.Interface. Sizes are not
// estimated.
func (s *store) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// Stats implements storage.Interface. The count is derived from the lists and
// writes of this replica: counting in the host would require a list.
func (s *store) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: s.count.Load()}, nil
}

// RequestWatchProgress implements storage.Interface. Only a watch cache calls it,
// and none is used here.
func (s *store) RequestWatchProgress(context.Context) error {
	return errors.New("watch progress cannot be requested from the host cluster")
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := s.Guard.gate.Usable(); err != nil {
		return 0, err
	}
	list, err := s.configMaps.list(ctx, metav1.ListOptions{FieldSelector: byName("no-such-object")})
	if err != nil {
		return 0, unavailable(err)
	}
	return versioner.ParseResourceVersion(list.ResourceVersion)
}

// request is a request for a key, or for a prefix of keys, in the namespace that was
// in use when the request started.
type request struct {
	key       string
	namespace opened
}

// begin starts every request. All requests fail while storage is unusable.
func (s *store) begin(key string, recursive bool) (r request, err error) {
	if r.namespace, err = s.Guard.usable(); err != nil {
		return r, err
	}
	r.key, err = storage.PrepareKey(s.ResourcePrefix, key, recursive)
	return r, err
}

// reserved reports whether a key is in the storage namespace itself. It never holds
// objects of its own API: deleting the namespace would require that they are deleted
// from storage that cannot be used any more.
func (s *store) reserved(key string) bool { return namespaceOf(s.ResourcePrefix, key) == s.Namespace }

// refuseReserved returns 403 for an object in the storage namespace.
func (s *store) refuseReserved(r request) error {
	if !s.reserved(r.key) {
		return nil
	}
	return apierrors.NewForbidden(s.Resource, path.Base(r.key),
		fmt.Errorf("namespace %q is reserved for the storage of mcs-apiserver; use another namespace", s.Namespace))
}

// confirmAbsence returns nil if an object that was not found at a resource version, or just now if
// it is empty, does not exist.
func (s *store) confirmAbsence(ctx context.Context, r request, version string) error {
	observed, err := versioner.ParseResourceVersion(version)
	if err != nil {
		return err
	}
	return s.Guard.confirm(ctx, r.namespace.uid, observed)
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	r, err := s.begin(key, false)
	if err != nil {
		return err
	}
	if err := s.refuseReserved(r); err != nil {
		return err
	}
	key = r.key
	if version, err := versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if ttl != 0 {
		return errors.New("objects with a time to live cannot be stored in the host cluster")
	}
	if err := versioner.PrepareObjectForStorage(obj); err != nil {
		return fmt.Errorf("prepare object for storage: %w", err)
	}
	data, err := s.converter.encode(key, obj)
	if err != nil {
		return err
	}
	wrapper, err := s.converter.wrapper(key, nil, obj, data)
	if err != nil {
		return err
	}
	created, err := s.createWrapper(ctx, wrapper)
	if apierrors.IsAlreadyExists(err) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil {
		return unavailable(err)
	}
	if out == nil {
		return nil
	}
	return s.converter.decode(created, key, data, out)
}

func (s *store) createWrapper(ctx context.Context, wrapper *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	created, err := s.configMaps.create(ctx, wrapper)
	if err == nil {
		s.count.Add(1)
		s.held.put(created)
	}
	return created, err
}

// Get implements storage.Interface. Reads are consistent, or not older than the
// requested version. Version "0" is read consistently as well: one of several
// kube-apiservers may lag behind, and would report a new object as not found.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	r, err := s.begin(key, false)
	if err != nil {
		return err
	}
	minimum, err := r.namespace.minimumVersion(opts.ResourceVersion)
	if err != nil {
		return err
	}
	state, err := s.read(ctx, r, minimum)
	if err != nil {
		return err
	}
	if state == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(r.key, 0)
	}
	return s.converter.decode(state.wrapper, r.key, state.data, out)
}

// state is a wrapper, and the encoded object in it.
type state struct {
	wrapper *corev1.ConfigMap
	data    []byte
	// held is whether the wrapper was not read just now, so that there may be a newer version.
	held bool
}

// heldState returns the wrapper that is held, nil if none is.
func (s *store) heldState(name string) *state {
	wrapper := s.held.get(name)
	if wrapper == nil {
		return nil
	}
	_, data, err := unwrap(s.Resource, wrapper)
	if err != nil {
		return nil
	}
	return &state{wrapper: wrapper, data: data, held: true}
}

// read returns nil if the key does not exist.
func (s *store) read(ctx context.Context, r request, minimum string) (*state, error) {
	wrapper, err := s.configMaps.get(ctx, wrapperName(s.Resource, r.key), minimum)
	if apierrors.IsNotFound(err) {
		return nil, s.confirmAbsence(ctx, r, "")
	}
	if err != nil {
		return nil, unavailable(err)
	}
	_, data, err := unwrap(s.Resource, wrapper)
	if err != nil {
		return nil, s.converter.corrupt(wrapper, err)
	}
	return &state{wrapper: wrapper, data: data}, nil
}

func byName(name string) string { return "metadata.name=" + name }
