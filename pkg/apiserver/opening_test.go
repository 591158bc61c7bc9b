// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
)

// openStorage is storage that is open, and counts how often it is checked.
type openStorage struct {
	opener.Storage
	gate   *gate.Gate
	checks int
}

func (s *openStorage) Gate() *gate.Gate { return s.gate }

func (s *openStorage) Confirm(context.Context) error {
	s.checks++
	return nil
}

// R502: storage in the cluster is checked when its namespace or its marker changes, and at no
// other time.
func TestStorageIsCheckedWhenItsMarkerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := kubernetesfake.NewClientset()
		storage := &openStorage{gate: gate.New()}
		host := informers.NewSharedInformerFactory(client, 0)
		o := &opening{gate: storage.gate, opener: opener.New(storage, "cluster", hostCluster{}, false)}
		if err := o.follow(client, "mcs-storage", host); err != nil {
			t.Fatal(err)
		}
		storage.gate.Open()
		host.StartWithContext(ctx)
		if err := o.start(genericapiserver.PostStartHookContext{Context: ctx}); err != nil {
			t.Fatal(err)
		}
		defer o.wait()
		defer host.Shutdown()
		defer cancel()
		configMaps, namespaces := client.CoreV1().ConfigMaps("mcs-storage"), client.CoreV1().Namespaces()
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: marker.Name}}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mcs-storage"}}
		for _, step := range []struct {
			name   string
			change func() error
			checks int
		}{
			{"started", func() error { return nil }, 1},
			{"marker created", func() error { _, err := configMaps.Create(ctx, held, metav1.CreateOptions{}); return err }, 1},
			{"marker changed", func() error { _, err := configMaps.Update(ctx, held, metav1.UpdateOptions{}); return err }, 1},
			{"marker deleted", func() error { return configMaps.Delete(ctx, marker.Name, metav1.DeleteOptions{}) }, 1},
			{"namespace created", func() error { _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); return err }, 1},
			{"another namespace", func() error {
				_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
				return err
			}, 0},
		} {
			synctest.Wait()
			before := storage.checks
			if step.name == "started" {
				before = 0
			}
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := storage.checks - before; got != step.checks {
				t.Errorf("%s: checked %d times, want %d", step.name, got, step.checks)
			}
		}
	})
}
