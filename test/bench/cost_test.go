// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench compares costs. Its tests run alone: other load would decide their results.
package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	multiclusterxclient "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/typed/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

const (
	// warmup is the number of requests that are not measured, and rounds that of a series.
	warmup, rounds = 20, 100
	// maxSeries is how often to measure if the limit is exceeded: other load of the machine
	// can increase a ratio, but not reduce it below that of an idle machine.
	maxSeries = 6
)

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// R147: creating a ServiceExport through the kube-apiserver takes at most 2.5 times as
// long as creating a ConfigMap. Reads are measured as well.
func TestCostOfExports(t *testing.T) {
	c := newClients(t)
	compare(t, "create", 2.5, func(name string) error {
		_, err := c.configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{})
		return err
	}, func(name string) error {
		_, err := c.exports.Create(t.Context(), &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}, func(name string) { c.awaitStatus(t, name) })
	compare(t, "get", 4, func(string) error {
		_, err := c.configMaps.Get(t.Context(), name(0, 0), metav1.GetOptions{})
		return err
	}, func(string) error {
		_, err := c.exports.Get(t.Context(), name(0, 0), metav1.GetOptions{})
		return err
	}, func(string) {})
	compare(t, "list", 8, func(string) error {
		_, err := c.configMaps.List(t.Context(), metav1.ListOptions{})
		return err
	}, func(string) error {
		_, err := c.exports.List(t.Context(), metav1.ListOptions{})
		return err
	}, func(string) {})
}

func name(series, i int) string { return fmt.Sprintf("cost-%d-%d", series, i) }

// compare reports an error if requests for ServiceExports take longer than limit times those
// for ConfigMaps. After both, settle waits until their consequences are done.
func compare(t *testing.T, what string, limit float64, ofConfigMap, ofExport func(name string) error, settle func(name string)) {
	t.Helper()
	for series := range maxSeries {
		configMap, export := measure(t, series, ofConfigMap, ofExport, settle)
		ratio := float64(export) / float64(configMap)
		t.Logf("%s, median of %d: ServiceExport %s, ConfigMap %s, ratio %.2f", what, rounds, export.Round(time.Microsecond), configMap.Round(time.Microsecond), ratio)
		if ratio <= limit {
			return
		}
	}
	t.Errorf("%s: a ServiceExport takes more than %.1f times as long as a ConfigMap", what, limit)
}

// measure returns the medians of a series. Requests of both kinds alternate, so that the load of
// the machine affects both.
func measure(t *testing.T, series int, ofConfigMap, ofExport func(name string) error, settle func(name string)) (configMap, export time.Duration) {
	t.Helper()
	var configMaps, exports []time.Duration
	for i := range warmup + rounds {
		started := time.Now()
		expect.NoError(t, ofConfigMap(name(series, i)))
		between := time.Now()
		expect.NoError(t, ofExport(name(series, i)))
		if i >= warmup {
			configMaps, exports = append(configMaps, between.Sub(started)), append(exports, time.Since(between))
		}
		settle(name(series, i))
	}
	return median(configMaps), median(exports)
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

type clients struct {
	configMaps corev1client.ConfigMapInterface
	exports    multiclusterxclient.ServiceExportInterface
}

// newClients returns clients of a cluster with mcs-apiserver and the Services to export.
// Both encode objects as JSON.
func newClients(t *testing.T) clients {
	t.Helper()
	installed := install(t)
	admin := expect.Must(installed.Plane.AdminConfig())(t)
	admin.ContentType = runtime.ContentTypeJSON
	services := installed.Kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	for i := range maxSeries * (warmup + rounds) {
		expect.Must(services.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name(i/(warmup+rounds), i%(warmup+rounds))},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}))(t)
	}
	return clients{
		configMaps: expect.Must(kubernetes.NewForConfig(admin))(t).CoreV1().ConfigMaps(metav1.NamespaceDefault),
		exports:    expect.Must(versioned.NewForConfig(admin))(t).MulticlusterXV1beta1().ServiceExports(metav1.NamespaceDefault),
	}
}

// awaitStatus waits until mcs-controller has written the status of an export.
func (c clients) awaitStatus(t *testing.T, name string) {
	t.Helper()
	for len(expect.Must(c.exports.Get(t.Context(), name, metav1.GetOptions{}))(t).Status.Conditions) == 0 {
	}
}

// install installs mcs-apiserver in a control plane of its own.
func install(t *testing.T) *installation.Installation {
	t.Helper()
	root := expect.Must(repository.Root())(t)
	dir := expect.Must(os.MkdirTemp("", "mcs-bench-"))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("component logs are in", dir)
		} else {
			expect.NoError(t, os.RemoveAll(dir))
		}
	})
	plane := expect.Must(controlplane.Start(t.Context(), controlplane.Config{
		Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"), Realistic: true,
	}))(t)
	t.Cleanup(func() { expect.NoError(t, plane.Stop()) })
	installed := expect.Must(installation.Install(t.Context(), installation.Config{Plane: plane, Root: root, Dir: dir}))(t)
	t.Cleanup(func() { expect.NoError(t, installed.Stop()) })
	return installed
}
