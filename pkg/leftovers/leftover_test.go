// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

const here types.UID = "here"

func at(seconds int64) metav1.Time { return metav1.Unix(seconds, 0) }

func namespace(uid types.UID, created int64) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: uid, CreationTimestamp: at(created)}}
}

func export(origin string, created int64) *multiclusterxv1beta1.ServiceExport {
	made := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", CreationTimestamp: at(created)}}
	if origin != "" {
		made.Annotations = map[string]string{multicluster.OriginAnnotation: origin}
	}
	return made
}

// R184, R185
func TestExportIsALeftoverOnlyIfItsNamespaceWasCertainlyDeleted(t *testing.T) {
	deleting := export("here/old", 10)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(20, 0)}
	for _, test := range []struct {
		name      string
		export    *multiclusterxv1beta1.ServiceExport
		namespace *corev1.Namespace
		want      bool
	}{
		{"no namespace", export("here/old", 10), nil, true},
		{"no namespace, unknown origin", export("", 10), nil, true},
		{"no namespace, restored from another cluster", export("there/old", 10), nil, true},
		{"no namespace, being deleted", deleting, nil, false},
		{"its namespace", export("here/old", 10), namespace("old", 5), false},
		{"its namespace, clocks differ", export("here/old", 10), namespace("old", 15), false},
		{"namespace created again", export("here/old", 10), namespace("new", 15), true},
		{"namespace created again, being deleted", deleting, namespace("new", 15), false},
		{"namespace created again, origin from an outdated cache", export("here/old", 20), namespace("new", 15), false},
		{"namespace created again in the same second", export("here/old", 15), namespace("new", 15), false},
		{"restored from another cluster", export("there/old", 10), namespace("new", 15), false},
		{"unknown origin", export("", 10), namespace("new", 15), false},
		{"invalid origin", export("old", 10), namespace("new", 15), false},
		{"incomplete origin", export("here/", 10), namespace("new", 15), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := isLeftover(test.export, test.namespace, here); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
