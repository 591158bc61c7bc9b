// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtual keeps resources that are computed and not stored, and serves
// them with the semantics of stored ones.
//
// A Store holds the objects of one resource in memory. Whoever computes them
// calls Set and Delete. Reading goes through the watch cache of
// k8s.io/apiserver, which has every rule of get, list and watch; the store
// only feeds it, and a guard in front of it refuses what the cache would get
// wrong for a resource that each replica computes for itself:
//
//	Set, Delete ─► Store ─► watch cache ─► guard ─► genericregistry.Store
//
// # Resource versions
//
// A Clock issues versions that only grow, also across restarts, and that two
// replicas do not share. The watch cache accepts any version that is not too
// old and silently skips the events before it, which loses events when a
// client moves to a replica that lags. The guard therefore remembers the
// versions that this store issued in the last five minutes and answers every
// other one with 410 Gone, upon which clients list anew. A list is always
// complete: limit is ignored, so that no continue token of one replica can
// ever reach another.
//
// # Slow readers
//
// Set and Delete never wait for anybody. The watch cache buffers between 10
// and 100 events for each client and ends the watch of a client that does not
// keep up; the client goes on from the last version that it saw, or lists
// anew. Writers that can tell what is superseded should not Set it: a burst on
// one key reaches every client in full.
package virtual
