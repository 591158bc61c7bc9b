// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configmap implements storage.Interface on top of the host
// cluster's kube-apiserver. Every object is wrapped in a ConfigMap of a
// namespace that only this server uses.
//
// Resource versions are those of the host, and therefore the same in every
// replica. Label and field selectors are evaluated by the host: the wrapper
// carries the labels and selectable fields of its object as labels of its own.
//
// Do not put a watch cache on top of this storage: the host has one, and its
// watches report progress too rarely for consistent reads from a second cache.
//
// Deleting the storage namespace must not look like deleting its objects. The
// absence of an object (a DELETED event, a list, a 404) is reported only after
// the namespace was read again and is alive: see NamespaceGuard.
package configmap
