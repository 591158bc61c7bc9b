// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

var pods = schema.GroupResource{Resource: "pods"}

// The storages of mcs-apiserver, as in its flag --storage.
const (
	cluster  = "cluster"
	external = "etcd"
	embedded = "embedded"
)

// storages returns empty storage for a test.
var storages = map[string]func(*testing.T) *subject{
	cluster:  func(t *testing.T) *subject { return newHarness(t).conformance(t) },
	external: func(t *testing.T) *subject { return newEtcdSubject(t, externalEtcd) },
	embedded: func(t *testing.T) *subject { return newEtcdSubject(t, embeddedEtcd) },
}

// conformanceTests are the storage tests of k8s.io/apiserver.
var conformanceTests = map[string]func(context.Context, *testing.T, *subject){
	"RunTestCreate": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestCreate(ctx, t, s, s.validate)
	},
	"RunTestCreateWithKeyExist":                         plain(storagetesting.RunTestCreateWithKeyExist),
	"RunTestGet":                                        plain(storagetesting.RunTestGet),
	"RunTestUnconditionalDelete":                        plain(storagetesting.RunTestUnconditionalDelete),
	"RunTestConditionalDelete":                          plain(storagetesting.RunTestConditionalDelete),
	"RunTestDeleteWithSuggestion":                       plain(storagetesting.RunTestDeleteWithSuggestion),
	"RunTestDeleteWithSuggestionAndConflict":            plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
	"RunTestDeleteWithConflict":                         plain(storagetesting.RunTestDeleteWithConflict),
	"RunTestDeleteWithSuggestionOfDeletedObject":        plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
	"RunTestValidateDeletionWithSuggestion":             plain(storagetesting.RunTestValidateDeletionWithSuggestion),
	"RunTestValidateDeletionWithOnlySuggestionValid":    plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
	"RunTestPreconditionalDeleteWithSuggestion":         plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
	"RunTestPreconditionalDeleteWithOnlySuggestionPass": plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
	"RunTestList": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestList(ctx, t, s, s.compact, false, nil)
	},
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increaseVersion, false, true, false)
	},
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increaseVersion, s)
	},
	"RunTestGetListRecursivePrefix": plain(storagetesting.RunTestGetListRecursivePrefix),
	"RunTestListContinuation": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestListContinuation(ctx, t, s, nil)
	},
	"RunTestListPaginationRareObject": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, nil)
	},
	"RunTestListContinuationWithFilter": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, nil)
	},
	"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	},
	"RunTestListResourceVersionMatch": transformed(storagetesting.RunTestListResourceVersionMatch),
	"RunTestGuaranteedUpdate": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, s, s.validate)
	},
	"RunTestGuaranteedUpdateChecksStoredData":          transformed(storagetesting.RunTestGuaranteedUpdateChecksStoredData),
	"RunTestGuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
	"RunTestGuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
	"RunTestTransformationFailure":                     transformed(storagetesting.RunTestTransformationFailure),
	"RunTestStats": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestStats(ctx, t, s, s.codec, identity.NewEncryptCheckTransformer(), false)
	},
	"RunTestListPaging":          plain(storagetesting.RunTestListPaging),
	"RunTestNamespaceScopedList": plain(storagetesting.RunTestNamespaceScopedList),
	"RunTestCompactRevision": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestCompactRevision(ctx, t, s, s.increaseVersion, s.compact)
	},
	"RunTestKeySchema": plain(storagetesting.RunTestKeySchema),
	"RunTestWatch":     plain(storagetesting.RunTestWatch),
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"RunTestDeleteTriggerWatch":                 plain(storagetesting.RunTestDeleteTriggerWatch),
	"RunTestWatchFromNonZero":                   plain(storagetesting.RunTestWatchFromNonZero),
	"RunTestDelayedWatchDelivery":               plain(storagetesting.RunTestDelayedWatchDelivery),
	"RunTestWatchError":                         transformed(storagetesting.RunTestWatchError),
	"RunTestWatchContextCancel":                 plain(storagetesting.RunTestWatchContextCancel),
	"RunTestWatcherTimeout":                     plain(storagetesting.RunTestWatcherTimeout),
	"RunTestWatchDeleteEventObjectHaveLatestRV": plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"RunTestWatchInitializationSignal":          plain(storagetesting.RunTestWatchInitializationSignal),
	"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, s *subject) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increaseVersion)
	},
	"RunTestClusterScopedWatch":                 plain(storagetesting.RunTestClusterScopedWatch),
	"RunTestNamespaceScopedWatch":               plain(storagetesting.RunTestNamespaceScopedWatch),
	"RunSendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
	"RunWatchSemantics":                         plain(storagetesting.RunWatchSemantics),
	"RunWatchSemanticInitialEventsExtended":     plain(storagetesting.RunWatchSemanticInitialEventsExtended),
	"RunWatchListMatchSingle":                   plain(storagetesting.RunWatchListMatchSingle),
	"RunWatchErrorIsBlockingFurtherEvents":      transformed(storagetesting.RunWatchErrorIsBlockingFurtherEvents),
}

// Why tests are left out.
const (
	benchmark       = "it is a benchmark"
	noTTL           = "no object of mcs-apiserver has a TTL"
	noTransformer   = "data is encrypted by the host; see TestUpdatesWriteOnlyWhatChanged and TestCorruptWrapperIsUnknown"
	noUnsafeDelete  = "the feature gate AllowUnsafeMalformedObjectDeletion is off"
	ignoresLimit    = "the limit is ignored; see TestLimitIsIgnored"
	hostHistory     = "the watch cache of the host still serves compacted versions"
	hostBookmarks   = "the host sends bookmarks once a minute"
	cacheBookmarks  = "the watch cache above etcd sends bookmarks"
	defaultProgress = "the embedded etcd notifies of progress every ten minutes unless asked"
)

// leftOut are the storage tests of k8s.io/apiserver that are not run, by storage.
var leftOut = map[string]map[string]string{
	"RunBenchmarkStoreListCreate":                             everywhere(benchmark),
	"RunBenchmarkStoreList":                                   everywhere(benchmark),
	"RunBenchmarkStoreStats":                                  everywhere(benchmark),
	"RunTestWatchWithUnsafeDelete":                            everywhere(noUnsafeDelete),
	"RunTestCreateWithTTL":                                    everywhere(noTTL),
	"RunTestGuaranteedUpdateWithTTL":                          everywhere(noTTL),
	"RunTestGuaranteedUpdate":                                 {cluster: noTransformer},
	"RunTestGuaranteedUpdateChecksStoredData":                 {cluster: noTransformer},
	"RunTestTransformationFailure":                            {cluster: noTransformer},
	"RunTestListResourceVersionMatch":                         {cluster: noTransformer},
	"RunTestWatchError":                                       {cluster: noTransformer},
	"RunWatchErrorIsBlockingFurtherEvents":                    {cluster: noTransformer},
	"RunTestList":                                             {cluster: ignoresLimit},
	"RunTestListPaging":                                       {cluster: ignoresLimit},
	"RunTestListContinuation":                                 {cluster: ignoresLimit},
	"RunTestListPaginationRareObject":                         {cluster: ignoresLimit},
	"RunTestListContinuationWithFilter":                       {cluster: ignoresLimit},
	"RunTestListInconsistentContinuation":                     {cluster: ignoresLimit},
	"RunTestConsistentList":                                   {cluster: hostHistory},
	"RunTestWatchFromZero":                                    {cluster: hostHistory},
	"RunTestCompactRevision":                                  {cluster: hostHistory},
	"RunTestWatchDispatchBookmarkEvents":                      {cluster: hostBookmarks, external: cacheBookmarks, embedded: cacheBookmarks},
	"RunOptionalTestProgressNotify":                           {cluster: hostBookmarks, embedded: defaultProgress},
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": {cluster: hostBookmarks, external: cacheBookmarks, embedded: cacheBookmarks},
}

func everywhere(reason string) map[string]string {
	return map[string]string{cluster: reason, external: reason, embedded: reason}
}

func plain(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *subject) {
	return func(ctx context.Context, t *testing.T, s *subject) { run(ctx, t, s) }
}

func transformed(run func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer)) func(context.Context, *testing.T, *subject) {
	return func(ctx context.Context, t *testing.T, s *subject) { run(ctx, t, s) }
}

// R174: all storages pass the storage tests of k8s.io/apiserver.
func TestStorageConformance(t *testing.T) {
	for name, newStorage := range storages {
		t.Run(name, func(t *testing.T) {
			for test, run := range conformanceTests {
				if leftOut[test][name] == "" {
					t.Run(strings.TrimPrefix(strings.TrimPrefix(test, "Run"), "Test"), func(t *testing.T) { run(t.Context(), t, newStorage(t)) })
				}
			}
		})
	}
}

// A test that a later release of k8s.io/apiserver adds must be run or left out for a
// reason.
func TestEveryConformanceTestIsRunOrLeftOut(t *testing.T) {
	exported := exportedTests(t)
	if len(exported) < 50 {
		t.Fatalf("found only %d tests in k8s.io/apiserver", len(exported))
	}
	for _, test := range exported {
		for name := range storages {
			run, reason := conformanceTests[test] != nil, leftOut[test][name]
			if !run && reason == "" {
				t.Errorf("%s is neither run with storage %q nor left out", test, name)
			}
		}
	}
	for test := range leftOut {
		if !slices.Contains(exported, test) {
			t.Errorf("%s is left out, but does not exist", test)
		}
	}
}

// exportedTests returns the names of the storage tests of k8s.io/apiserver.
func exportedTests(t *testing.T) []string {
	t.Helper()
	files, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}`, "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range strings.Fields(string(files)) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Run") {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names
}

// subject is storage of example Pods, and what the tests need beside it.
type subject struct {
	storage.Interface
	codec runtime.Codec
	// first is used for version 1, the first version of an empty etcd.
	first string
	// validate checks that a stored object has no resource version.
	validate storagetesting.KeyValidation
	// increaseVersion writes an unrelated object.
	increaseVersion storagetesting.IncreaseRVFunc
	// compact and transform are nil in storage that is not etcd.
	compact   storagetesting.Compaction
	transform func(storagetesting.PrefixTransformerModifier) (undo func())
}

func newSubject(t *testing.T, tested storage.Interface, codec runtime.Codec, validate storagetesting.KeyValidation, increaseVersion storagetesting.IncreaseRVFunc) *subject {
	t.Helper()
	first, err := tested.GetCurrentResourceVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &subject{Interface: tested, codec: codec, first: strconv.FormatUint(first, 10), validate: validate, increaseVersion: increaseVersion}
}

// Watch implements storage.Interface.
func (s *subject) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.ResourceVersion == "1" {
		opts.ResourceVersion = s.first
	}
	return s.Interface.Watch(ctx, key, opts)
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (s *subject) UpdatePrefixTransformer(modifier storagetesting.PrefixTransformerModifier) func() {
	return s.transform(modifier)
}

func newCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
}
