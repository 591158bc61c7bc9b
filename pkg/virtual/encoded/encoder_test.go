// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	aboutv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/install"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
	// kept are the encoders whose encodings are kept.
	kept = encoded.NewSerializer(codecs)
)

func init() { install.Install(scheme) }

// kind is a kind of objects, with the versions in which they are served.
type kind struct {
	object   func() runtime.Object
	list     func() runtime.Object
	versions []schema.GroupVersion
}

var kinds = map[string]kind{
	"ServiceImport": {
		func() runtime.Object { return &multicluster.ServiceImport{} }, func() runtime.Object { return &multicluster.ServiceImportList{} },
		[]schema.GroupVersion{multiclusterxv1beta1.SchemeGroupVersion, multiclusterxv1alpha1.SchemeGroupVersion, multiclusterv1alpha1.SchemeGroupVersion},
	},
	"ExportedService": {
		func() runtime.Object { return &clusterset.ExportedService{} }, func() runtime.Object { return &clusterset.ExportedServiceList{} },
		[]schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion},
	},
	"ExportedEndpointSlice": {
		func() runtime.Object { return &clusterset.ExportedEndpointSlice{} }, func() runtime.Object { return &clusterset.ExportedEndpointSliceList{} },
		[]schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion},
	},
	"Member": {
		func() runtime.Object { return &clusterset.Member{} }, func() runtime.Object { return &clusterset.MemberList{} },
		[]schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion},
	},
	"ClusterProperty": {
		func() runtime.Object { return &about.ClusterProperty{} }, func() runtime.Object { return &about.ClusterPropertyList{} },
		[]schema.GroupVersion{aboutv1beta1.SchemeGroupVersion},
	},
}

// fuzzed returns random objects without a kind.
func fuzzed(kind kind, seed int64, count int) []runtime.Object {
	audience := func(audience *clusterset.Audience, random randfill.Continue) {
		*audience = *clusterset.NewAudience([]string{"east", "north", "west"}[:random.Intn(4)]...)
	}
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, func(serializer.CodecFactory) []any { return []any{audience} })
	fill := fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs)
	objects := make([]runtime.Object, count)
	for i := range objects {
		objects[i] = kind.object()
		fill.Fill(objects[i])
		objects[i].GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return objects
}

// both returns a list of Objects and the same list of what they wrap.
func both(t testing.TB, kind kind, objects []*encoded.Object, metadata metav1.ListMeta) (*encoded.List, runtime.Object) {
	t.Helper()
	list := encoded.NewList(kind.list)
	list.ListMeta, list.Items = metadata, []encoded.Object{}
	usual := kind.list()
	reflect.ValueOf(usual).Elem().FieldByName("ListMeta").Set(reflect.ValueOf(metadata))
	items := []runtime.Object{}
	for _, object := range objects {
		list.Items = append(list.Items, *object)
		items = append(items, encoded.Unwrap(object).DeepCopyObject())
	}
	if err := meta.SetList(usual, items); err != nil {
		t.Fatal(err)
	}
	return list, usual
}

func wrap(objects []runtime.Object, budget *encoded.Budget) []*encoded.Object {
	var wrapped []*encoded.Object
	for _, object := range objects {
		wrapped = append(wrapped, encoded.Wrap(object, budget))
	}
	return wrapped
}

func encode(t testing.TB, encoder runtime.Encoder, object runtime.Object) string {
	t.Helper()
	raw, err := runtime.Encode(encoder, object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// serializers are those that clients can ask for.
func serializers() map[string]runtime.Serializer {
	found := map[string]runtime.Serializer{}
	for _, info := range codecs.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeProtobuf {
			found[info.MediaType] = info.Serializer
			if info.PrettySerializer != nil {
				found["pretty "+info.MediaType] = info.PrettySerializer
			}
		}
	}
	return found
}

// R640: what is encoded once is what would be encoded for each reader.
func TestEncodingsAreThoseOfTheUsualEncoder(t *testing.T) {
	metadata := []metav1.ListMeta{
		{ResourceVersion: "1"},
		{ResourceVersion: "7", Continue: "<next>", RemainingItemCount: ptr.To(int64(3))},
		{},
	}
	for name, kind := range kinds {
		for _, version := range kind.versions {
			for format, serializer := range serializers() {
				t.Run(fmt.Sprintf("%s %s %s", name, version, format), func(t *testing.T) {
					usual, encoder := codecs.EncoderForVersion(serializer, version), kept.EncoderForVersion(serializer, version)
					for i, count := range []int{0, 1, 30} {
						for _, budget := range []*encoded.Budget{nil, encoded.NewBudget(1000), encoded.NewBudget(1 << 30)} {
							objects := wrap(fuzzed(kind, int64(i), count), budget)
							list, unwrapped := both(t, kind, objects, metadata[i])
							want := encode(t, usual, unwrapped)
							for range 2 { // made, and kept
								if got := encode(t, encoder, list); got != want {
									t.Fatalf("list of %d:\ngot  %.2000s\nwant %.2000s", count, got, want)
								}
							}
							for _, object := range objects {
								if got, want := encode(t, encoder, object), encode(t, usual, encoded.Unwrap(object).DeepCopyObject()); got != want {
									t.Fatalf("object:\ngot  %s\nwant %s", got, want)
								}
							}
						}
					}
				})
			}
		}
	}
}

// A list without items, which no handler returns, is encoded as usual as well.
func TestListWithoutItems(t *testing.T) {
	kind := kinds["ServiceImport"]
	compact := serializers()[runtime.ContentTypeJSON]
	want := encode(t, codecs.EncoderForVersion(compact, kind.versions[0]), kind.list())
	if got := encode(t, kept.EncoderForVersion(compact, kind.versions[0]), encoded.NewList(kind.list)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// sizes records the sizes of all writes.
type sizes struct {
	bytes.Buffer
	all []int
}

func (s *sizes) Write(p []byte) (int, error) {
	s.all = append(s.all, len(p))
	return s.Buffer.Write(p)
}

// Whether a response is compressed is decided at the first write: it is complete if the
// list is small, and exceeds 128 KiB otherwise.
func TestLargeListsAreWrittenInLargeParts(t *testing.T) {
	kind := kinds["ServiceImport"]
	encoder := kept.EncoderForVersion(serializers()[runtime.ContentTypeJSON], kind.versions[0])
	for _, test := range []struct{ count, least, most int }{{10, 1, 1}, {3000, 2, 100}} {
		list, _ := both(t, kind, wrap(fuzzed(kind, 1, test.count), encoded.NewBudget(1<<30)), metav1.ListMeta{})
		var written sizes
		if err := encoder.Encode(list, &written); err != nil {
			t.Fatal(err)
		}
		if len(written.all) < test.least || len(written.all) > test.most || len(written.all) > 1 && written.all[0] <= 128<<10 {
			t.Errorf("a list of %d objects was written in parts of %v bytes", test.count, written.all)
		}
	}
}
