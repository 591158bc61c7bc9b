// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/replica"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// runMonitor runs the monitor of a Pod as long as the test or until it is stopped.
func runMonitor(t *testing.T, namespace, pod string, healthy func() bool) (stop func()) {
	t.Helper()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: east().Kubernetes.EventsV1()})
	expect.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	t.Cleanup(broadcaster.Shutdown)
	monitor := replica.New(east().Kubernetes, namespace, pod, broadcaster.NewRecorder(scheme.Scheme, "test"), healthy)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = monitor.Run(ctx) }) // returns no errors
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// addresses are those of the Pods of a Service.
var addresses = map[string]string{"a": "10.9.9.1", "b": "10.9.9.2", "c": "10.9.9.3"}

// createMonitored creates a Service with Pods that are ready or not, as if a kubelet ran them.
func createMonitored(t *testing.T, name string, ready map[string]bool) (namespace string) {
	t.Helper()
	nodes := east().Kubernetes.CoreV1().Nodes()
	expect.Must(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { expect.NoError(t, nodes.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	namespace = fleet.CreateNamespace(t, name, east())
	expect.Must(east().Service(t.Context(), namespace, "monitored", func(service *corev1.Service) {
		service.Spec.Selector = map[string]string{"app": "monitored"}
	}))(t)
	for pod, ready := range ready {
		expect.Eventually(t, "creation of Pod "+pod, func(ctx context.Context) error { // needs a ServiceAccount
			_, err := east().Kubernetes.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: pod, Labels: map[string]string{"app": "monitored"}},
				Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
			}, metav1.CreateOptions{})
			return err
		})
		markReady(t, namespace, pod, ready)
	}
	return namespace
}

// markReady sets the status of a Pod as a kubelet would.
func markReady(t *testing.T, namespace, name string, ready bool) {
	t.Helper()
	pods, ip := east().Kubernetes.CoreV1().Pods(namespace), addresses[name]
	pod := expect.Must(pods.Get(t.Context(), name, metav1.GetOptions{}))(t)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !ready {
		condition.Status = corev1.ConditionFalse
	}
	pod.Status.Conditions = []corev1.PodCondition{condition}
	expect.Must(pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))(t)
}

// readyAddresses returns the addresses of the ready endpoints of the Service.
func readyAddresses(ctx context.Context, namespace string) ([]string, error) {
	list, err := east().Kubernetes.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var ready []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if *endpoint.Conditions.Ready {
				ready = append(ready, endpoint.Addresses...)
			}
		}
	}
	slices.Sort(ready)
	return ready, nil
}

func awaitAddresses(t *testing.T, namespace string, want ...string) {
	t.Helper()
	expect.Eventually(t, "endpoints", func(ctx context.Context) error {
		got, err := readyAddresses(ctx, namespace)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("ready: %v, want %v", got, want)
		}
		return err
	})
}

// R193: a replica that does not renew its Lease leaves the Service within seconds. A kubelet that
// is connected brings it back, and it stays.
func TestSilentReplicaLeavesTheService(t *testing.T) {
	t.Parallel()
	ns := createMonitored(t, "silent", map[string]bool{"a": true, "b": true})
	awaitAddresses(t, ns, addresses["a"], addresses["b"])
	runMonitor(t, ns, "a", func() bool { return true })
	silence(t, ns, "b")
	awaitTakenOut(t, ns)
	expect.Eventually(t, "replica stays in service", func(ctx context.Context) error { // a monitor whose request failed begins anew
		markReady(t, ns, "b", true)
		awaitRenewals(t, ns, "a", 6)
		got, err := readyAddresses(ctx, ns)
		if want := []string{addresses["a"], addresses["b"]}; err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("ready: %v, want %v", got, want)
		}
		return err
	})
}

// R193: a replica stays if all others are not in service: a is not ready, and c not healthy.
func TestSilentReplicaStaysIfItIsTheLast(t *testing.T) {
	t.Parallel()
	ns := createMonitored(t, "last", map[string]bool{"a": false, "b": true, "c": true})
	runMonitor(t, ns, "a", func() bool { return true })
	runMonitor(t, ns, "c", func() bool { return false })
	silence(t, ns, "b")
	awaitRenewals(t, ns, "a", 6)
	awaitRenewals(t, ns, "c", 1)
	expectReady(t, ns, "b")
}

// silence lets a replica renew its Lease, and then no more.
func silence(t *testing.T, ns, pod string) {
	t.Helper()
	stop := runMonitor(t, ns, pod, func() bool { return true })
	awaitRenewals(t, ns, pod, 1)
	stop()
}

func expectReady(t *testing.T, ns, name string) {
	t.Helper()
	pod := expect.Must(east().Kubernetes.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{}))(t)
	if pod.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("replica was taken out of service: %+v", pod.Status.Conditions)
	}
}

// awaitTakenOut waits until Pod b has left the Service and an Event says why.
func awaitTakenOut(t *testing.T, ns string) {
	t.Helper()
	silent := time.Now()
	awaitAddresses(t, ns, addresses["a"])
	t.Logf("replica left the Service after %s", time.Since(silent).Round(time.Millisecond))
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		list, err := east().Kubernetes.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == replica.NotResponding && event.Regarding.Name == "b" && strings.Contains(event.Note, "taken out of service by a") {
				return nil
			}
		}
		return fmt.Errorf("there are %d other Events", len(list.Items))
	})
}

// awaitRenewals waits until the Lease of a replica was renewed a number of times.
func awaitRenewals(t *testing.T, namespace, pod string, times int) {
	t.Helper()
	seen := map[time.Time]bool{}
	expect.Eventually(t, "renewals of the Lease of "+pod, func(ctx context.Context) error {
		lease, err := east().Kubernetes.CoordinationV1().Leases(namespace).Get(ctx, "replica-"+pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if seen[lease.Spec.RenewTime.Time] = true; len(seen) <= times {
			return fmt.Errorf("renewed %d times", len(seen)-1)
		}
		return nil
	})
}
