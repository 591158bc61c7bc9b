// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"
	"errors"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// R185: users can neither forge nor remove the origin of an export.
func TestOnlyTheServerWritesTheOrigin(t *testing.T) {
	const note, origin = "example.com/note", multicluster.OriginAnnotation
	exporting := func(annotations map[string]string) *multicluster.ServiceExport {
		return &multicluster.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations}}
	}
	here := func(_ context.Context, namespace string) (multicluster.Origin, error) {
		return multicluster.Origin{Cluster: "cluster", Namespace: types.UID("uid of " + namespace)}, nil
	}
	unknown := func(context.Context, string) (multicluster.Origin, error) {
		return multicluster.Origin{}, errors.New("connection refused")
	}
	for _, test := range []struct {
		name         string
		origins      OriginGetter
		old, written map[string]string
		want         map[string]string
	}{
		{"created", here, nil, nil, map[string]string{origin: "cluster/uid of shop"}},
		{"created with another", here, nil, map[string]string{note: "x", origin: "forged/origin"}, map[string]string{note: "x", origin: "cluster/uid of shop"}},
		{"created, unknown", unknown, nil, map[string]string{note: "x", origin: "forged/origin"}, map[string]string{note: "x"}},
		{"updated", here, map[string]string{origin: "a/b"}, map[string]string{note: "x", origin: "forged/origin"}, map[string]string{note: "x", origin: "a/b"}},
		{"removed", here, map[string]string{origin: "a/b"}, nil, map[string]string{origin: "a/b"}},
		{"updated, unknown", here, map[string]string{note: "x"}, map[string]string{note: "x", origin: "forged/origin"}, map[string]string{note: "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, written := &strategy{origins: test.origins}, exporting(maps.Clone(test.written))
			if test.old == nil {
				s.PrepareForCreate(t.Context(), written)
			} else {
				s.PrepareForUpdate(t.Context(), written, exporting(test.old))
			}
			if !maps.Equal(written.Annotations, test.want) {
				t.Errorf("got %v, want %v", written.Annotations, test.want)
			}
		})
	}
}
