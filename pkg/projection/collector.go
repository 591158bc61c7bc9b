// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Metrics of what there is. They are computed when they are read, so that none is left of what
// is gone.
var (
	exportsDesc = metrics.NewDesc("mcs_apiserver_exports",
		"ServiceExports of this cluster, by condition: how many have a condition with a status and a reason. None is counted that has no such condition yet.",
		[]string{"condition", "status", "reason"}, nil, metrics.ALPHA, "")
	importsDesc = metrics.NewDesc("mcs_apiserver_imports",
		"ServiceImports, by type and by the status and reason of their condition Ready.",
		[]string{"type", "ready", "reason"}, nil, metrics.ALPHA, "")
	exportedServicesDesc = metrics.NewDesc("mcs_apiserver_exported_services",
		"Services that are exported, by the cluster that exports them, which may be this one.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	exportedEndpointsDesc = metrics.NewDesc("mcs_apiserver_exported_endpoints",
		"Endpoints of exported Services, by the cluster that exports them and by whether they are ready.",
		[]string{"cluster", "ready"}, nil, metrics.ALPHA, "")
	objectsDesc = metrics.NewDesc("mcs_apiserver_virtual_objects",
		"Objects of virtual resources, by resource.",
		[]string{"resource"}, nil, metrics.ALPHA, "")
)

// collector computes the metrics of the Projection that was created last.
type collector struct {
	metrics.BaseStableCollector
	projection atomic.Pointer[Projection]
}

// current is registered once.
var current collector

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{exportsDesc, importsDesc, exportedServicesDesc, exportedEndpointsDesc, objectsDesc} {
		ch <- desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	p := c.projection.Load()
	if p == nil {
		return
	}
	p.countExports(ch)
	p.countImports(ch)
	p.countExported(ch)
	for resource, store := range p.config.Stores {
		send(ch, objectsDesc, map[[1]string]int{{resource.String()}: store.Len()})
	}
}

func (p *Projection) countExports(ch chan<- metrics.Metric) {
	serviceExports, err := p.local.Exports.List(labels.Everything())
	if err != nil {
		return // unreachable: it is a cache
	}
	counts := map[[3]string]int{}
	for _, export := range serviceExports {
		for _, condition := range export.Status.Conditions {
			counts[[3]string{condition.Type, string(condition.Status), condition.Reason}]++
		}
	}
	send(ch, exportsDesc, counts)
}

func (p *Projection) countImports(ch chan<- metrics.Metric) {
	counts := map[[3]string]int{}
	p.stores.serviceImports.Each(func(object runtime.Object) {
		serviceImport := object.(*multicluster.ServiceImport)
		ready := metav1.Condition{Status: metav1.ConditionUnknown}
		if found := meta.FindStatusCondition(serviceImport.Status.Conditions, multicluster.ServiceImportReady); found != nil {
			ready = *found
		}
		counts[[3]string{string(serviceImport.Spec.Type), string(ready.Status), ready.Reason}]++
	})
	send(ch, importsDesc, counts)
}

func (p *Projection) countExported(ch chan<- metrics.Metric) {
	services, endpoints := map[[1]string]int{}, map[[2]string]int{}
	label := p.members.MetricLabels()
	p.stores.exportedServices.Each(func(object runtime.Object) {
		services[[1]string{label(object.(*clusterset.ExportedService).Spec.Cluster)}]++
	})
	p.stores.exportedEndpointSlices.Each(func(object runtime.Object) {
		slice := object.(*clusterset.ExportedEndpointSlice)
		ready := 0
		for i := range slice.Spec.Endpoints {
			if ptr.Deref(slice.Spec.Endpoints[i].Conditions.Ready, true) {
				ready++
			}
		}
		cluster := label(slice.Spec.Cluster)
		endpoints[[2]string{cluster, "true"}] += ready
		endpoints[[2]string{cluster, "false"}] += len(slice.Spec.Endpoints) - ready
	})
	send(ch, exportedServicesDesc, services)
	send(ch, exportedEndpointsDesc, endpoints)
}

// send sends a gauge for each combination of label values.
func send[K [1]string | [2]string | [3]string](ch chan<- metrics.Metric, desc *metrics.Desc, counts map[K]int) {
	for values, count := range counts {
		var labels []string
		switch values := any(values).(type) {
		case [1]string:
			labels = values[:]
		case [2]string:
			labels = values[:]
		case [3]string:
			labels = values[:]
		}
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, float64(count), labels...)
	}
}
