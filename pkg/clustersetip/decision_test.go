// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func at(seconds int64) time.Time { return time.Unix(1000+seconds, 0) }

func by(cluster string, since int64, ips ...string) *Decision {
	return &Decision{IPs: ips, DecidedBy: cluster, Since: metav1.NewTime(at(since))}
}

func TestOldestDecisionIsInForce(t *testing.T) {
	for name, test := range map[string]struct {
		exports []Export
		want    *Decision
	}{
		"no exports":                          {nil, nil},
		"founding export is undecided":        {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, nil},
		"founding export requests no address": {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"tie broken by cluster ID":            {[]Export{{Cluster: "b", At: at(1), Wants: true}, {Cluster: "a", At: at(1)}}, by("a", 1)},
		"fractions of a second are ignored":   {[]Export{{Cluster: "a", At: at(1).Add(time.Millisecond)}}, by("a", 1)},
		"a decision precedes an older export": {
			[]Export{{Cluster: "a", At: at(1)}, {Cluster: "b", At: at(2), Decision: by("b", 2, "243.1.0.1")}}, by("b", 2, "243.1.0.1")},
		"a decision outlives the deciding cluster": {
			[]Export{{Cluster: "b", At: at(2), Decision: by("gone", 1, "243.1.0.1")}}, by("gone", 1, "243.1.0.1")},
		"the older of two": {
			[]Export{{Cluster: "a", Decision: by("a", 2, "243.1.0.1")}, {Cluster: "b", Decision: by("b", 1, "243.2.0.1")}}, by("b", 1, "243.2.0.1")},
		"the lower ID of two made at the same time": {
			[]Export{{Cluster: "b", Decision: by("b", 1)}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
		"the lower addresses of two that one cluster made at the same time": {
			[]Export{{Cluster: "b", Decision: by("a", 1, "243.1.0.2")}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}, by("a", 1, "243.1.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := InForce(Local{}, test.exports); !Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
				slices.Reverse(test.exports)
			}
		})
	}
}

// R244, R245, R286: what a cluster recorded or serves stands against any decision that
// becomes known later.
func TestDecisionStandsAgainstOthersThatBecomeKnownLater(t *testing.T) {
	const minute = 60
	honest, forged, none := by("a", minute, "243.1.0.1"), by("m", 0, "243.9.0.1"), by("m", 0)
	allocations := NewAllocations(map[string][]string{"a": {"243.1.0.0/16"}, "m": {"243.9.0.0/16"}, "z": {"?"}})
	for name, test := range map[string]struct {
		local   Local
		exports []Export
		want    *Decision
	}{
		"recorded by the cluster that made it": {Local{Cluster: "a", Now: at(2 * minute)}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: forged}}, honest},
		"adopted and recorded":                 {Local{Cluster: "b", Now: at(2 * minute)}, []Export{{Cluster: "b", Decision: honest}, {Cluster: "m", Decision: forged}}, honest},
		"a decision for no address is forged":  {Local{Cluster: "b", Now: at(2 * minute)}, []Export{{Cluster: "b", Decision: honest}, {Cluster: "m", Decision: none}}, honest},
		"recorded for no address": {
			Local{Cluster: "b", Now: at(2 * minute)}, []Export{{Cluster: "b", Decision: by("a", minute)}, {Cluster: "m", Decision: forged}}, by("a", minute)},
		"made at the same time: the older one stands": {
			Local{Cluster: "a", Now: at(minute + 19)}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: forged}}, forged},
		"the last moment of that is over": {
			Local{Cluster: "a", Now: at(minute + 20)}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: forged}}, honest},
		"served": {
			Local{Cluster: "c", Imported: true, IPs: honest.IPs}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: forged}}, honest},
		"served without address": {
			Local{Cluster: "c", Imported: true}, []Export{{Cluster: "a", Decision: by("a", minute)}, {Cluster: "m", Decision: forged}}, by("a", minute)},
		"no export has what is served": {
			Local{Cluster: "c", Imported: true, IPs: []string{"243.1.0.2"}}, []Export{{Cluster: "a", Decision: honest}}, honest},
		"neither recorded nor served": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: forged}}, forged},
		"forged in the allocation CIDR of another member": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "m", Decision: by("m", 0, "243.1.0.7")}}, honest},
		"forged by a member without valid allocation CIDR": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "a", Decision: honest}, {Cluster: "z", Decision: by("z", 0, "243.1.0.7")}}, honest},
		"in the former allocation CIDR of a member": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "a", Decision: by("a", 0, "243.7.0.1")}}, by("a", 0, "243.7.0.1")},
		"of a cluster that left": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "a", Decision: by("left", 0, "243.7.0.9")}}, by("left", 0, "243.7.0.9")},
		"of an unknown cluster in the allocation CIDR of a member": {
			Local{Cluster: "c", Allocations: allocations}, []Export{{Cluster: "m", Decision: by("ghost", 0, "243.1.0.9")}, {Cluster: "a", Decision: honest}}, honest},
		"decided in the future": {
			Local{Cluster: "c", Allocations: allocations, Now: at(0)}, []Export{{Cluster: "m", Wants: true, Decision: by("m", 301, "243.9.0.1")}}, nil},
		"decided by a cluster whose clock is ahead": {
			Local{Cluster: "c", Allocations: allocations, Now: at(0)}, []Export{{Cluster: "m", Decision: by("m", 300, "243.9.0.1")}}, by("m", 300, "243.9.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := InForce(test.local, test.exports); !Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
				slices.Reverse(test.exports)
			}
		})
	}
}

func TestDerivedServiceShowsWhatIsServed(t *testing.T) {
	derived := func(changes ...func(*corev1.Service)) *corev1.Service {
		service := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1"}}
		for _, change := range changes {
			change(service)
		}
		return service
	}
	addressed := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "243.1.0.1"}}
	}
	for name, test := range map[string]struct {
		derived  *corev1.Service
		imported bool
		ips      []string
	}{
		"none":                 {nil, false, nil},
		"with an address":      {derived(addressed), true, []string{"243.1.0.1"}},
		"without address":      {derived(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }), true, nil},
		"address not assigned": {derived(), false, nil},
		"address unavailable": {derived(func(s *corev1.Service) {
			s.Spec.Type, s.Annotations = corev1.ServiceTypeClusterIP, map[string]string{multicluster.ClusterSetIPProblemAnnotation: "in use"}
		}), false, nil},
		"address with a problem": {derived(addressed, func(s *corev1.Service) {
			s.Annotations = map[string]string{multicluster.ClusterSetIPProblemAnnotation: "client addresses are lost"}
		}), true, []string{"243.1.0.1"}},
		"headless": {derived(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), false, nil},
	} {
		if got := NewLocal("c", test.derived, Allocations{}, at(0)); got.Imported != test.imported || !slices.Equal(got.IPs, test.ips) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// R246: contradicting decisions are reported once they are not about to be given up.
func TestContradict(t *testing.T) {
	exports := []Export{{Cluster: "m", Decision: by("m", 0, "243.9.0.1")}, {Cluster: "a", Decision: by("a", 1, "243.1.0.1")}, {Cluster: "b", Decision: by("a", 2, "243.1.0.1")}, {Cluster: "c"}}
	for seconds, want := range map[int64][]string{20: nil, 21: {"m"}} {
		if got := Contradict(Local{Now: at(seconds)}, exports, exports[1].Decision); !slices.Equal(got, want) {
			t.Errorf("after %d s: got %v, want %v", seconds, got, want)
		}
	}
}

func TestInForceIsACopy(t *testing.T) {
	exports := []Export{{Cluster: "a", Decision: by("a", 1, "243.1.0.1")}}
	InForce(Local{}, exports).IPs[0] = "changed"
	if exports[0].Decision.IPs[0] != "243.1.0.1" {
		t.Error("changing the result changed the export")
	}
}

func TestDisagree(t *testing.T) {
	exports := []Export{{Cluster: "c", Wants: true}, {Cluster: "b"}, {Cluster: "a", Wants: true}}
	for name, test := range map[string]struct {
		inForce *Decision
		want    []string
	}{
		"an address": {by("c", 1, "243.1.0.1"), []string{"b"}},
		"no address": {by("b", 1), []string{"a", "c"}},
		"undecided":  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Disagree(exports, test.inForce); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestFoundingExportDecidesAndOthersAdopt(t *testing.T) {
	ip := by("a", 1, "243.1.0.1")
	for name, test := range map[string]struct {
		exports   []Export // self is b
		settled   Action
		unsettled Action
	}{
		"alone, requests an address": {[]Export{{Cluster: "b", Wants: true}}, Action{Allocate: true}, Action{}},
		"alone, requests none":       {[]Export{{Cluster: "b", At: at(1)}}, Action{Record: by("b", 1)}, Action{}},
		"founding requests one":      {[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true}}, Action{WaitFor: "a"}, Action{}},
		"founding requests none":     {[]Export{{Cluster: "b", At: at(2), Wants: true}, {Cluster: "a", At: at(1)}}, Action{Record: by("a", 1)}, Action{}},
		"adopts": {
			[]Export{{Cluster: "b", At: at(2)}, {Cluster: "a", At: at(1), Wants: true, Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"adopts from the third cluster": {
			[]Export{{Cluster: "b", At: at(0)}, {Cluster: "c", At: at(3), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"keeps its decision, whatever it requests": {
			[]Export{{Cluster: "b", At: at(2), Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"changes to an older decision": {
			[]Export{{Cluster: "b", Decision: by("b", 2, "243.2.0.1")}, {Cluster: "a", Decision: ip}}, Action{Record: ip}, Action{Record: ip}},
		"does not change to a younger decision": {
			[]Export{{Cluster: "b", Decision: ip}, {Cluster: "c", Decision: by("c", 2)}}, Action{Record: ip}, Action{Record: ip}},
		"does not export": {[]Export{{Cluster: "a", Decision: ip}}, Action{}, Action{}},
	} {
		t.Run(name, func(t *testing.T) {
			for settled, want := range map[bool]Action{true: test.settled, false: test.unsettled} {
				got := Decide(Local{Cluster: "b", Now: at(3)}, test.exports, settled)
				if !Equal(got.Record, want.Record) || got.Allocate != want.Allocate || got.WaitFor != want.WaitFor {
					t.Errorf("settled %v: got %+v, want %+v", settled, got, want)
				}
			}
		})
	}
}

func TestRequestsDoNotChangeADecision(t *testing.T) {
	for requests := range 8 {
		exports := []Export{
			{Cluster: "a", At: at(1), Wants: requests&1 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "b", At: at(2), Wants: requests&2 > 0, Decision: by("a", 1, "243.1.0.1")},
			{Cluster: "c", At: at(3), Wants: requests&4 > 0},
		}
		for _, export := range exports {
			if got := Decide(Local{Cluster: export.Cluster, Now: at(3)}, exports, true); !reflect.DeepEqual(got, Action{Record: by("a", 1, "243.1.0.1")}) {
				t.Errorf("requests %03b: got action %+v of %s, want the decision", requests, got, export.Cluster)
			}
		}
	}
}

func TestDecisionSurvivesSerialization(t *testing.T) {
	made := NewDecision("a", []string{"243.1.0.1"}, at(1).Add(999*time.Millisecond))
	text, err := made.Since.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := made.DeepCopy()
	if err := read.Since.UnmarshalJSON(text); err != nil || !read.Since.Equal(&made.Since) || !Equal(read, made) {
		t.Errorf("got %v (%v), want %v", read, err, made)
	}
	if Equal(made, nil) || !Equal(nil, nil) || Equal(made, by("a", 1)) {
		t.Error("Equal is wrong")
	}
}

// R244, R285: no cluster gives the address of a service that it exports or imports, or that
// another cluster has just allocated, to another one.
func TestAddressStaysWithTheServiceThatHasIt(t *testing.T) {
	const minute = 60
	forged := []Export{{Cluster: "m", Decision: by("gone", 0, "243.1.0.1")}}
	inTheNameOf := func(cluster string) []Export {
		return []Export{{Cluster: "m", Decision: by(cluster, 0, "243.1.0.1")}}
	}
	allocated := []Export{{Cluster: "a", Decision: by("a", minute, "243.1.0.1")}}
	adopted := []Export{{Cluster: "b", Decision: by("a", minute, "243.1.0.1")}}
	allocations := NewAllocations(map[string][]string{"a": {"243.1.0.0/16"}, "m": nil})
	for name, test := range map[string]struct {
		web    []Export
		local  Local // to web
		forged []Export
		keeps  bool
	}{
		"recorded":                                {adopted, Local{Cluster: "b", Now: at(2 * minute)}, forged, true},
		"recorded just now":                       {adopted, Local{Cluster: "b", Now: at(minute)}, forged, true},
		"served":                                  {adopted, Local{Cluster: "c", Imported: true, IPs: []string{"243.1.0.1"}}, forged, true},
		"neither, older hearsay":                  {adopted, Local{Cluster: "c"}, forged, false},
		"neither, disbelieved":                    {adopted, Local{Cluster: "c", Allocations: allocations}, inTheNameOf("m"), true},
		"neither, of an unknown cluster":          {adopted, Local{Cluster: "c", Allocations: allocations}, forged, true},
		"just allocated, in this cluster":         {allocated, Local{Cluster: "a", Allocations: allocations, Now: at(minute)}, inTheNameOf("a"), true},
		"just allocated, in a cluster that reads": {allocated, Local{Cluster: "c", Allocations: allocations, Now: at(minute)}, inTheNameOf("a"), true},
		"just allocated, already served for another service": {
			[]Export{{Cluster: "m", Decision: by("a", 0, "243.1.0.1")}}, Local{Cluster: "c", Allocations: allocations, Imported: true, IPs: []string{"243.1.0.1"}}, allocated, true},
	} {
		claims := NewClaims(map[string][]Export{"web": test.web, "forged": test.forged}, func(key string) Local {
			if key == "web" {
				return test.local
			}
			return Local{Cluster: test.local.Cluster, Allocations: test.local.Allocations, Now: test.local.Now}
		})
		if got := claims.Standing("web", test.web)[0].Decision != nil; got != test.keeps {
			t.Errorf("%s: keeps its address: %t, want %t", name, got, test.keeps)
		}
	}
}

func TestAddressBelongsToTheOlderDecision(t *testing.T) {
	for name, test := range map[string]struct {
		services map[string][]Export
		void     []string // services
	}{
		"no services": {},
		"one service, many exports": {map[string][]Export{
			"s": {{Cluster: "a", Decision: by("a", 1, "243.1.0.1")}, {Cluster: "b", Decision: by("a", 1, "243.1.0.1")}},
		}, nil},
		"the older decision keeps it": {map[string][]Export{
			"old": {{Decision: by("z", 1, "243.1.0.1")}}, "new": {{Decision: by("a", 2, "243.1.0.1")}},
		}, []string{"new"}},
		"in any notation": {map[string][]Export{
			"old": {{Decision: by("z", 1, "fd00::1")}}, "new": {{Decision: by("a", 2, "fd00:0::1")}},
		}, []string{"new"}},
		"tie broken by service name": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1")}}, "s2": {{Decision: by("a", 1, "243.1.0.1")}},
		}, []string{"s2"}},
		"a void decision does not void others": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "243.1.0.1", "fd00::1")}},
			"s2": {{Decision: by("a", 2, "243.1.0.1", "fd00::2")}},
			"s3": {{Decision: by("a", 3, "243.1.0.3", "fd00::2")}},
		}, []string{"s2"}},
		"invalid addresses are ignored": {map[string][]Export{
			"s1": {{Decision: by("a", 1, "?")}}, "s2": {{Decision: by("a", 2, "?")}}, "s3": {{}},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claims := NewClaims(test.services, func(string) Local { return Local{} })
			for key, exports := range test.services {
				for i, standing := range claims.Standing(key, exports) {
					isVoid := standing.Decision == nil && exports[i].Decision != nil
					if isVoid != slices.Contains(test.void, key) {
						t.Errorf("%s: got void %t", key, isVoid)
					}
				}
			}
		})
	}
}

// R286: a decision that was made in the future is looked at again when it can be believed.
func TestDecisionOfTheFutureIsAwaited(t *testing.T) {
	const minute = 60
	local := Local{Cluster: "self", Now: at(0), Allocations: NewAllocations(map[string][]string{"c": {"243.3.0.0/16"}})}
	undecided := Export{Cluster: "self", Wants: true}
	for name, test := range map[string]struct {
		exports []Export
		cluster string
		wait    time.Duration
	}{
		"none":                   {[]Export{undecided}, "", 0},
		"believed":               {[]Export{undecided, {Cluster: "b", Decision: by("b", 5*minute, "243.2.0.1")}}, "", 0},
		"in the future":          {[]Export{undecided, {Cluster: "b", Decision: by("b", 10*minute, "243.2.0.1")}}, "b", 5 * time.Minute},
		"the first":              {[]Export{{Cluster: "d", Decision: by("d", 10*minute)}, {Cluster: "b", Decision: by("b", 7*minute)}, {Cluster: "e", Decision: by("e", 9*minute)}}, "b", 2 * time.Minute},
		"far in the future":      {[]Export{undecided, {Cluster: "b", Decision: by("b", 1<<40)}}, "b", time.Hour},
		"not believed even then": {[]Export{undecided, {Cluster: "b", Decision: by("b", 10*minute, "243.3.0.1")}}, "", 0},
		"another applies":        {[]Export{{Cluster: "d", Decision: by("d", 0)}, {Cluster: "b", Decision: by("b", 10*minute)}}, "", 0},
		"its own":                {[]Export{{Cluster: "self", Decision: by("self", 10*minute)}}, "", 0},
	} {
		cluster, wait := Awaited(local, test.exports)
		if cluster != test.cluster || wait != test.wait {
			t.Errorf("%s: got %q in %s, want %q in %s", name, cluster, wait, test.cluster, test.wait)
		}
		if then := local; wait > 0 && wait < time.Hour {
			then.Now = local.Now.Add(wait)
			if got := InForce(then, test.exports); got == nil || got.DecidedBy != cluster {
				t.Errorf("%s: %+v applies after that, want the decision of %s", name, got, cluster)
			}
		}
	}
}

// R497: an address is found in any of many allocation CIDRs, of both IP families and of any
// length.
func TestAddressesAreFoundInManyCIDRs(t *testing.T) {
	cidrs := map[string][]string{"v6": {"fd00:1::/64", "fd00:2::/112"}, "v4": {"243.1.0.0/16", "243.2.3.0/24", "243.2.4.1/32"}}
	for i := range 1000 {
		cidrs[fmt.Sprintf("hub-%d", i)] = []string{fmt.Sprintf("244.%d.%d.0/24", i/256, i%256)}
	}
	allocations := NewAllocations(cidrs)
	for address, want := range map[string]bool{
		"243.1.255.255": true, "243.2.3.4": true, "243.2.4.1": true, "243.2.4.2": false, "243.2.5.1": false,
		"fd00:1::ffff": true, "fd00:1:0:1::1": false, "fd00:2::ffff": true, "fd00:2::1:0": false,
		"244.3.231.9": true, "244.3.232.9": false,
	} {
		if got := allocations.allocated(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is allocated: %t, want %t", address, got, want)
		}
		if believed := allocations.Believes(by("other", 0, address)); believed == want {
			t.Errorf("a decision of another cluster about %s is believed: %t", address, believed)
		}
	}
	if (Allocations{}).allocated(netip.MustParseAddr("243.1.0.1")) {
		t.Error("an address is allocated although nobody has an allocation CIDR")
	}
}
