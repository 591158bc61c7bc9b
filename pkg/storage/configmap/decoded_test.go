// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecodedObjectsBelongToTheirData(t *testing.T) {
	kept := newDecodedObjects()
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}}
	kept.put("wrapper", "data", original)
	original.Labels["app"] = "changed by the writer"
	kept.get("wrapper", "data").(*corev1.ConfigMap).Labels["app"] = "changed by a reader"
	if got := kept.get("wrapper", "data").(*corev1.ConfigMap); got.Labels["app"] != "web" {
		t.Errorf("the kept object was %s", got.Labels["app"])
	}
	if got := kept.get("wrapper", "other data"); got != nil {
		t.Errorf("other data returns %+v", got)
	}
	if got := kept.get("other wrapper", "data"); got != nil {
		t.Errorf("another wrapper returns %+v", got)
	}
	large := strings.Repeat("x", maxDecodedBytes+1)
	if kept.put("large", large, original); kept.get("large", large) != nil {
		t.Error("a large object is kept")
	}
}
