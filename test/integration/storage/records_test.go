// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

func TestRecords(t *testing.T) {
	resource := record.Resource("documents")
	for name, newOptions := range map[string]func(*testing.T) generic.RESTOptions{
		cluster:  func(t *testing.T) generic.RESTOptions { return newHarness(t).options(t, resource) },
		external: func(t *testing.T) generic.RESTOptions { return restOptions(t, externalEtcd, newPrefix(), resource) },
		embedded: func(t *testing.T) generic.RESTOptions { return restOptions(t, embeddedEtcd, newPrefix(), resource) },
	} {
		t.Run(name, func(t *testing.T) {
			recordtest.TestStore(t, func(t *testing.T) record.Store {
				store, destroy, err := record.New(newOptions(t))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(destroy)
				return store
			})
		})
	}
}
