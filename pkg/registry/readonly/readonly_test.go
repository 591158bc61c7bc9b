// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package readonly

import (
	"testing"

	"k8s.io/apiserver/pkg/registry/rest"
)

// R29: discovery lists the verbs that a storage implements.
func TestStorageHasNoWriteMethods(t *testing.T) {
	for name, storage := range map[string]rest.Storage{"REST": &REST{}, "WithNames": &WithNames{REST: &REST{}}} {
		var can []string
		for verb, does := range map[string]bool{
			"create": is[rest.Creater](storage), "update": is[rest.Updater](storage), "patch": is[rest.Patcher](storage), //nolint:misspell // that is the interface's name
			"delete": is[rest.GracefulDeleter](storage), "deletecollection": is[rest.CollectionDeleter](storage), "connect": is[rest.Connecter](storage),
		} {
			if does {
				can = append(can, verb)
			}
		}
		if len(can) > 0 {
			t.Errorf("%s supports %v", name, can)
		}
		if !is[rest.Getter](storage) || !is[rest.Lister](storage) || !is[rest.Watcher](storage) {
			t.Errorf("%s cannot be read", name)
		}
	}
}

func is[T any](storage rest.Storage) bool {
	_, ok := storage.(T)
	return ok
}
