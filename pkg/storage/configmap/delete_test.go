// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
)

// oldHost is a host with one wrapper that was written so long ago that no watch can start at
// its version.
type oldHost struct{ wrapper *corev1.ConfigMap }

const wrapperVersion, deletionVersion = "110", "210"

func (h *oldHost) respond(request *http.Request) (*http.Response, error) {
	var body any = h.wrapper
	switch query := request.URL.Query(); {
	case request.Method == http.MethodPost:
		h.wrapper = &corev1.ConfigMap{}
		if err := json.NewDecoder(request.Body).Decode(h.wrapper); err != nil {
			return nil, err
		}
		h.wrapper.UID, h.wrapper.ResourceVersion = "uid", wrapperVersion
		body = h.wrapper
	case request.Method == http.MethodDelete:
		body = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
	case query.Get("resourceVersion") == wrapperVersion:
		body = metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Object: &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
		}}}
	case query.Has("watch"):
		deleted := h.wrapper.DeepCopy()
		deleted.ResourceVersion = deletionVersion
		body = metav1.WatchEvent{Type: "DELETED", Object: runtime.RawExtension{Object: deleted}}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: request, Body: io.NopCloser(bytes.NewReader(data)),
	}, nil
}

// R174: a deletion returns its own version, as in etcd, also that of an object that was written
// long ago.
func TestDeletionOfAnOldObjectReturnsItsVersion(t *testing.T) {
	host := &oldHost{}
	stored := newTestStore(host.respond).(*store)
	stored.converter.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	stored.converter.Attributes = func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := stored.Create(t.Context(), "/configmaps/shop/web", object, &corev1.ConfigMap{}, 0); err != nil {
		t.Fatal(err)
	}
	deleted := &corev1.ConfigMap{}
	if err := stored.Delete(t.Context(), "/configmaps/shop/web", deleted, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(deleted.Name, " at ", deleted.ResourceVersion); got != "web at "+deletionVersion {
		t.Errorf("deleted %s, want version %s", got, deletionVersion)
	}
}
