// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// uncounted are resources that are written whether anything changes or not, that the
// kube-apiserver writes itself for every Service, or that are no writes at all.
var uncounted = []string{"leases", "ipaddresses", "subjectaccessreviews", "tokenreviews", "localsubjectaccessreviews", "serviceaccounts"}

// background are resources that are requested whether anything changes or not.
var background = []string{"leases", "pods", "tokenreviews", "serviceaccounts"}

// writes returns how many requests that write the kube-apiserver of a cluster has served
// successfully, by verb and resource.
func writes(ctx context.Context, cluster *fleet.Cluster) (map[string]float64, error) {
	verbs := []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}
	return served(ctx, cluster, func(verb, resource, code string) string {
		if code >= "300" || !slices.Contains(verbs, verb) || slices.Contains(uncounted, resource) {
			return ""
		}
		return verb
	})
}

// requests returns how many requests the kube-apiservers of all clusters have served, by verb and
// resource, those that failed included.
func requests(ctx context.Context, clusters ...*fleet.Cluster) (map[string]float64, error) {
	sum := map[string]float64{}
	for _, cluster := range clusters {
		counted, err := served(ctx, cluster, func(verb, resource, code string) string {
			switch {
			case slices.Contains(background, resource):
				return ""
			case code >= "300":
				return verb + " " + code
			}
			return verb
		})
		if err != nil {
			return nil, err
		}
		for what, count := range counted {
			sum[what] += count
		}
	}
	return sum, nil
}

// served returns how many requests the kube-apiserver of a cluster has served, by what a function
// calls them, and resource. Those are not counted that it gives no name.
func served(ctx context.Context, cluster *fleet.Cluster, name func(verb, resource, code string) string) (map[string]float64, error) {
	text, err := cluster.Kubernetes.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	counted := map[string]float64{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		resource := strings.TrimSuffix(labels["resource"]+"/"+labels["subresource"], "/")
		if called := name(labels["verb"], labels["resource"], labels["code"]); called != "" {
			counted[called+" "+resource] += metric.GetCounter().GetValue()
		}
	}
	return counted, nil
}

// perChange returns how many of what is counted each change caused.
func perChange(name string, changes int, target float64, before, after map[string]float64) report.Figure {
	figure := report.Figure{Name: name, Target: target}
	var details []string
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if count := after[what] - before[what]; count > 0 {
			figure.Value += count / float64(changes)
			details = append(details, fmt.Sprintf("%s %.0f", what, count))
		}
	}
	figure.Low, figure.High = figure.Value, figure.Value
	figure.Detail = fmt.Sprintf("%d changes: %s", changes, strings.Join(details, ", "))
	return figure
}
