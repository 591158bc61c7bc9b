// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package readonly

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// strategies returns the strategies that a store requires. REST has no write
// methods that could use them; the store only takes from them whether its
// resource is namespaced.
func strategies(scheme *runtime.Scheme, namespaced bool) (rest.RESTUpdateStrategy, rest.RESTDeleteStrategy) {
	return scope{namespaced: namespaced}, scheme
}

type scope struct {
	rest.RESTUpdateStrategy
	namespaced bool
}

func (s scope) NamespaceScoped() bool { return s.namespaced }
