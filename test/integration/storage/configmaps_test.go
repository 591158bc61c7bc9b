// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// harness is storage of example Pods in ConfigMaps of a namespace of its own.
type harness struct {
	storage.Interface
	backend   *configmap.Backend
	client    kubernetes.Interface
	namespace string
	codec     runtime.Codec
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	config, err := plane.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(configmap.ClientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "storage-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return openHarness(t, config, namespace.Name)
}

// openHarness returns storage in an existing namespace, through the kube-apiserver of
// the configuration.
func openHarness(t *testing.T, config *rest.Config, namespace string) *harness {
	t.Helper()
	client, err := kubernetes.NewForConfig(configmap.ClientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{client: client, namespace: namespace, codec: newCodec()}
	if h.backend, err = configmap.NewBackend(config, namespace); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	options := h.options(t, pods)
	options.StorageConfig.Codec = h.codec
	if h.Interface, _, err = options.Decorator(options.StorageConfig, "/pods", nil,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} }, podAttributes, nil, nil); err != nil {
		t.Fatal(err)
	}
	return h
}

// conformance adapts the storage to the storage tests of k8s.io/apiserver.
func (h *harness) conformance(t *testing.T) *subject {
	t.Helper()
	// Some tests expect a certain version, while kube-controller-manager writes to a new
	// namespace.
	expect.Eventually(t, "content of a new namespace", func(ctx context.Context) error {
		_, noCertificate := h.client.CoreV1().ConfigMaps(h.namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		_, noAccount := h.client.CoreV1().ServiceAccounts(h.namespace).Get(ctx, "default", metav1.GetOptions{})
		return errors.Join(noCertificate, noAccount)
	})
	return newSubject(t, withoutTTL{h.Interface}, h.codec, h.validate, h.increaseVersion)
}

// open opens the storage.
func (h *harness) open(t *testing.T) {
	t.Helper()
	if err := h.backend.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := h.backend.Marker().Get(t.Context())
	if err == nil && held == nil {
		err = h.backend.Marker().Put(t.Context(), nil, marker.Marker{StorageID: "test", ClusterUID: "test"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := h.backend.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) options(t *testing.T, resource schema.GroupResource) generic.RESTOptions {
	t.Helper()
	options, err := configmap.RESTOptions{Backend: h.backend}.GetRESTOptions(resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	options.ResourcePrefix = "/" + resource.Resource
	return options
}

func podAttributes(object runtime.Object) (labels.Set, fields.Set, error) {
	pod := object.(*example.Pod)
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName}, nil
}

// withoutTTL drops the TTL that some tests set although they do not depend on it.
type withoutTTL struct{ storage.Interface }

// GuaranteedUpdate implements storage.Interface.
func (s withoutTTL) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		output, _, err := tryUpdate(input, res)
		return output, nil, err
	}, cached)
}

// validate checks that the stored object has no resource version.
func (h *harness) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	wrappers, err := h.client.CoreV1().ConfigMaps(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: configmap.ResourceLabel + "=" + pods.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrapper := range wrappers.Items {
		if wrapper.Data["key"] != key {
			continue
		}
		decoded, err := runtime.Decode(h.codec, []byte(wrapper.Data["object"]))
		if err != nil {
			t.Fatal(err)
		}
		if pod := decoded.(*example.Pod); pod.ResourceVersion != "" {
			t.Errorf("stored object has resource version %s", pod.ResourceVersion)
		}
		return
	}
	t.Errorf("no ConfigMap holds key %s", key)
}

// increaseVersion writes an unrelated object to the host.
func (h *harness) increaseVersion(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	written, err := h.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := strconv.ParseInt(written.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}
