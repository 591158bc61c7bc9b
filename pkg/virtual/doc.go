// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtual serves resources that are computed rather than stored, with
// the semantics of stored ones.
//
// A Store holds the objects of one resource in memory. The code that computes
// them calls Set and Delete. Reads go through the watch cache of
// k8s.io/apiserver, which implements get, list and watch. A guard in front of
// the watch cache rejects requests that the cache would answer wrongly for a
// resource that each replica computes by itself:
//
//	Set, Delete ─► Store ─► watch cache ─► guard ─► genericregistry.Store
//
// # Resource versions
//
// A VersionSource issues versions that increase strictly, also across restarts,
// and that differ between replicas. The watch cache accepts any version that is
// not too old and silently skips the events before it, so that a client that
// moves to a lagging replica would miss events. The store therefore remembers
// the versions that it issued in the last five minutes, and the guard answers
// any other version with 410 Gone, after which clients list again. A list is
// always complete: limit is ignored, so that a continue token of one replica
// never reaches another.
//
// # Slow watchers
//
// Set and Delete never wait for watchers. The watch cache buffers between 10 and
// 100 events for each client and ends the watch of a client that does not keep
// up; the client continues from the last version that it received, or lists
// again. Writers should coalesce bursts: every Set reaches every client.
package virtual
