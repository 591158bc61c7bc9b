// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// records returns the number of records about the lives of imports in a namespace,
// or in all of them.
func records(t *testing.T, namespace types.UID) int {
	t.Helper()
	count := 0
	for key := range expect.Must(east().Stored(t.Context()))(t) {
		if strings.HasPrefix(key, "storage.mcs-apiserver.io/lives/"+string(namespace)) {
			count++
		}
	}
	return count
}
