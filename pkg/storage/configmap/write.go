// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"context"
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

// Delete implements storage.Interface. The cached object is not used: it lacks
// the wrapper.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	r, err := s.begin(key, false)
	if err != nil {
		return err
	}
	key = r.key
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("convert output object to pointer: %w", err)
	}
	if opts.IgnoreStoreReadError && utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		return s.deleteUnread(ctx, r)
	}
	for {
		state, err := s.read(ctx, r, "")
		if err != nil {
			return err
		}
		if state == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		existing := reflect.New(target.Type()).Interface().(runtime.Object)
		if err := s.converter.decode(state.wrapper, key, state.data, existing); err != nil {
			return err
		}
		if err := preconditions.Check(key, existing); err != nil {
			return err
		}
		if err := validate(ctx, existing); err != nil {
			return err
		}
		if changed, err := s.deleteState(ctx, state, key, out); err != nil || !changed {
			return err
		}
	}
}

// deleteState deletes a wrapper, unless it changed since it was read, and decodes the deleted
// object with the version of its deletion, which the host reports in watches only. If it does
// not within deletionTimeout, that of the object is used: a watch from there misses nothing.
func (s *store) deleteState(ctx context.Context, state *state, key string, out runtime.Object) (changed bool, _ error) {
	deletion := s.configMaps.awaitDeletion(ctx, state.wrapper)
	defer deletion.stop()
	if changed, err := s.deleteWrapper(ctx, state.wrapper); err != nil || changed {
		return changed, err
	}
	deleted := state.wrapper.DeepCopy()
	if version, err := deletion.version(); err == nil {
		deleted.ResourceVersion = version
	} else {
		klog.FromContext(ctx).V(2).Info("Failed to read the version of a deletion, using the version of the deleted object", "key", key, "err", err)
	}
	return false, s.converter.decode(deleted, key, state.data, out)
}

// deleteWrapper deletes a wrapper, and reports whether it was changed or deleted
// since it was read.
func (s *store) deleteWrapper(ctx context.Context, wrapper *corev1.ConfigMap) (changed bool, _ error) {
	err := s.configMaps.delete(ctx, wrapper)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true, ctx.Err()
	}
	if err != nil {
		return false, unavailable(err)
	}
	s.count.Add(-1)
	return false, nil
}

// deleteUnread deletes a wrapper that cannot be decoded.
func (s *store) deleteUnread(ctx context.Context, r request) error {
	for {
		wrapper, err := s.configMaps.get(ctx, wrapperName(s.Resource, r.key), "")
		if apierrors.IsNotFound(err) {
			if err := s.confirmAbsence(ctx, r); err != nil {
				return err
			}
			return storage.NewKeyNotFoundError(r.key, 0)
		}
		if err != nil {
			return unavailable(err)
		}
		if changed, err := s.deleteWrapper(ctx, wrapper); err != nil || !changed {
			return err
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
	key = r.key
	target, err := conversion.EnforcePtr(destination)
	if err != nil {
		return fmt.Errorf("convert output object to pointer: %w", err)
	}
	for {
		state, err := s.read(ctx, r, "")
		if err != nil {
			return err
		}
		if state == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		existing := reflect.New(target.Type()).Interface().(runtime.Object)
		meta := storage.ResponseMeta{}
		if state != nil {
			if err := s.converter.decode(state.wrapper, key, state.data, existing); err != nil {
				return err
			}
			if meta.ResourceVersion, err = versioner.ParseResourceVersion(state.wrapper.ResourceVersion); err != nil {
				return err
			}
		}
		if err := preconditions.Check(key, existing); err != nil {
			return err
		}
		updated, ttl, err := tryUpdate(existing, meta)
		if err != nil {
			return err
		}
		if ttl != nil && *ttl != 0 {
			return fmt.Errorf("%s: objects with a time to live cannot be stored in the host cluster", key)
		}
		if err := versioner.PrepareObjectForStorage(updated); err != nil {
			return fmt.Errorf("prepare object for storage: %w", err)
		}
		data, err := s.converter.encode(key, updated)
		if err != nil {
			return err
		}
		if state != nil && bytes.Equal(data, state.data) {
			return s.converter.decode(state.wrapper, key, data, destination)
		}
		written, err := s.write(ctx, key, state, updated, data)
		if err == nil {
			return s.converter.decode(written, key, data, destination)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return unavailable(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// Another writer was faster: read and validate again.
	}
}

func (s *store) write(ctx context.Context, key string, state *state, obj runtime.Object, data []byte) (*corev1.ConfigMap, error) {
	if state == nil {
		return s.createWrapper(ctx, key, obj, data)
	}
	w, err := s.converter.wrapping(key, obj, data)
	if err != nil {
		return nil, err
	}
	wrapper := rewrap(state.wrapper, w)
	if err := s.converter.fits(key, wrapper); err != nil {
		return nil, err
	}
	return s.configMaps.update(ctx, wrapper)
}
