// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

type fake struct{ *watch.FakeWatcher }

func (f fake) Watch(context.Context, *internalversion.ListOptions) (watch.Interface, error) {
	return f.FakeWatcher, nil
}
func (fake) New() runtime.Object { return nil }

// R478: watches of clients end with 410 when the API returns to CRDs, so that they list again;
// others go on.
func TestWatchesEndWhenTheAPIReturns(t *testing.T) {
	for name, marked := range map[string]bool{"client": true, "mcs-controller": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signal, source, ctx := NewSignal(), watch.NewFakeWithChanSize(10, false), t.Context()
				if marked {
					ctx = signal.WithSignal(ctx)
				}
				watching, err := Watcher{fake{source}}.Watch(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				source.Add(&multicluster.ServiceExport{})
				if event := <-watching.ResultChan(); event.Type != watch.Added {
					t.Errorf("got %v", event)
				}
				signal.End()
				signal.End()
				if !marked {
					source.Add(&multicluster.ServiceExport{})
					if event := <-watching.ResultChan(); event.Type != watch.Added {
						t.Errorf("got %v", event)
					}
					watching.Stop()
					return
				}
				event := <-watching.ResultChan()
				if status, ok := event.Object.(*metav1.Status); event.Type != watch.Error || !ok || status.Code != http.StatusGone {
					t.Errorf("got %v", event)
				}
				if _, open := <-watching.ResultChan(); open || !source.IsStopped() {
					t.Error("the watch goes on")
				}
				// What is still served, or served again, can be watched.
				again, err := Watcher{fake{watch.NewFake()}}.Watch(signal.WithSignal(t.Context()), nil)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case event := <-again.ResultChan():
					t.Errorf("a new watch got %v", event)
				default:
				}
				again.Stop()
			})
		})
	}
}
