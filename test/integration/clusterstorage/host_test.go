// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	multiclusterxclient "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/typed/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R144: the server survives its kube-apiserver. Reads fail while the kube-apiserver
// is down or its caches are cold, and never return an empty list.
func TestKilledHostIsNotAnEmptyStore(t *testing.T) {
	running(t)
	replica := installed.APIServers[0]
	exports := client(t, replica).MulticlusterXV1beta1().ServiceExports("default")
	expect.Must(exports.Create(t.Context(), newExport("survivor"), metav1.CreateOptions{}))(t)
	followed := follow(t, client(t, replica))
	process := replica.PID()
	restartHost(t, client(t, replica).MulticlusterXV1beta1().RESTClient().Get().Resource("serviceexports").MaxRetries(0))
	expect.NoError(t, replica.AwaitReady(t.Context()))
	if deletions := followed.deletions.Load(); replica.PID() != process || deletions != 0 {
		t.Errorf("server process %d, was %d; %d deletions were reported", replica.PID(), process, deletions)
	}
	expect.NoError(t, exports.Delete(t.Context(), "survivor", metav1.DeleteOptions{}))
}

// R511: however long the kube-apiserver was down, changes are seen soon after it is back.
// Informers alone would wait for up to a minute.
func TestChangesAreSeenSoonAfterTheHostIsBack(t *testing.T) {
	running(t)
	exportServices(t, client(t, installed.APIServers[0]))
	const name = "web-0"
	derived := func(ctx context.Context) (*corev1.Service, error) {
		return installed.Kubernetes.CoreV1().Services("default").Get(ctx, multicluster.DerivedServiceName("default", name), metav1.GetOptions{})
	}
	expect.Eventually(t, "derived Service", func(ctx context.Context) error {
		_, err := derived(ctx)
		return err
	})
	installed.Plane.Kill(controlplane.APIServer)
	time.Sleep(40 * time.Second)
	expect.NoError(t, installed.Plane.Restart(t.Context(), controlplane.APIServer))
	back := time.Now()
	within := func(what string, check func(context.Context) error) {
		t.Helper()
		expect.Within(t, time.Until(back.Add(30*time.Second)), what, check)
	}
	patch := []byte(`[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]`)
	within("change of the Service", func(ctx context.Context) error {
		_, err := installed.Kubernetes.CoreV1().Services("default").Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
		return err
	})
	within("deletion of an export", func(ctx context.Context) error {
		return client(t, installed.APIServers[1]).MulticlusterXV1beta1().ServiceExports("default").Delete(ctx, "web-1", metav1.DeleteOptions{})
	})
	for i, replica := range installed.APIServers {
		imports := client(t, replica).MulticlusterXV1beta1().ServiceImports("default")
		within(fmt.Sprintf("imports of replica %d", i), func(ctx context.Context) error {
			imported, err := imports.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if imported.Spec.Ports[0].Port != 81 {
				return fmt.Errorf("import has ports %v", imported.Spec.Ports)
			}
			if _, err := imports.Get(ctx, "web-1", metav1.GetOptions{}); err == nil {
				return errors.New("import remains without an export")
			} else if !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
	within("derived Service", func(ctx context.Context) error {
		service, err := derived(ctx)
		if err == nil && service.Spec.Ports[0].Port != 81 {
			err = fmt.Errorf("has ports %v", service.Spec.Ports)
		}
		return err
	})
	t.Logf("all have followed %s after the kube-apiserver was back", time.Since(back).Round(time.Millisecond))
}

// restartHost kills the kube-apiserver, starts it again, and lists all the while, until
// lists succeed.
func restartHost(t *testing.T, request *rest.Request) {
	t.Helper()
	installed.Plane.Kill(controlplane.APIServer)
	started := make(chan error, 1)
	killed := time.Now()
	go func() { started <- installed.Plane.Restart(t.Context(), controlplane.APIServer) }()
	failures := map[metav1.StatusReason]int{}
	for up := false; ; {
		list := &multiclusterxv1beta1.ServiceExportList{}
		err := request.Do(t.Context()).Into(list)
		switch {
		case err == nil && len(list.Items) == 0:
			t.Fatal("the list is empty")
		case err != nil:
			failures[apierrors.ReasonForError(err)]++
			if !retryable(err) {
				t.Errorf("list fails with %v, which clients do not retry", err)
			}
		case up:
			t.Logf("lists succeed %s after the kube-apiserver was killed; failures until then: %v", time.Since(killed).Round(time.Millisecond), failures)
			if len(failures) == 0 {
				t.Error("no list failed: the kube-apiserver was not down")
			}
			return
		}
		select {
		case err := <-started:
			expect.NoError(t, err)
			up = true
		default:
		}
	}
}

// retryable reports whether clients may repeat a request that failed with an error.
func retryable(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// R144: requests end with an error while the kube-apiserver hangs, and succeed when it
// continues.
func TestHungHostLeadsToErrors(t *testing.T) {
	running(t)
	replica := installed.APIServers[0]
	exports := client(t, replica).MulticlusterXV1beta1().RESTClient()
	resume := expect.Must(installed.Plane.PauseAPIServer())(t)
	t.Cleanup(func() { _ = resume() })
	var requests sync.WaitGroup
	for what, request := range map[string]*rest.Request{
		"list":   exports.Get().Resource("serviceexports"),
		"watch":  exports.Get().Resource("serviceexports").Param("watch", "true").Timeout(time.Minute),
		"get":    exports.Get().Namespace("default").Resource("serviceexports").Name("absent"),
		"update": exports.Put().Namespace("default").Resource("serviceexports").Name("absent").Body(newExport("absent")),
	} {
		requests.Go(func() {
			started := time.Now()
			err := request.MaxRetries(0).Do(t.Context()).Error()
			if took := time.Since(started); !retryable(err) || took > 20*time.Second {
				t.Errorf("%s: got %v after %s, want an error within a few seconds that may be retried", what, err, took)
			}
		})
	}
	requests.Wait()
	if status, text, err := replica.Health(t.Context(), "/livez"); err != nil || status != http.StatusOK {
		t.Errorf("/livez: %d %s, %v", status, text, err)
	}
	expect.NoError(t, resume())
	if err := exports.Get().Resource("serviceexports").Do(t.Context()).Error(); err != nil {
		t.Errorf("list after the kube-apiserver continued: %v", err)
	}
}

// R145: what one replica has acknowledged, another one returns, and a watch can
// continue at another replica.
func TestReplicasAgree(t *testing.T) {
	running(t)
	var clients []versioned.Interface
	for _, replica := range installed.APIServers {
		clients = append(clients, client(t, replica))
	}
	exports := func(i int) multiclusterxclient.ServiceExportInterface {
		return clients[i%len(clients)].MulticlusterXV1beta1().ServiceExports("default")
	}
	for i := range 20 {
		name := fmt.Sprintf("agreed-%d", i)
		created := expect.Must(exports(i).Create(t.Context(), newExport(name), metav1.CreateOptions{}))(t)
		read := expect.Must(exports(i+1).Get(t.Context(), name, metav1.GetOptions{}))(t)
		if read.UID != created.UID {
			t.Errorf("created %s, the other replica returns %s", created.UID, read.UID)
		}
		watcher := expect.Must(exports(i+1).Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion, FieldSelector: "metadata.name=" + name}))(t)
		expect.NoError(t, exports(i).Delete(t.Context(), name, metav1.DeleteOptions{}))
		seen, version := awaitDeletion(t, watcher)
		// All that one replica reports after a version, another one does, and nothing twice.
		again := expect.Must(exports(i).Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion, FieldSelector: "metadata.name=" + name}))(t)
		if same, _ := awaitDeletion(t, again); !slices.Equal(same, seen) {
			t.Errorf("one replica reports %v, another one %v", seen, same)
		}
		after := expect.Must(exports(i).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version, FieldSelector: "metadata.name=" + name}))(t)
		expect.Must(exports(i+1).Create(t.Context(), newExport(name), metav1.CreateOptions{}))(t)
		if event := <-after.ResultChan(); event.Type != watch.Added {
			t.Errorf("watch that continues after the deletion: %v, want the export that was created then", event)
		}
		after.Stop()
		expect.NoError(t, exports(i).Delete(t.Context(), name, metav1.DeleteOptions{}))
		if _, err := exports(i+1).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted export: the other replica returns %v", err)
		}
	}

	expect.Must(exports(0).Create(t.Context(), newExport("counter"), metav1.CreateOptions{}))(t)
	const writers, increments = 4, 10
	var running sync.WaitGroup
	for writer := range writers {
		running.Go(func() {
			for range increments {
				if err := retry.RetryOnConflict(wait.Backoff{Steps: 100, Duration: 5 * time.Millisecond, Jitter: 1}, func() error { return increment(t.Context(), exports(writer)) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if got := expect.Must(exports(1).Get(t.Context(), "counter", metav1.GetOptions{}))(t); len(got.Annotations["count"]) != writers*increments {
		t.Errorf("%d increments, want %d", len(got.Annotations["count"]), writers*increments)
	}
	expect.NoError(t, exports(0).Delete(t.Context(), "counter", metav1.DeleteOptions{}))
}

// awaitDeletion returns the events of a watch until an export is deleted, and the version of
// the deletion.
func awaitDeletion(t *testing.T, watcher watch.Interface) (seen []string, version string) {
	t.Helper()
	defer watcher.Stop()
	deadline := time.After(expect.Patience)
	for {
		select {
		case event, open := <-watcher.ResultChan():
			export, ok := event.Object.(*multiclusterxv1beta1.ServiceExport)
			if !open || !ok {
				t.Fatalf("watch ended before the deletion, after %v: %v", seen, event)
			}
			seen = append(seen, string(event.Type)+" at "+export.ResourceVersion)
			if event.Type == watch.Deleted {
				return seen, export.ResourceVersion
			}
		case <-deadline:
			t.Fatalf("deletion was not reported, only %v", seen)
		}
	}
}

// increment adds a character to an annotation of the export "counter".
func increment(ctx context.Context, exports multiclusterxclient.ServiceExportInterface) error {
	counter, err := exports.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	counter.Annotations = map[string]string{"count": counter.Annotations["count"] + "+"}
	_, err = exports.Update(ctx, counter, metav1.UpdateOptions{})
	return err
}

// R146: an object that does not fit into a ConfigMap is rejected, and the error says so.
func TestTooLargeExportIsRejected(t *testing.T) {
	running(t)
	exports := client(t, installed.APIServers[0]).MulticlusterXV1beta1().ServiceExports("default")
	// The same labels are stored with the export, in its managed fields and in the
	// ConfigMap. Long keys exceed the limit of a ConfigMap, and short ones that of etcd.
	for prefix, labels := range map[string]int{strings.Repeat("long.", 30) + "example/": 4000, "": 8000} {
		large := newExport("large")
		large.Labels = map[string]string{}
		for i := range labels {
			large.Labels[fmt.Sprintf("%skey-%d", prefix, i)] = strings.Repeat("v", 63)
		}
		_, err := exports.Create(t.Context(), large, metav1.CreateOptions{})
		if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "/default/large is too large") {
			t.Errorf("%d labels: got %v, want 413 that names the export", labels, err)
		}
	}
}
