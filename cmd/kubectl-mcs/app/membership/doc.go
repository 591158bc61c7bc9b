// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership observes and changes the memberships of clusters. It is
// shared by the commands join and leave.
package membership
