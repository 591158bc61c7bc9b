// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
)

type silentWatcher struct{}

func (silentWatcher) New() runtime.Object { return nil }
func (silentWatcher) Watch(context.Context, *internalversion.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// R478: watches that are open when the API returns to CRDs end, and again if the command that
// returned it was repeated. Those that are opened afterwards go on: of a version that no CRD
// serves, or after the CRDs were deleted.
func TestOnlyOpenWatchesEndWhenTheAPIReturns(t *testing.T) {
	mark := func(phase crdmigration.Phase, key string) *corev1.ConfigMap {
		mark := &corev1.ConfigMap{}
		crdmigration.SetPhase(mark, phase)
		mark.Data["key"] = key
		return mark
	}
	copying, returned := mark(crdmigration.Copying, ""), mark(crdmigration.Returned, "")
	for _, test := range []struct {
		name     string
		old, now any
		ends     bool
	}{
		{"copying", nil, copying, false},
		{"returned", copying, returned, true},
		{"found returned", nil, returned, true},
		{"read again", returned, returned.DeepCopy(), false},
		{"returned again", returned, mark(crdmigration.Returned, "later"), true},
		{"copying again", returned, copying, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &returnedAPI{Signal: handback.NewSignal()}
				open := func() (ended func() bool) {
					watching, err := handback.Watcher{Watcher: silentWatcher{}}.Watch(api.WithSignal(t.Context()), nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(watching.Stop)
					return func() bool {
						synctest.Wait()
						select {
						case <-watching.ResultChan():
							return true
						default:
							return false
						}
					}
				}
				before := open()
				api.follow(test.old, test.now)
				after := open()
				if before() != test.ends || after() {
					t.Errorf("watches end: %t before, %t after, want %t before", before(), after(), test.ends)
				}
			})
		})
	}
}
