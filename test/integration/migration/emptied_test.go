// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const etcdPrefix = "/registry/mcs-apiserver/"

// R141, R186: an external etcd is emptied while two replicas use it. Both refuse requests for
// stored objects, and no cluster withdraws anything. When the etcd is restored, the replicas
// end in order to be started anew, and everything is as before.
func TestEmptiedEtcdWithdrawsNothing(t *testing.T) {
	t.Cleanup(func() { // after the namespace was deleted, which another test creates again
		for _, cluster := range clusters.Clusters {
			expect.EventuallyAfterTest(t, "end of namespace "+ns, func(ctx context.Context) error {
				_, err := cluster.Kubernetes.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
				if !apierrors.IsNotFound(err) {
					return errors.Join(err, errors.New("namespace still exists"))
				}
				return nil
			})
		}
	})
	clusters.CreateNamespace(t, ns)
	east().ExportService(t, ns, "kept", []string{"10.9.0.1"})
	west().AwaitImport(t, ns, "kept", "east")
	east().AwaitImport(t, ns, "kept", "east")
	awaitConditions(t, 1)
	before := read(t)
	withdrawals := countWithdrawals(t, east(), west())
	client := expect.Must(clientv3.New(clientv3.Config{Endpoints: []string{east().Plane.EtcdURL()}, DialTimeout: expect.Patience}))(t)
	defer client.Close()
	backup := expect.Must(client.Get(t.Context(), etcdPrefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)))(t)

	expect.Must(client.Delete(t.Context(), etcdPrefix, clientv3.WithPrefix()))(t)
	for _, replica := range east().APIServers {
		direct := expect.Must(versioned.NewForConfig(expect.Must(replica.Config())(t)))(t)
		list, err := direct.MulticlusterXV1beta1().ServiceExports(ns).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "was lost: its marker is missing") {
			t.Errorf("list of exports: got %d, %v, want 503 with the reason", len(list.Items), err)
		}
	}
	// What happened before was processed when a change of endpoints is imported.
	slices := east().Kubernetes.DiscoveryV1().EndpointSlices(ns)
	own := expect.Must(slices.List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kept"}))(t).Items[0]
	own.Endpoints[0].Addresses = []string{"10.9.0.2"}
	expect.Must(slices.Update(t.Context(), &own, metav1.UpdateOptions{}))(t)
	expect.Eventually(t, "changed endpoint in west", func(ctx context.Context) error {
		imported, err := west().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(imported.Items), "10.9.0.2") {
			err = errors.New("not imported yet")
		}
		return err
	})
	if count := withdrawals.Load(); count != 0 {
		t.Errorf("%d objects were withdrawn", count)
	}

	for _, pair := range backup.Kvs { // the key of the marker is the last one
		expect.Must(client.Put(t.Context(), string(pair.Key), string(pair.Value)))(t)
	}
	for _, replica := range east().APIServers {
		select {
		case <-replica.Exited():
		case <-time.After(expect.Patience):
			t.Fatal("replica still runs with the watch cache of emptied storage")
		}
		expect.NoError(t, replica.Start())
	}
	awaitReady(t, east().APIServers...)
	before.expectSame(t, "restoring the etcd")
	if count := withdrawals.Load(); count != 0 {
		t.Errorf("%d objects were withdrawn", count)
	}
	expect.NoError(t, east().Unexport(t.Context(), ns, "kept"))
	west().AwaitNoImport(t, ns, "kept")
	awaitWithdrawals(t, withdrawals)
}
