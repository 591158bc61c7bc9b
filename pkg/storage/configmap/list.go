// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// GetList implements storage.Interface. The limit is ignored, as the API allows:
// the host sorts wrappers by the hash of their key, so that every page would
// require a complete list.
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	if prepared, err := storage.PrepareKey(s.ResourcePrefix, key, opts.Recursive); err == nil && s.reserved(prepared) {
		return s.listReserved(ctx, listObj)
	}
	r, err := s.begin(key, opts.Recursive)
	if err != nil {
		return err
	}
	objects, version, err := s.list(ctx, r, opts)
	if err != nil {
		return err
	}
	return setItems(listObj, objects, version)
}

// setItems sets the items of a list, which are empty rather than null, and its version.
func setItems(listObj runtime.Object, objects []runtime.Object, version uint64) error {
	itemsPtr, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(itemsPtr)
	if err != nil || items.Kind() != reflect.Slice {
		return fmt.Errorf("need pointer to slice: %w", err)
	}
	found := reflect.MakeSlice(items.Type(), 0, len(objects))
	for _, object := range objects {
		found = reflect.Append(found, reflect.ValueOf(object).Elem())
	}
	items.Set(found)
	return versioner.UpdateList(listObj, version, "", nil)
}

// list returns the objects of a request, sorted by key, and the version of the list.
func (s *store) list(ctx context.Context, r request, opts storage.ListOptions) (objects []runtime.Object, version uint64, _ error) {
	query, err := s.query(r.key, opts)
	if err != nil {
		return nil, 0, err
	}
	if err := setVersion(s.ResourcePrefix, r.namespace, opts, &query); err != nil {
		return nil, 0, err
	}
	wrappers, err := s.configMaps.list(ctx, query)
	if err != nil {
		return nil, 0, unavailable(err)
	}
	if err := s.confirmAbsence(ctx, r, wrappers.ResourceVersion); err != nil {
		return nil, 0, err
	}
	if r.key == s.ResourcePrefix && opts.Predicate.Empty() {
		s.count.Store(int64(len(wrappers.Items)))
	}
	if objects, err = s.converter.decodeAll(wrappers.Items, r.key, opts); err != nil {
		return nil, 0, err
	}
	version, err = versioner.ParseResourceVersion(wrappers.ResourceVersion)
	return objects, version, err
}

// listReserved lists the storage namespace, which holds no objects of its own API.
// It succeeds while the namespace is deleted, and the permissions in it with it:
// otherwise the namespace controller would wait for it forever. Only then is the version
// of the list that of the namespace, from which no watch could start.
func (s *store) listReserved(ctx context.Context, listObj runtime.Object) error {
	if version, err := s.GetCurrentResourceVersion(ctx); err == nil {
		return setItems(listObj, nil, version)
	}
	namespace, err := s.Guard.get(ctx, s.Namespace)
	if err != nil {
		return unavailable(err)
	}
	version, err := versioner.ParseResourceVersion(namespace.ResourceVersion)
	if err != nil {
		return err
	}
	return setItems(listObj, nil, version)
}

// query returns the selectors of a request to the host. The host selects by
// namespace, labels and fields; longer key prefixes are matched by within.
func (s *store) query(key string, opts storage.ListOptions) (metav1.ListOptions, error) {
	selected, err := selector(s.Resource, namespaceOf(s.ResourcePrefix, key), opts.Predicate.Label, opts.Predicate.Field)
	if err != nil {
		return metav1.ListOptions{}, apierrors.NewBadRequest(fmt.Sprintf("invalid selector: %v", err))
	}
	query := metav1.ListOptions{LabelSelector: selected.String()}
	if !opts.Recursive {
		query.FieldSelector = byName(wrapperName(s.Resource, key))
	}
	return query, nil
}

// within reports whether a request for the key or prefix asked includes key.
func within(asked, key string, recursive bool) bool {
	if recursive {
		return strings.HasPrefix(key, asked)
	}
	return key == asked
}

// setVersion adds the requested resource version to a list query.
func setVersion(resourcePrefix string, namespace opened, opts storage.ListOptions, query *metav1.ListOptions) error {
	if opts.Predicate.Continue != "" {
		if _, _, err := storage.ValidateListOptions(resourcePrefix, versioner, opts); err != nil {
			return err
		}
		return apierrors.NewResourceExpired("the continue token was not issued by this storage, which returns complete lists; list again without it")
	}
	minimum, err := namespace.minimumVersion(opts.ResourceVersion)
	if err != nil || minimum == "" {
		return err
	}
	query.ResourceVersion, query.ResourceVersionMatch = minimum, metav1.ResourceVersionMatchNotOlderThan
	if !exact(opts) {
		return nil
	}
	if minimum != opts.ResourceVersion {
		return namespace.expired(opts.ResourceVersion)
	}
	query.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	return nil
}

// exact reports whether a list at its resource version was requested, and not at a later one:
// lists with a limit are, as in etcd, unless they say otherwise.
func exact(opts storage.ListOptions) bool {
	switch opts.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		return true
	case "":
		return opts.Recursive && opts.Predicate.Limit > 0
	}
	return false
}

// minimumVersion returns the version to request from the host, empty for a
// consistent read. A kube-apiserver that lags behind could otherwise answer with the
// time at which the namespace was deleted, and its objects were absent.
func (o opened) minimumVersion(requested string) (string, error) {
	version, err := versioner.ParseResourceVersion(requested)
	if err != nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if version == 0 {
		return "", nil
	}
	return fmt.Sprint(max(version, o.version)), nil
}

// expired returns 410 for a version at which the namespace was not complete.
func (o opened) expired(requested string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("resource version %s is older than the storage namespace; list again without it", requested))
}
