// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate moves all objects and records from one storage to another.
//
// The marker of the target says that it is incomplete until everything was copied,
// and the marker of the source says afterwards that it is outdated. Therefore a
// move can be interrupted at any point and resumed, and neither an
// incomplete target nor an outdated source is ever served. The target gets the
// storage ID of the source: it is the same storage, at another place.
package migrate
