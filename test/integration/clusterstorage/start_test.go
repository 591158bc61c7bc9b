// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

func newExport(name string) *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// R142: a server without an etcd waits for its namespace and its permissions, and
// says so; it is ready as soon as they exist.
func TestServerWaitsForItsNamespaceAndItsPermissions(t *testing.T) {
	reset(t)
	replica := installed.APIServers[0]
	expect.NoError(t, replica.Start())
	expectUnready(t, replica, "storage", `storage namespace "mcs-storage" does not exist`)
	expectUnavailable(t, replica, `storage namespace "mcs-storage" does not exist`)

	expect.Must(installed.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: storageNamespace}}, metav1.CreateOptions{}))(t)
	const denied = "not allowed to get, list, watch, create, update, delete configmaps"
	expectUnready(t, replica, "storage", denied)
	expectUnavailable(t, replica, denied)

	process := replica.PID()
	granted := time.Now()
	startController(t)
	expect.NoError(t, replica.AwaitReady(t.Context()))
	t.Logf("ready %s after mcs-controller was started", time.Since(granted).Round(time.Millisecond))
	if replica.PID() != process {
		t.Error("the server was restarted")
	}
	created := expect.Must(client(t, replica).MulticlusterXV1beta1().ServiceExports("default").Create(t.Context(), newExport("web"), metav1.CreateOptions{}))(t)
	if created.UID == "" {
		t.Error("export has no UID")
	}
}

// R141: the state of another cluster, such as a backup that was restored in the
// wrong cluster, is not served.
func TestStateOfAnotherClusterIsNotServed(t *testing.T) {
	running(t)
	replica := installed.APIServers[0]
	markers := installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace)
	own := expect.Must(markers.Get(t.Context(), marker.Name, metav1.GetOptions{}))(t)
	foreign := own.DeepCopy()
	foreign.Data["marker"] = string(expect.Must(json.Marshal(marker.Marker{StorageID: "theirs", ClusterUID: "another-cluster"}))(t))
	allowWrites(t)
	expect.NoError(t, replica.Stop(time.Minute))
	foreign = expect.Must(markers.Update(t.Context(), foreign, metav1.UpdateOptions{}))(t)
	expect.NoError(t, replica.Start())
	expectUnready(t, replica, "storage", "storage holds the state of another cluster")
	expectUnavailable(t, replica, "storage holds the state of another cluster")

	foreign.Data = own.Data
	expect.Must(markers.Update(t.Context(), foreign, metav1.UpdateOptions{}))(t)
	expect.NoError(t, replica.AwaitReady(t.Context()))
}

// R502: a server that is running when another one has moved its objects elsewhere accepts no
// write any more, nor when its marker is lost, until the marker is restored.
func TestMovedStorageIsNotUsedAnyMore(t *testing.T) {
	running(t)
	replica := installed.APIServers[0]
	markers := installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace)
	own := expect.Must(markers.Get(t.Context(), marker.Name, metav1.GetOptions{}))(t)
	allowWrites(t)
	moved := own.DeepCopy()
	var held marker.Marker
	expect.NoError(t, json.Unmarshal([]byte(own.Data["marker"]), &held))
	held.MovedTo = "an etcd"
	moved.Data["marker"] = string(expect.Must(json.Marshal(held))(t))
	restored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: marker.Name}, Data: own.Data}

	moved = expect.Must(markers.Update(t.Context(), moved, metav1.UpdateOptions{}))(t)
	awaitWrites(t, replica, "storage is outdated: its objects were moved to an etcd")
	moved.Data = own.Data
	expect.Must(markers.Update(t.Context(), moved, metav1.UpdateOptions{}))(t)
	awaitWrites(t, replica, "")

	expect.NoError(t, markers.Delete(t.Context(), marker.Name, metav1.DeleteOptions{}))
	awaitWrites(t, replica, "was lost: its marker is missing")
	expect.Must(markers.Create(t.Context(), restored, metav1.CreateOptions{}))(t)
	awaitWrites(t, replica, "")
}

// awaitWrites waits until exports can be created, or cannot because of a reason.
func awaitWrites(t *testing.T, replica *installation.Replica, reason string) {
	t.Helper()
	exports := client(t, replica).MulticlusterXV1beta1().RESTClient().Post().Namespace("default").Resource("serviceexports")
	expect.Eventually(t, "response to a write", func(ctx context.Context) error {
		err := exports.Param("dryRun", metav1.DryRunAll).Body(newExport("new")).MaxRetries(0).Do(ctx).Error()
		if (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			return fmt.Errorf("got %w, want %q", err, reason)
		}
		return nil
	})
	if reason != "" {
		expectUnavailable(t, replica, reason)
	}
}

// R153: an object that cannot be decoded is unknown, not absent. A server that starts
// with it is not ready, and says which ConfigMap is invalid.
func TestInvalidConfigMapIsReported(t *testing.T) {
	running(t)
	replica := installed.APIServers[0]
	exports := client(t, replica).MulticlusterXV1beta1().ServiceExports("default")
	expect.Must(exports.Create(t.Context(), newExport("invalid"), metav1.CreateOptions{}))(t)
	configMaps := installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace)
	allowWrites(t)
	expect.NoError(t, replica.Stop(time.Minute))
	stored := expect.Must(configMaps.List(t.Context(), metav1.ListOptions{LabelSelector: configmap.ResourceLabel + "=serviceexports.multicluster.x-k8s.io"}))(t)
	index := slices.IndexFunc(stored.Items, func(item corev1.ConfigMap) bool { return strings.HasSuffix(item.Data["key"], "/default/invalid") })
	valid := stored.Items[index]
	invalid := valid.DeepCopy()
	invalid.Data["object"] = "{"
	expect.Must(configMaps.Update(t.Context(), invalid, metav1.UpdateOptions{}))(t)

	expect.NoError(t, replica.Start())
	reason := "ConfigMap mcs-storage/" + invalid.Name
	expectUnready(t, replica, "virtual-resources", reason)
	if list, err := exports.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("list: got %d exports, %v, want %q", len(list.Items), err, reason)
	}

	valid.ResourceVersion = ""
	expect.Must(configMaps.Update(t.Context(), &valid, metav1.UpdateOptions{}))(t)
	expect.NoError(t, replica.AwaitReady(t.Context()))
	expect.NoError(t, exports.Delete(t.Context(), "invalid", metav1.DeleteOptions{}))
}
