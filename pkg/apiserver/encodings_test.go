// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// fill adds objects to all stores that the test reads.
func (s *served) fill() {
	for i := range 5 {
		s.stores[multicluster.XResource("serviceimports")].Set(importOf(i, "10.0.0.1"))
		s.stores[clusterset.Resource("exportedendpointslices")].Set(sliceOf(i, "node-1"))
		s.stores[clusterset.Resource("members")].Set(&clusterset.Member{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%d", i)},
			Status:     clusterset.MemberStatus{State: clusterset.MemberConnected, ClusterSet: "set <1>"},
		})
	}
}

func importOf(i int, ip string) *multicluster.ServiceImport {
	return &multicluster.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Unix(1e9, 0),
			Labels: map[string]string{"app": fmt.Sprint(i % 2)}, Annotations: map[string]string{"text": "<&>\u2028"},
		},
		Spec: multicluster.ServiceImportSpec{Type: multicluster.ClusterSetIP, IPs: []string{ip}, Ports: []multicluster.ServicePort{{Port: 80, Protocol: "TCP"}}},
	}
}

func sliceOf(i int, node string) *clusterset.ExportedEndpointSlice {
	return &clusterset.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%d.east", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Unix(1e9, 0),
			Labels: clusterset.SourceLabels("east", "web"),
		},
		Spec: clusterset.ExportedEndpointSliceSpec{
			Cluster: "east", Service: "web", Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, NodeName: ptr.To(node)}},
		},
	}
}

const (
	table           = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partial         = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	partialList     = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	importsOfX      = "/apis/multicluster.x-k8s.io/v1beta1/serviceimports"
	importsOfShop   = "/apis/multicluster.k8s.io/v1alpha1/namespaces/shop/serviceimports"
	slicesOfCluster = "/apis/clusterset.mcs-apiserver.io/v1alpha1/exportedendpointslices"
)

// answer is a response, which is read until the test ends.
type answer struct {
	io.Reader
	status, contentType string
}

// ask sends a request, and returns the response.
func ask(t *testing.T, server *httptest.Server, path, accept string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return answer{response.Body, response.Status, response.Header.Get("Content-Type")}
}

func body(t *testing.T, response answer) string {
	t.Helper()
	content, err := io.ReadAll(response)
	if err != nil || response.status != "200 OK" {
		t.Fatalf("%s: %s %v", response.status, content, err)
	}
	return response.contentType + "\n" + string(content)
}

// R640: every response is that of a server that keeps no encodings.
func TestResponsesAreThoseOfAnyServer(t *testing.T) {
	s := newServed(t)
	s.fill()
	for _, path := range []string{
		importsOfX, importsOfShop, importsOfX + "?labelSelector=app%3D1", importsOfX + "?labelSelector=app%3D7", importsOfX + "?fieldSelector=metadata.name%3Dweb-2",
		importsOfX + "?limit=2", importsOfX + "?resourceVersion=0", importsOfX + "?pretty=true",
		"/apis/multicluster.x-k8s.io/v1alpha1/serviceimports", slicesOfCluster, "/apis/clusterset.mcs-apiserver.io/v1alpha1/members",
		"/apis/about.k8s.io/v1beta1/clusterproperties",
	} {
		for _, accept := range []string{"", "application/yaml", table, partialList} {
			compareResponses(t, s, path, accept)
		}
		compareResponses(t, s, path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"includeObject=Object", table)
	}
	for _, path := range []string{importsOfShop + "/web-1", importsOfShop + "/web-1?pretty=true", "/apis/clusterset.mcs-apiserver.io/v1alpha1/members/cluster-3"} {
		for _, accept := range []string{"", "application/yaml", table, partial} {
			compareResponses(t, s, path, accept)
		}
	}
}

func compareResponses(t *testing.T, s *served, path, accept string) {
	t.Helper()
	want := body(t, ask(t, s.usual, path, accept))
	for range 2 { // made, and kept
		if got := body(t, ask(t, s.kept, path, accept)); got != want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", path, accept, got, want)
		}
	}
}

// lines returns the next lines of watches.
func lines(t *testing.T, watches []*bufio.Reader, count int) []string {
	t.Helper()
	all := make([]string, len(watches))
	for i, watch := range watches {
		for range count {
			line, err := watch.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			all[i] += line
		}
	}
	return all
}

// R640: so is every event of a watch, also of initial events, of several watchers, and of objects
// that are deleted or leave the selector.
func TestEventsAreThoseOfAnyServer(t *testing.T) {
	s := newServed(t)
	s.fill()
	imports := s.stores[multicluster.XResource("serviceimports")]
	const initial = 6 // with the bookmark
	for _, accept := range []string{"", table, partial} {
		for _, path := range []string{importsOfX, importsOfShop} {
			t.Run(path+accept, func(t *testing.T) {
				imports.Set(importOf(1, "10.0.0.1"))
				query := path + "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
				var watches []*bufio.Reader
				for _, server := range []*httptest.Server{s.usual, s.kept, s.kept} {
					watches = append(watches, bufio.NewReader(ask(t, server, query, accept)))
				}
				compare := func(what string, seen []string) {
					t.Helper()
					for _, got := range seen[1:] {
						if got != seen[0] {
							t.Errorf("%s:\ngot  %s\nwant %s", what, got, seen[0])
						}
					}
				}
				compare("initial events", lines(t, watches, initial))
				for i, change := range []func(){
					func() { imports.Set(importOf(1, "10.0.0.2")) },
					func() { imports.Delete("shop", "web-1") },
					func() { imports.Set(importOf(1, "10.0.0.3")) },
				} {
					change()
					compare(fmt.Sprintf("change %d", i), lines(t, watches, 1))
				}
			})
		}
	}
}

// R252, R641: peers never get the encoding of what this cluster sees, nor this cluster theirs.
func TestPeersGetRedactedEncodings(t *testing.T) {
	s := newServed(t)
	s.fill()
	slices := s.stores[clusterset.Resource("exportedendpointslices")]
	query := slicesOfCluster + "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	for range 2 {
		full := body(t, ask(t, s.kept, slicesOfCluster, ""))
		first, second := body(t, ask(t, s.asPeer, slicesOfCluster, "")), body(t, ask(t, s.asSecondPeer, slicesOfCluster, ""))
		if strings.Count(full, "node-1") != 5 || strings.Contains(first, "node-1") || first != second || strings.Count(first, "10.1.0.1") != 5 {
			t.Errorf("this cluster sees %s, peers see %s and %s", full, first, second)
		}
	}
	var watches []*bufio.Reader
	for _, server := range []*httptest.Server{s.kept, s.asPeer, s.asSecondPeer} {
		watches = append(watches, bufio.NewReader(ask(t, server, query, "")))
	}
	check := func(seen []string) {
		t.Helper()
		if !strings.Contains(seen[0], "node-") || strings.Contains(seen[1], "node-") || seen[1] != seen[2] || !strings.Contains(seen[1], "10.1.0.1") {
			t.Errorf("this cluster sees %s, peers see %s and %s", seen[0], seen[1], seen[2])
		}
	}
	check(lines(t, watches, 5))
	lines(t, watches, 1) // the bookmark
	slices.Set(sliceOf(2, "node-2"))
	check(lines(t, watches, 1))
	slices.Delete("shop", "web-2.east")
	check(lines(t, watches, 1))
}

// R640, R642: initial events, later events, lists and objects of one group-version share encodings, and
// keep none of what was deleted. That initial events do depends on how the library identifies them.
func TestReadersShareEncodings(t *testing.T) {
	s := newServed(t)
	imports := s.stores[multicluster.XResource("serviceimports")]
	expect := func(what string, encodings int64) {
		t.Helper()
		const least, most = 300, 600 // of one encoding
		if used := s.budget.Used(); used < encodings*least || used > encodings*most {
			t.Errorf("%s: %d bytes are kept, want %d encodings", what, used, encodings)
		}
	}
	imports.Set(importOf(1, "10.0.0.1"))
	watch := []*bufio.Reader{bufio.NewReader(ask(t, s.kept, importsOfX+"?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", ""))}
	lines(t, watch, 2)
	expect("initial event", 1)
	body(t, ask(t, s.kept, importsOfX, ""))
	body(t, ask(t, s.kept, importsOfX, table))
	body(t, ask(t, s.kept, "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports/web-1", ""))
	expect("other reads", 1)
	body(t, ask(t, s.kept, importsOfShop+"/web-1", ""))
	expect("another group", 2)
	imports.Set(importOf(2, "10.0.0.1"))
	lines(t, watch, 1)
	expect("later event", 3)
	held, _ := imports.Get("shop", "web-1")
	if !held.GetObjectKind().GroupVersionKind().Empty() {
		t.Errorf("the held object was given kind %v", held.GetObjectKind())
	}
	imports.Delete("shop", "web-1")
	imports.Delete("shop", "web-2")
	lines(t, watch, 2)
	expect("deletions", 0)
}
