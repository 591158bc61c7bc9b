// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// fuzzedPolicy is that of a hub that may relay one cluster, with every restriction.
var fuzzedPolicy = Policy{
	Self: "a", Member: "b", Relay: route.Scope{IDs: sets.New("c")}, ReservedNamespaces: sets.New("kube-system"),
	AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("64:ff9b::/96")},
	Ranges:       []netip.Prefix{netip.MustParsePrefix("10.243.0.0/16")},
	Networks:     NewNetworks([]netip.Addr{netip.MustParseAddr("10.9.0.1")}, []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, nil),
	JoinedAt:     membertest.Epoch,
	Limits:       Usage{Bytes: 64 << 10, Services: 3, Endpoints: 8},
}

// decodeFuzzed decodes what a member sent as one kind or the other.
func decodeFuzzed(data []byte, slice bool) (Object, bool) {
	var object any = &clustersetv1alpha1.ExportedService{}
	if slice {
		object = &clustersetv1alpha1.ExportedEndpointSlice{}
	}
	if json.Unmarshal(data, object) != nil {
		return Object{}, false
	}
	decoded, err := Decode(object)
	return decoded, err == nil
}

// FuzzAdmit admits objects of a hostile member.
//
// R366: what is admitted is valid, of a cluster, in a namespace, with addresses and of an age
// that the policy allows, and other clusters can read it when it is relayed.
func FuzzAdmit(f *testing.F) {
	for _, object := range []runtime.Object{
		membertest.ExportedService("b", "web"), membertest.ExportedService("c", "web", "c"), membertest.ExportedSlice("b", "web", "web-1"),
	} {
		data, err := json.Marshal(object)
		if err != nil {
			f.Fatal(err)
		}
		_, slice := object.(*clustersetv1alpha1.ExportedEndpointSlice)
		f.Add(data, slice)
		f.Add(bytes.Replace(data, []byte(`"spec":{`), []byte(`"spec":{"changedAt":"9999-12-31T23:59:59.000000-01:00",`), 1), slice)
	}
	f.Fuzz(func(t *testing.T, data []byte, slice bool) {
		object, ok := decodeFuzzed(data, slice)
		if !ok {
			return
		}
		if key := object.Key(); len(key.Namespace) > 300 || len(key.Name) > 300 {
			t.Fatalf("the key has %d bytes", len(key.Namespace)+len(key.Name))
		}
		arrival := fuzzedPolicy.Admit(object)
		if arrival.Err != nil && (arrival.Err.Reason == "" || arrival.Err.Error() == "" || len([]rune(arrival.Err.Error())) > maxMessage) {
			t.Fatalf("refused with reason %q and message %q", arrival.Err.Reason, arrival.Err)
		}
		if arrival.Admitted {
			expectAdmissible(t, arrival.Object)
		}
	})
}

// expectAdmissible checks an admitted object by rules that do not come from the policy.
func expectAdmissible(t *testing.T, object Object) {
	t.Helper()
	if object.Cluster != "b" && object.Cluster != "c" || object.Service.Namespace == "kube-system" || object.Bytes > maxObjectBytes || object.Bytes <= 0 {
		t.Fatalf("admitted %+v", object)
	}
	switch content := object.Object.(type) {
	case *clusterset.ExportedService:
		if errs := validation.ValidateExportedService(content); len(errs) > 0 {
			t.Fatalf("admitted an invalid object: %v", errs)
		}
		if object.Cluster == "b" && content.Spec.Since().Time.Before(membertest.Epoch) {
			t.Fatalf("%+v is older than the membership", content.Spec)
		}
		if decision := content.Spec.ClusterSetIP; decision != nil {
			for _, ip := range decision.IPs {
				if !netip.MustParsePrefix("10.243.0.0/16").Contains(netip.MustParseAddr(ip)) {
					t.Fatalf("admitted shared ClusterSet IP %s", ip)
				}
			}
		}
		relayed, read := &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedService{}
		if err := clustersetv1alpha1.Convert_clusterset_ExportedService_To_v1alpha1_ExportedService(content, relayed, nil); err != nil {
			t.Fatal(err)
		}
		expectRelayable(t, relayed, read)
	case *clusterset.ExportedEndpointSlice:
		if errs := validation.ValidateExportedEndpointSlice(content); len(errs) > 0 {
			t.Fatalf("admitted an invalid object: %v", errs)
		}
		for _, endpoint := range content.Spec.Endpoints {
			if endpoint.NodeName != nil || endpoint.Hints != nil || endpoint.TargetRef != nil || slices.ContainsFunc(endpoint.Addresses, forbidden) {
				t.Fatalf("admitted endpoint %+v", endpoint)
			}
		}
		relayed, read := &clustersetv1alpha1.ExportedEndpointSlice{}, &clustersetv1alpha1.ExportedEndpointSlice{}
		if err := clustersetv1alpha1.Convert_clusterset_ExportedEndpointSlice_To_v1alpha1_ExportedEndpointSlice(content, relayed, nil); err != nil {
			t.Fatal(err)
		}
		expectRelayable(t, relayed, read)
	}
}

// forbidden reports whether an address is forbidden by the fuzzed policy.
func forbidden(text string) bool {
	address := netip.MustParseAddr(text)
	if bytes := address.As16(); address.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(address) {
		embedded := netip.AddrFrom4([4]byte(bytes[12:]))
		return embedded.IsLoopback() || embedded.IsLinkLocalUnicast() || embedded.IsMulticast()
	}
	bytes := address.As16()
	if address.Is6() {
		return bytes[0] != 0xfd || address == netip.MustParseAddr("fd00:ec2::254")
	}
	return bytes[12] != 10 || bytes[13] == 243 || bytes[13] == 96 || text == "10.9.0.1"
}

// expectRelayable checks that another cluster reads the same as is served.
func expectRelayable(t *testing.T, relayed, read runtime.Object) {
	t.Helper()
	data, err := json.Marshal(relayed)
	if err != nil {
		t.Fatalf("%+v cannot be encoded: %v", relayed, err)
	}
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatalf("%s cannot be decoded: %v", data, err)
	}
	if !apiequality.Semantic.DeepEqual(relayed, read) {
		t.Fatalf("encoded\n%+v\ndecoded\n%+v", relayed, read)
	}
}

// FuzzStore applies arbitrary updates to a store, and recounts what it holds.
//
// R366: a member never takes more than its limits, whatever it sends in which order, and
// counts are those of what is held.
func FuzzStore(f *testing.F) {
	f.Add([]byte("any sequence of updates"))
	f.Fuzz(func(t *testing.T, input []byte) {
		below := func(n int) int {
			if len(input) == 0 {
				return 0
			}
			next := int(input[0])
			input = input[1:]
			return next % n
		}
		pick := func(texts ...string) string { return texts[below(len(texts))] }
		arbitrary := func(kind Kind) Arrival { return arbitraryArrival(t, kind, below, pick) }
		store, policy := NewStore(), fuzzedPolicy
		var rejections [Kinds]*Rejections
		for kind := range Kinds {
			rejections[kind] = NewRejections(nil)
		}
		for len(input) > 0 {
			kind := Kind(below(int(Kinds)))
			var update Update
			switch below(6) {
			case 0, 1:
				arrival := arbitrary(kind)
				rejections[kind].Observe(arrival)
				update = store.Upsert(arrival)
			case 2:
				var arrivals []Arrival
				for range below(6) {
					arrivals = append(arrivals, arbitrary(kind))
				}
				rejections[kind] = NewRejections(arrivals)
				update = store.Replace("b", kind, arrivals)
			case 3:
				update = store.Remove(arbitrary(kind).Object)
			case 4:
				update = store.Confirm("b", map[string]*clusterset.Member{"b": {Status: clusterset.MemberStatus{
					State: clusterset.MemberLocal, Synced: below(2) == 0, Exports: int32(below(4)), Endpoints: int32(below(4)),
				}}}, rejections)
			case 5:
				policy.Limits = Usage{Bytes: int64(1+below(8)) << 10, Services: int64(below(4)), Endpoints: int64(below(9))}
				update = store.Retain(policy)
			}
			before := store.Clone()
			update = store.Fit(update, policy.Limits)
			expectCounted(t, store, before.Usage()) // computing an update changes nothing
			store.Apply(update)
			expectCounted(t, store, recount(store))
			if reason, exceeded := store.Usage().exceeds(policy.Limits); exceeded {
				t.Fatalf("usage %+v exceeds %+v: %s", store.Usage(), policy.Limits, reason)
			}
		}
	})
}

// arbitraryArrival returns one of a few objects, in one of a few states.
func arbitraryArrival(t *testing.T, kind Kind, below func(int) int, pick func(...string) string) Arrival {
	t.Helper()
	cluster, service := pick("b", "b", "c"), pick("web", "db", "api", "x")
	var path []string
	if cluster != "b" {
		path = []string{cluster}
	}
	var sent any
	if kind == Services {
		object := membertest.ExportedService(cluster, service, path...)
		object.Spec.ExportedAt.Time = membertest.Epoch.Add(time.Duration(below(3)) * time.Hour)
		object.Spec.Audience = audienceFor(pick("all", "", "x", "x,y"))
		sent = object
	} else {
		object := membertest.ExportedSlice(cluster, service, pick("1", "2")+"."+cluster, path...)
		object.Name = pick("1", "2") + "." + cluster // may move to another Service
		for range below(5) {
			object.Spec.Endpoints = append(object.Spec.Endpoints, object.Spec.Endpoints[0])
		}
		sent = object
	}
	decoded, err := Decode(sent)
	if err != nil {
		t.Fatal(err)
	}
	if below(5) == 0 {
		return Arrival{Object: decoded, Err: refuse(ReasonInvalid, "invalid")}
	}
	arrival := fuzzedPolicy.Admit(decoded)
	if !arrival.Admitted {
		t.Fatalf("%+v is not admitted: %v", sent, arrival.Err)
	}
	return arrival
}

// recount returns what the objects take that can be found in a store.
func recount(s *Store) Usage {
	var usage Usage
	for _, held := range s.clusters {
		for _, exported := range held.services {
			for _, object := range exported.objects {
				usage = usage.add(object.usage(), 1)
			}
		}
	}
	return usage
}

// visible returns how much a reader can read of what can be found of a cluster.
func visible(c *cluster, reader string) (services, endpoints int32) {
	for _, found := range c.services {
		var service *clusterset.ExportedService
		for _, object := range found.objects {
			if content, ok := object.Object.(*clusterset.ExportedService); ok {
				service = content
			}
		}
		if service != nil && service.Spec.Audience.Includes(reader) {
			services++
		}
		for _, object := range found.objects {
			slice, ok := object.Object.(*clusterset.ExportedEndpointSlice)
			if ok && service != nil && service.Spec.Audience.Includes(reader) {
				endpoints += int32(len(slice.Spec.Endpoints))
			}
		}
	}
	return services, endpoints
}

// expectCounted checks that all counts of a store are those of its objects.
func expectCounted(t *testing.T, s *Store, want Usage) {
	t.Helper()
	if s.Usage() != want {
		t.Fatalf("usage is %+v, want %+v", s.Usage(), want)
	}
	objects, unconfirmed := 0, 0
	for id, held := range s.clusters {
		for service, found := range held.services {
			objects += len(found.objects)
			for key, object := range found.objects {
				if s.refs[key] != (Ref{id, service}) || object.Key() != key || object.Cluster != id || object.Service != service {
					t.Fatalf("%v of %s/%v is held as %+v", key, id, service, s.refs[key])
				}
			}
		}
		for kind := range Kinds {
			for key := range held.unconfirmed[kind] {
				if s.refs[key].Cluster != id {
					t.Fatalf("%v is unconfirmed, but not held", key)
				}
				unconfirmed++
			}
		}
		for _, reader := range []string{"x", "y", "z"} {
			wantServices, wantEndpoints := visible(held, reader)
			if services, endpoints := s.Counts(id).VisibleTo(reader); services != wantServices || endpoints != wantEndpoints {
				t.Fatalf("%s can read %d Services and %d endpoints of %s, counted %d and %d", reader, wantServices, wantEndpoints, id, services, endpoints)
			}
		}
	}
	if objects != len(s.refs) || unconfirmed != s.Unconfirmed() {
		t.Fatalf("%d objects and %d unconfirmed ones, counted %d and %d", objects, unconfirmed, len(s.refs), s.Unconfirmed())
	}
}
