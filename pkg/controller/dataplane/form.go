// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// form is whose EndpointSlice a slice is. Its value is the end of the names of such slices:
// a slice never changes its form, because kube-proxy, Istio and others do not notice that
// the label by which they know a slice was removed.
type form string

const (
	// ofBoth is a slice of the derived Service and of the import.
	ofBoth form = ""
	// ofDerivedService is a slice of the derived Service alone, for readers that ignore
	// slices of imports.
	ofDerivedService form = "-service"
	// ofImport is a slice of the import alone, for readers that ignore slices of Services
	// where they look for those of imports.
	ofImport form = "-import"
)

var allForms = []form{ofBoth, ofDerivedService, ofImport}

// forms returns the forms that the slices of an import should have.
func forms(serviceImport *multiclusterxv1beta1.ServiceImport) []form {
	if serviceImport.Annotations[multicluster.EndpointSlicesAnnotation] == multicluster.EndpointSlicesSeparate {
		return []form{ofDerivedService, ofImport}
	}
	return []form{ofBoth}
}

// formsOf returns the forms in which the endpoints of a slice are written, whose name is that
// of the one of both: those that the import should have and, while one of these is missing,
// others that exist. So readers have endpoints, and none that are outdated, also if the
// missing ones cannot be created.
func formsOf(name string, serviceImport *multiclusterxv1beta1.ServiceImport, existing map[string]*discoveryv1.EndpointSlice) []form {
	exists := func(f form) bool { return existing[name+string(f)] != nil }
	result := forms(serviceImport)
	if len(slices.DeleteFunc(slices.Clone(result), exists)) == 0 {
		return result
	}
	for _, form := range allForms {
		if exists(form) && !slices.Contains(result, form) {
			result = append(result, form)
		}
	}
	return result
}

// whoseLabels are the labels of which some say whose slice it is.
var whoseLabels = []string{
	discoveryv1.LabelServiceName, corev1.IsHeadlessService, multicluster.ServiceNameLabel, multicluster.DerivedFromLabel, multicluster.ImportOnlyLabel,
	multicluster.DetachedLabel,
}

// labels returns the labels that say whose slice it is.
func (f form) labels(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service) map[string]string {
	labels := map[string]string{discoveryv1.LabelManagedBy: multicluster.ManagedBy}
	if f == ofDerivedService {
		labels[multicluster.DerivedFromLabel] = serviceImport.Name
	} else {
		labels[multicluster.ServiceNameLabel] = serviceImport.Name
	}
	if f == ofImport {
		labels[multicluster.ImportOnlyLabel] = ""
	} else {
		labels[discoveryv1.LabelServiceName] = owner.Name
	}
	if f == ofImport || shouldBeLabeled(owner, serviceImport) {
		labels[corev1.IsHeadlessService] = "" // kube-proxy ignores the slice
	}
	return labels
}

// isOfImport reports whether a slice is of the import alone. kube-proxy ignores it, whatever
// the derived Service is.
func isOfImport(slice *discoveryv1.EndpointSlice) bool {
	return strings.HasSuffix(slice.Name, string(ofImport))
}

// formOf returns the form of a slice with a name.
func formOf(name string) form { return form(strings.TrimPrefix(name, withoutForm(name))) }

// withoutForm returns the name that a slice has, or would have, if it is of both.
func withoutForm(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, string(ofDerivedService)), string(ofImport))
}

// otherForms returns the names of the given slices that have the endpoints of a slice in
// another form.
func otherForms(name string, in map[string]*discoveryv1.EndpointSlice) []string {
	var result []string
	for _, form := range allForms {
		if other := withoutForm(name) + string(form); other != name && in[other] != nil {
			result = append(result, other)
		}
	}
	return result
}
