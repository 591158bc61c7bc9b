// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membertest

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
)

// Gather returns the gauges and counters of a collector by their names and label values, in the order of
// the names of the labels, such as "mcs_apiserver_members Connected".
func Gather(t *testing.T, collector metrics.StableCollector) map[string]float64 {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				name = append(name, label.GetValue())
			}
			values[strings.Join(name, " ")] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() // one of them is nil
		}
	}
	return values
}
