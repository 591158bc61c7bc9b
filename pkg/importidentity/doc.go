// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importidentity gives ServiceImports their identity. An import is
// computed, but clients rely on its UID and creationTimestamp: they must be the
// same in every replica and after a restart, stay while the import exists, and
// differ from those of an earlier import of the same name.
//
// # Lives
//
// The lives of a name are numbered. The UID of an import is a function of the UID
// of its namespace, its name, the UID of the ClusterClaim clusterset.k8s.io, and
// the number of its life. The number is 0 until a life ends, so that a new import
// is shown without any write. Only ends are recorded: "life k is over" makes the
// number at least k+1. All replicas share the records; there are up to 16 documents
// per namespace, named by the UID of the namespace and the hash of the names in them.
//
// An import may be deleted once its UID cannot be used again: its namespace is
// gone or is being deleted, the cluster left the ClusterSet, or the end of its
// life is recorded. So the record is written before the deletion is shown, and
// before the derived Service, which follows the import, is deleted. While the
// storage cannot be written, the import stays, without endpoints.
//
// # Replicas
//
// The number of a name never decreases, in the storage and in every replica, and
// recording an end twice changes nothing. So replicas that have heard of the same
// records agree on the number, in whatever order they heard of them. What remains
// is when a replica that shows life k shows the present life n instead:
//
//   - The exports vanish, and n = k. The end is recorded, then the import is deleted.
//     If the exports come back meanwhile, life n follows as soon as it is recorded.
//   - The exports vanish, and n > k. Another replica recorded what this one sees now.
//     The import is deleted, and nothing is written: otherwise one end would be
//     recorded by each replica, each time as that of another life.
//   - The exports exist, and n > k. Another replica saw them vanish. Usually this
//     replica is about to see the same, because both hear of it within milliseconds,
//     and of the record too. So life k is shown for a grace period of 2 seconds, in
//     which the exports vanish, as above. If they do not, this replica saw their end
//     and their return as one change, or missed both while it was disconnected and
//     listed again. Life n is shown then, as a deletion and an addition.
//
// Only exports that vanish cause a record, never the change from one life to the
// next, so that replicas do not cause records in each other. Some cases are left:
//
//   - A replica lags behind by more than the grace period. It shows life n for the
//     exports of life k, and records the end of life n when it sees them vanish. If
//     another replica shows life n for the next exports, it changes to life n+1
//     after the grace period: no UID is used again, but that life has two.
//   - A replica cannot reach a member, and another one sees that its export is
//     withdrawn. The first shows life n after the grace period, and records the end
//     when it reaches the member. Until then the two disagree on whether the import
//     exists, because they know different exports.
//   - A replica cannot reach the storage. It deletes no import. It may add an import
//     with a life that another replica ended since, and changes to the present life
//     when it hears of the record.
//
// # Restarts
//
// The records are read before anything is shown. The derived Service of an import
// is marked with the number of its life. If its import is not known to be exported
// when the server starts, the exports vanished while no replica was running, or a
// member that has not been read yet exports it. The import is shown, without
// endpoints, until all members have been read. After 5 minutes, only members count that
// another replica sees: that one may show the import as exported. Then its end is
// recorded, and it is deleted. So the derived Service, which is the only trace of that
// life, remains until the record exists. If the import is exported meanwhile, it keeps
// its UID: nobody saw that it was deleted.
//
// The mark also counts as a record that the life has begun, so that lost records, as
// with a restored backup, do not cause a life to be used again. A document that cannot
// be decoded is replaced, before anything is shown, by one with a base that cannot have
// been used: the present time. All imports in it begin a new life. Not covered is a life
// that no derived Service was marked with yet when all replicas stopped.
//
// # Bounds
//
// Documents are deleted with their namespace. Within a document, the number of a name
// without an entry is that of the base. Once a document has entries for more than 512
// names that are not in use, the base is raised above all numbers, and these entries
// are dropped. Imports that exist, in this replica or as derived Services, get an entry
// to keep their life. So the documents of a namespace have entries for 8,192 names that
// are not in use and for all imports. With 100,000 imports, a document has 600 KiB; the
// ends of more would not be recorded, and their imports would stay.
//
// A replica writes a document at most once per second, after ten times at once. Imports that
// end while it has to wait stay, without endpoints, until then.
//
// A document is written as a whole. Because of one member, a replica writes 256 KiB per
// second after 8 MiB at once; the ends of its imports beyond that wait for their turn, and
// the imports stay, without endpoints, until then. Imports that other members exported end
// without waiting for it, also if they are in the same documents, which are written because
// of them then. The imports that a member leaves behind when it is expelled have all ended
// after the time that its documents take: those of a namespace have 700 KiB, unless more
// than 8,192 imports exist in it, and take 3 seconds.
package importidentity
