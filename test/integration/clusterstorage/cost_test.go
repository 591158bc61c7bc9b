// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstorage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R147: creating a ServiceExport through the kube-apiserver takes at most 2.5 times
// as long as creating a ConfigMap. Both are measured alternately, so that the load
// of the machine affects both.
func TestCostOfCreatingAnExport(t *testing.T) {
	running(t)
	admin := expect.Must(installed.Plane.AdminConfig())(t)
	exports := expect.Must(versioned.NewForConfig(admin))(t).MulticlusterXV1beta1().ServiceExports("default")
	configMaps := installed.Kubernetes.CoreV1().ConfigMaps("default")
	expect.Must(installed.Kubernetes.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "cost"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)

	const warmup, rounds, limit = 20, 200, 2.5
	var ofConfigMap, ofExport []time.Duration
	for i := range warmup + rounds {
		name := fmt.Sprintf("cost-%d", i)
		started := time.Now()
		expect.Must(configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{}))(t)
		between := time.Now()
		expect.Must(exports.Create(t.Context(), newExport(name), metav1.CreateOptions{}))(t)
		if i >= warmup {
			ofConfigMap, ofExport = append(ofConfigMap, between.Sub(started)), append(ofExport, time.Since(between))
		}
	}
	ratio := float64(median(ofExport)) / float64(median(ofConfigMap))
	t.Logf("median of %d: ServiceExport %s, ConfigMap %s, ratio %.2f", rounds, median(ofExport), median(ofConfigMap), ratio)
	if ratio > limit {
		t.Errorf("creating a ServiceExport takes %.2f times as long as creating a ConfigMap, want at most %.1f times", ratio, limit)
	}
	expect.NoError(t, exports.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	expect.NoError(t, installed.Kubernetes.CoreV1().Services("default").Delete(t.Context(), "cost", metav1.DeleteOptions{}))
}

func median(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}
