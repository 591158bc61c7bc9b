// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package placementdecision

import (
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

type column = table.Column[*inventory.PlacementDecision]

// NewStorage returns the storage of PlacementDecisions.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	decision := strategy{scheme, names.SimpleNameGenerator}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &inventory.PlacementDecision{} },
		NewListFunc:               func() runtime.Object { return &inventory.PlacementDecisionList{} },
		DefaultQualifiedResource:  inventory.Resource("placementdecisions"),
		SingularQualifiedResource: inventory.Resource("placementdecision"),
		CreateStrategy:            decision,
		UpdateStrategy:            decision,
		DeleteStrategy:            decision,
		TableConvertor: table.NewConvertor(clock.RealClock{},
			column{
				Name:        "Scheduler",
				Description: "The scheduler that made the decision.",
				Cell:        func(decision *inventory.PlacementDecision) any { return table.Truncate(decision.SchedulerName) },
			},
			column{
				Name:        "Clusters",
				Description: "The number of clusters that were chosen.",
				Cell:        func(decision *inventory.PlacementDecision) any { return strconv.Itoa(len(decision.Decisions)) },
			},
		),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	return store, nil
}
