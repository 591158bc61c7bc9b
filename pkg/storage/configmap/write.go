// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// deletionTimeout limits the wait for the version of a deletion.
const deletionTimeout = 2 * time.Second

// errOutdated ends an attempt that has to be repeated with a newer version of the wrapper.
var errOutdated = errors.New("the wrapper has changed")

// doubtError is an error that an object is the reason for whose wrapper was not read just now: a
// newer one may not be.
type doubtError struct{ error }

// doubt returns an error that an object is the reason for.
func (s *state) doubt(err error) error {
	if s != nil && s.held {
		return doubtError{err}
	}
	return err
}

// attempt calls a function with a wrapper, nil if it does not exist, until the function does not
// return errOutdated. At first, the wrapper is the one that is held, if any: the host refuses
// to replace or delete it unless it is the newest version.
func (s *store) attempt(ctx context.Context, r request, try func(*state) error) error {
	name := wrapperName(s.Resource, r.key)
	var doubt doubtError
	held := s.heldState(name)
	if held != nil {
		err := try(held)
		if !errors.As(err, &doubt) && !errors.Is(err, errOutdated) {
			return err
		}
		s.held.remove(name)
	}
	for {
		current, err := s.read(ctx, r, "")
		if err != nil {
			return err
		}
		if doubt.error != nil && current.sameVersion(held) {
			return doubt.error
		}
		if err := try(current); !errors.Is(err, errOutdated) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		doubt.error = nil // it was about an older version
	}
}

// sameVersion reports whether two states are the same.
func (s *state) sameVersion(other *state) bool {
	return s != nil && other != nil && s.wrapper.UID == other.wrapper.UID && s.wrapper.ResourceVersion == other.wrapper.ResourceVersion && bytes.Equal(s.data, other.data)
}

// Delete implements storage.Interface. The cached object is not used: it lacks
// the wrapper.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	r, err := s.begin(key, false)
	if err != nil {
		return err
	}
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("convert output object to pointer: %w", err)
	}
	if opts.IgnoreStoreReadError && utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		return s.deleteUnread(ctx, r)
	}
	return s.attempt(ctx, r, func(current *state) error {
		if current == nil {
			return storage.NewKeyNotFoundError(r.key, 0)
		}
		existing := reflect.New(target.Type()).Interface().(runtime.Object)
		err := s.converter.decode(current.wrapper, r.key, current.data, existing)
		if err == nil {
			err = preconditions.Check(r.key, existing)
		}
		if err == nil {
			err = validate(ctx, existing)
		}
		if err != nil {
			return current.doubt(err)
		}
		return s.deleteState(ctx, current, r.key, out)
	})
}

// deleteState deletes a wrapper, unless it changed since it was read, and decodes the deleted
// object with the version of its deletion, which the host reports in watches only. If it does
// not within deletionTimeout, that of the object is used: a watch from there misses nothing.
func (s *store) deleteState(ctx context.Context, current *state, key string, out runtime.Object) error {
	request, followed := s.deletions.begin(current.wrapper.UID)
	await := request.await
	if !followed {
		watching := s.configMaps.awaitDeletion(ctx, current.wrapper)
		defer watching.stop()
		await = func(context.Context) (string, error) { return watching.version() }
	}
	err := s.deleteWrapper(ctx, current.wrapper)
	s.deletions.end(request, err == nil)
	if err != nil {
		return err
	}
	deleted := current.wrapper.DeepCopy()
	if version, err := await(ctx); err == nil {
		deleted.ResourceVersion = version
	} else {
		klog.FromContext(ctx).V(2).Info("Failed to read the version of a deletion, using the version of the deleted object", "key", key, "err", err)
	}
	return s.converter.decode(deleted, key, current.data, out)
}

// deleteWrapper deletes a wrapper. It returns errOutdated if the wrapper was changed or deleted
// since it was read.
func (s *store) deleteWrapper(ctx context.Context, wrapper *corev1.ConfigMap) error {
	err := s.configMaps.delete(ctx, wrapper)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return unavailable(err)
	}
	s.count.Add(-1)
	s.held.remove(wrapper.Name)
	return nil
}

// deleteUnread deletes a wrapper that cannot be decoded.
func (s *store) deleteUnread(ctx context.Context, r request) error {
	for {
		wrapper, err := s.configMaps.get(ctx, wrapperName(s.Resource, r.key), "")
		if apierrors.IsNotFound(err) {
			if err := s.confirmAbsence(ctx, r, ""); err != nil {
				return err
			}
			return storage.NewKeyNotFoundError(r.key, 0)
		}
		if err != nil {
			return unavailable(err)
		}
		if err := s.deleteWrapper(ctx, wrapper); !errors.Is(err, errOutdated) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// GuaranteedUpdate implements storage.Interface. The cached object is not used,
// as in Delete.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	r, err := s.begin(key, false)
	if err != nil {
		return err
	}
	if err := s.refuseReserved(r); err != nil {
		return err
	}
	target, err := conversion.EnforcePtr(destination)
	if err != nil {
		return fmt.Errorf("convert output object to pointer: %w", err)
	}
	return s.attempt(ctx, r, func(current *state) error {
		if current == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(r.key, 0)
		}
		existing := reflect.New(target.Type()).Interface().(runtime.Object)
		wrapper, data, err := s.update(r.key, current, existing, preconditions, tryUpdate)
		if err != nil {
			return current.doubt(err)
		}
		if current != nil && bytes.Equal(data, current.data) {
			if current.held {
				return errOutdated // only the newest version may stay as it is
			}
			return s.converter.decode(current.wrapper, r.key, data, destination)
		}
		written, err := s.write(ctx, current, wrapper)
		switch {
		case err == nil:
			return s.converter.decode(written, r.key, data, destination)
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
			return errOutdated // another writer was faster
		}
		return unavailable(err)
	})
}

// update decodes the object of a wrapper into existing, and returns the wrapper that is to replace
// it, and the encoding of its object.
func (s *store) update(key string, current *state, existing runtime.Object, preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) (*corev1.ConfigMap, []byte, error) {
	meta := storage.ResponseMeta{}
	if current != nil {
		err := s.converter.decode(current.wrapper, key, current.data, existing)
		if err != nil {
			return nil, nil, err
		}
		if meta.ResourceVersion, err = versioner.ParseResourceVersion(current.wrapper.ResourceVersion); err != nil {
			return nil, nil, err
		}
	}
	if err := preconditions.Check(key, existing); err != nil {
		return nil, nil, err
	}
	updated, ttl, err := tryUpdate(existing, meta)
	if err != nil {
		return nil, nil, err
	}
	if ttl != nil && *ttl != 0 {
		return nil, nil, fmt.Errorf("%s: objects with a time to live cannot be stored in the host cluster", key)
	}
	if err := versioner.PrepareObjectForStorage(updated); err != nil {
		return nil, nil, fmt.Errorf("prepare object for storage: %w", err)
	}
	data, err := s.converter.encode(key, updated)
	if err != nil {
		return nil, nil, err
	}
	wrapper, err := s.converter.wrapper(key, current, updated, data)
	return wrapper, data, err
}

// write replaces a wrapper, or creates one if there was none.
func (s *store) write(ctx context.Context, current *state, wrapper *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if current == nil {
		return s.createWrapper(ctx, wrapper)
	}
	updated, err := s.configMaps.update(ctx, wrapper)
	if err == nil {
		s.held.put(updated)
	}
	return updated, err
}
