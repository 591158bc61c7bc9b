// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconflict

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// PublishedCRDs are the names of the CRDs that mcs-controller publishes on request. They are
// inert while the APIServices of mcs-apiserver exist.
var PublishedCRDs = []string{"serviceexports." + multicluster.XGroupName, "serviceimports." + multicluster.XGroupName}

// RegisteredLabels are the labels of the APIServices and CRDs that mcs-controller registers.
var RegisteredLabels = map[string]string{
	"app.kubernetes.io/name":       "mcs-apiserver",
	"app.kubernetes.io/managed-by": "mcs-controller",
}

// IsPublished reports whether mcs-controller published a CRD.
func IsPublished(crd metav1.Object) bool {
	return labels.SelectorFromSet(RegisteredLabels).Matches(labels.Set(crd.GetLabels()))
}
