// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

var pods = schema.GroupResource{Resource: "pods"}

// TestStorageConformance runs the storage tests of k8s.io/apiserver, except for
//   - CreateWithTTL and GuaranteedUpdateWithTTL: objects with a TTL are refused;
//   - GuaranteedUpdate, GuaranteedUpdateChecksStoredData, TransformationFailure,
//     ListResourceVersionMatch, WatchError, WatchErrorIsBlockingFurtherEvents and
//     WatchWithUnsafeDelete: they replace the encryption of stored data, which is
//     configured in the host. TestUpdatesWriteOnlyWhatChanged and
//     TestCorruptWrapperIsUnknown cover what applies here;
//   - List, ListPaging and the tests of continuation: the limit is ignored, see
//     TestLimitIsIgnored;
//   - ConsistentList, WatchFromZero and CompactRevision: they compact etcd, but the
//     watch cache of the host still serves the compacted versions;
//   - ProgressNotify, WatchDispatchBookmarkEvents and
//     OptionalWatchBookmarksWithCorrectResourceVersion: they wait for bookmarks,
//     which the host sends once a minute;
//   - Stats: sizes are not estimated.
func TestStorageConformance(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, *harness){
		"Create": func(ctx context.Context, t *testing.T, h *harness) {
			storagetesting.RunTestCreate(ctx, t, h, h.validate)
		},
		"CreateWithKeyExist":                         plain(storagetesting.RunTestCreateWithKeyExist),
		"Get":                                        plain(storagetesting.RunTestGet),
		"UnconditionalDelete":                        plain(storagetesting.RunTestUnconditionalDelete),
		"ConditionalDelete":                          plain(storagetesting.RunTestConditionalDelete),
		"DeleteWithSuggestion":                       plain(storagetesting.RunTestDeleteWithSuggestion),
		"DeleteWithSuggestionAndConflict":            plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
		"DeleteWithConflict":                         plain(storagetesting.RunTestDeleteWithConflict),
		"DeleteWithSuggestionOfDeletedObject":        plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		"ValidateDeletionWithSuggestion":             plain(storagetesting.RunTestValidateDeletionWithSuggestion),
		"ValidateDeletionWithOnlySuggestionValid":    plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		"PreconditionalDeleteWithSuggestion":         plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		"PreconditionalDeleteWithOnlySuggestionPass": plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		"GetListRecursivePrefix":                     plain(storagetesting.RunTestGetListRecursivePrefix),
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, h *harness) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, h.increaseVersion, h)
		},
		"NamespaceScopedList":                       plain(storagetesting.RunTestNamespaceScopedList),
		"KeySchema":                                 plain(storagetesting.RunTestKeySchema),
		"GuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
		"GuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		"Watch":                                  plain(storagetesting.RunTestWatch),
		"DeleteTriggerWatch":                     plain(storagetesting.RunTestDeleteTriggerWatch),
		"WatchFromNonZero":                       plain(storagetesting.RunTestWatchFromNonZero),
		"DelayedWatchDelivery":                   plain(storagetesting.RunTestDelayedWatchDelivery),
		"WatchContextCancel":                     plain(storagetesting.RunTestWatchContextCancel),
		"WatcherTimeout":                         plain(storagetesting.RunTestWatcherTimeout),
		"WatchDeleteEventObjectHaveLatestRV":     plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		"WatchInitializationSignal":              plain(storagetesting.RunTestWatchInitializationSignal),
		"ClusterScopedWatch":                     plain(storagetesting.RunTestClusterScopedWatch),
		"NamespaceScopedWatch":                   plain(storagetesting.RunTestNamespaceScopedWatch),
		"SendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
		"WatchSemantics":                         plain(storagetesting.RunWatchSemantics),
		"WatchSemanticInitialEventsExtended":     plain(storagetesting.RunWatchSemanticInitialEventsExtended),
		"WatchListMatchSingle":                   plain(storagetesting.RunWatchListMatchSingle),
	} {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newHarness(t)) })
	}
}

func plain(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *harness) {
	return func(ctx context.Context, t *testing.T, h *harness) { run(ctx, t, h) }
}

// harness adapts storage of example Pods in a namespace of its own to the
// storage tests of k8s.io/apiserver.
type harness struct {
	storage.Interface
	backend   *configmap.Backend
	client    kubernetes.Interface
	namespace string
	codec     runtime.Codec
	// first is used for version 1, the first version of an empty etcd.
	first string
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
	scheme := runtime.NewScheme()
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	h := &harness{client: client, namespace: namespace.Name, codec: serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)}
	if h.backend, err = configmap.NewBackend(config, namespace.Name); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	options := h.options(t, pods)
	options.StorageConfig.Codec = h.codec
	if h.Interface, _, err = options.Decorator(options.StorageConfig, "/pods", nil,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} }, podAttributes, nil, nil); err != nil {
		t.Fatal(err)
	}
	first, err := h.GetCurrentResourceVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.first = strconv.FormatUint(first, 10)
	return h
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

// Watch implements storage.Interface.
func (h *harness) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.ResourceVersion == "1" {
		opts.ResourceVersion = h.first
	}
	return h.Interface.Watch(ctx, key, opts)
}

// GuaranteedUpdate implements storage.Interface. It drops the TTL that some tests
// set although they do not depend on it.
func (h *harness) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	return h.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
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
