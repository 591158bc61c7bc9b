// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

func TestRecordsInConfigMaps(t *testing.T) {
	recordtest.TestStore(t, func(t *testing.T) record.Store {
		store, destroy, err := record.New(newHarness(t).options(t, record.Resource("documents")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(destroy)
		return store
	})
}
