// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// R70, R71, R72, R73, R75: a slice has the endpoints of one cluster, is labeled with that
// cluster and its manager, and is owned by the derived Service.
func TestLabelsAndOwnersOfSlices(t *testing.T) {
	for _, test := range []struct {
		name   string
		change changeImport
		more   map[string]string
	}{
		{"with a cluster IP", func(*multiclusterxv1beta1.ServiceImport) {}, nil},
		{"headless", makeHeadless, map[string]string{corev1.IsHeadlessService: ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := slicesOf(newImport(test.change), exportedBy("here", ready("10.0.0.1")), exportedBy("east", ready("10.1.0.1")), exportedBy("west", ready("10.2.0.1")))
			sources := map[string]string{}
			for name, slice := range found {
				if name != slice.Name || slice.Namespace != "shop" || len(validation.IsDNS1123Subdomain(name)) > 0 || !strings.HasPrefix(name, derived+"-") {
					t.Errorf("slice %s/%s has name %s", slice.Namespace, slice.Name, name)
				}
				cluster := slice.Labels[multicluster.SourceClusterLabel]
				want := map[string]string{
					"multicluster.kubernetes.io/service-name": "web", "multicluster.kubernetes.io/source-cluster": cluster,
					"kubernetes.io/service-name": derived, "endpointslice.kubernetes.io/managed-by": "mcs-controller.mcs-apiserver.io",
				}
				for key, value := range test.more {
					want[key] = value
				}
				if diff := cmp.Diff(want, slice.Labels); diff != "" {
					t.Errorf("labels, want (-), got (+): %s", diff)
				}
				owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: derived, UID: "uid", Controller: ptr.To(true)}}
				if diff := cmp.Diff(owner, slice.OwnerReferences); diff != "" {
					t.Errorf("owner, want (-), got (+): %s", diff)
				}
				for _, endpoint := range slice.Endpoints {
					sources[cluster] += endpoint.Addresses[0]
				}
			}
			if diff := cmp.Diff(map[string]string{"here": "10.0.0.1", "east": "10.1.0.1", "west": "10.2.0.1"}, sources); diff != "" {
				t.Errorf("endpoints by cluster, want (-), got (+): %s", diff)
			}
		})
	}
}

// R60: a slice has the ports that its cluster serves, whatever their names.
func TestSliceHasThePortsThatTheClusterServes(t *testing.T) {
	imported := []multiclusterxv1beta1.ServicePort{
		{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("h2c")}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53},
	}
	port := func(name string, number int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: ptr.To(name), Port: ptr.To(number), Protocol: ptr.To(protocol)}
	}
	http := port("http", 8080, corev1.ProtocolTCP)
	http.AppProtocol = ptr.To("h2c")
	for _, test := range []struct {
		name      string
		exported  []clustersetv1alpha1.ServicePort
		endpoints []discoveryv1.EndpointPort
		want      []discoveryv1.EndpointPort
	}{
		{"same name", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80}}, []discoveryv1.EndpointPort{port("http", 8080, corev1.ProtocolTCP)}, []discoveryv1.EndpointPort{http}},
		{"another name", []clustersetv1alpha1.ServicePort{{Name: "www", Port: 80}}, []discoveryv1.EndpointPort{port("www", 8080, corev1.ProtocolTCP)}, []discoveryv1.EndpointPort{http}},
		{"no name", []clustersetv1alpha1.ServicePort{{Port: 80}}, []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}, []discoveryv1.EndpointPort{http}},
		{"same name, another number", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 8080}}, []discoveryv1.EndpointPort{port("http", 8080, corev1.ProtocolTCP)}, []discoveryv1.EndpointPort{}},
		{"same number, another protocol", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolSCTP}}, []discoveryv1.EndpointPort{port("http", 8080, corev1.ProtocolSCTP)}, []discoveryv1.EndpointPort{}},
		{"two protocols",
			[]clustersetv1alpha1.ServicePort{{Name: "u", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "t", Port: 53, Protocol: corev1.ProtocolTCP}},
			[]discoveryv1.EndpointPort{port("t", 1053, corev1.ProtocolTCP), port("u", 2053, corev1.ProtocolUDP)},
			[]discoveryv1.EndpointPort{port("dns", 2053, corev1.ProtocolUDP), port("dns-tcp", 1053, corev1.ProtocolTCP)}},
		{"more ports than the import", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80}, {Name: "x", Port: 99}},
			[]discoveryv1.EndpointPort{port("x", 99, corev1.ProtocolTCP), port("http", 8080, corev1.ProtocolTCP)}, []discoveryv1.EndpointPort{http}},
		{"endpoints without the port", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80}}, nil, []discoveryv1.EndpointPort{}},
		{"endpoints without the port number", []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80}}, []discoveryv1.EndpointPort{{Name: ptr.To("http")}}, []discoveryv1.EndpointPort{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			slice := only(t, slicesOf(
				newImport(func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.Ports = imported }),
				exportedBy("east", ready("10.1.0.1"), func(service *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
					service.Spec.Ports, slice.Spec.Ports = test.exported, test.endpoints
				})))
			if diff := cmp.Diff(test.want, slice.Ports); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}

// R43: endpoints without ports are used by DNS.
func TestHeadlessServiceWithoutPortsHasEndpoints(t *testing.T) {
	withoutPorts := func(service *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
		service.Spec.Ports, slice.Spec.Ports = nil, nil
	}
	serviceImport := newImport(makeHeadless, func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.Ports = nil })
	slice := only(t, slicesOf(serviceImport, exportedBy("east", ready("10.1.0.1"), withoutPorts)))
	if len(slice.Endpoints) != 1 || len(slice.Ports) != 0 {
		t.Errorf("got %d endpoints and %d ports", len(slice.Endpoints), len(slice.Ports))
	}
}

func TestSlicesHaveTheFamiliesOfImportAndCluster(t *testing.T) {
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	addresses := map[corev1.IPFamily]string{four: "10.1.0.1", six: "fd00::1"}
	for _, test := range []struct {
		name              string
		imported, cluster []corev1.IPFamily
		want              []corev1.IPFamily
	}{
		{"both", []corev1.IPFamily{six, four}, []corev1.IPFamily{four, six}, []corev1.IPFamily{four, six}},
		{"the import has one", []corev1.IPFamily{six}, []corev1.IPFamily{four, six}, []corev1.IPFamily{six}},
		{"the cluster has one", []corev1.IPFamily{four, six}, []corev1.IPFamily{four}, []corev1.IPFamily{four}},
		{"none in common", []corev1.IPFamily{six}, []corev1.IPFamily{four}, nil},
		{"the import does not say", nil, []corev1.IPFamily{four}, []corev1.IPFamily{four}},
	} {
		t.Run(test.name, func(t *testing.T) {
			east := exportedBy("east", nil)
			east.slices = nil
			for family, address := range addresses {
				east.slices = append(east.slices, exportedBy("east", ready(address), func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
					slice.Name, slice.Spec.AddressType = strings.ToLower(string(family))+".east", discoveryv1.AddressType(family)
				}).slices...)
			}
			serviceImport := newImport(func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.IPFamilies = test.imported })
			service := defaulted(desiredService(nil, serviceImport, variant{}))
			service.Spec.IPFamilies = test.cluster
			var found []corev1.IPFamily
			for _, slice := range desiredSlices(serviceImport, service, east, nil) {
				family := corev1.IPFamily(slice.AddressType)
				if slice.Endpoints[0].Addresses[0] != addresses[family] {
					t.Errorf("got endpoints %v in a slice of %s", slice.Endpoints, family)
				}
				found = append(found, family)
			}
			slices.Sort(found)
			if !slices.Equal(found, test.want) {
				t.Errorf("got slices of %v, want %v", found, test.want)
			}
		})
	}
}

// The name of a slice depends on its source cluster and source slice only.
func TestSliceNamesAreDistinct(t *testing.T) {
	names := map[string]string{}
	for _, cluster := range []string{"a", "b", "a-b"} {
		for _, source := range []string{"web-1", "web-2", "web-1-2", "b-web-1"} {
			slice := only(t, slicesOf(newImport(), exportedBy(cluster, ready("10.1.0.1"), func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
				slice.Name = source + "." + cluster
			})))
			if other, taken := names[slice.Name]; taken {
				t.Errorf("%s of %s and %s have the same name", source, cluster, other)
			}
			names[slice.Name] = source + " of " + cluster
		}
	}
}

func TestForeignMetadataOfASliceIsPreserved(t *testing.T) {
	desired := only(t, slicesOf(newImport(), exportedBy("east", ready("10.1.0.1"))))
	existing := desired.DeepCopy()
	existing.ResourceVersion, existing.Labels["team"], existing.Annotations["note"] = "5", "platform", "x"
	if updated := updatedSlice(existing, desired); !sameSlice(existing, updated) || cmp.Diff(existing, updated) != "" {
		t.Errorf("it would be updated: %s", cmp.Diff(existing, updated))
	}
}

func TestForeignChangesOfASliceAreReverted(t *testing.T) {
	desired := only(t, slicesOf(newImport(), exportedBy("east", ready("10.1.0.1"))))
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"source":   func(s *discoveryv1.EndpointSlice) { s.Labels[multicluster.SourceClusterLabel] = "west" },
		"service":  func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
		"headless": func(s *discoveryv1.EndpointSlice) { s.Labels[corev1.IsHeadlessService] = "" }, // R45
		"owner":    func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].UID = "former" },
		"address":  func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.6.6.6" },
		"ready":    func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil },
		"origin":   func(s *discoveryv1.EndpointSlice) { s.Annotations = nil },
		"port":     func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr.To[int32](1) },
	} {
		existing := desired.DeepCopy()
		change(existing)
		updated := updatedSlice(existing, desired)
		if sameSlice(existing, updated) || cmp.Diff(desired, updated) != "" {
			t.Errorf("%s is not reverted: %s", name, cmp.Diff(desired, updated))
		}
	}
}

// R490: a member can choose names for its slices so that the short hash is that of a slice of
// another member. Neither replaces or deletes what the other has, in either order, and
// nothing is renamed later.
func TestSlicesOfOtherClustersAreNeverReplaced(t *testing.T) {
	owner := defaulted(desiredService(nil, newImport(), variant{}))
	honest, hostile := exportedBy("east", ready("10.1.0.1")), exportedBy("hostile", ready("10.6.6.6"))
	taken := only(t, desiredSlices(newImport(), owner, hostile, nil)).Name
	for name, takenName := range map[string]string{"first slice": taken, "second slice": taken + "-2"} {
		t.Run(name, func(t *testing.T) {
			held := only(t, desiredSlices(newImport(), owner, honest, nil))
			held.Name, held.ResourceVersion = takenName, "7" // as if its hash were the same
			existing := map[string]*discoveryv1.EndpointSlice{held.Name: held}
			changes := sliceChanges("hostile", desiredSlices(newImport(), owner, hostile, existing), existing)
			if len(changes) != 1 || changes[0].verb != createSlice || len(changes[0].slice.Name) != len(derived)+1+longHash || len(validation.IsDNS1123Subdomain(changes[0].slice.Name)) > 0 {
				t.Fatalf("got %+v, want one slice that is created with a long hash", changes)
			}
			created := changes[0].slice
			existing[created.Name] = created
			if changes := sliceChanges("hostile", desiredSlices(newImport(), owner, hostile, existing), existing); len(changes) > 0 {
				t.Errorf("got %+v although nothing changed", changes)
			}
			delete(existing, held.Name) // the other one is withdrawn
			if changes := sliceChanges("hostile", desiredSlices(newImport(), owner, hostile, existing), existing); len(changes) > 0 {
				t.Errorf("got %+v although the slice can keep its name", changes)
			}
		})
	}
}

// R490: whatever a name is made of, a slice of another cluster is neither updated nor deleted.
func TestChangesOfAClusterLeaveTheSlicesOfOthersAlone(t *testing.T) {
	owner := defaulted(desiredService(nil, newImport(), variant{}))
	desired := desiredSlices(newImport(), owner, exportedBy("hostile", ready("10.6.6.6")), nil)
	held := only(t, desired).DeepCopy()
	held.Labels[multicluster.SourceClusterLabel], held.Endpoints = "east", ready("10.1.0.1")
	existing := map[string]*discoveryv1.EndpointSlice{held.Name: held}
	if changes := sliceChanges("hostile", desired, existing); len(changes) > 0 {
		t.Errorf("got %+v", changes)
	}
	held.AddressType = discoveryv1.AddressTypeIPv6
	if changes := sliceChanges("hostile", desired, existing); len(changes) > 0 {
		t.Errorf("got %+v for a slice of another IP family", changes)
	}
}

// R490: the names of slices are those of earlier releases, which delete slices with other
// names before they create their own: an upgrade and a rollback withdraw nothing.
func TestSliceNamesAreThoseOfEarlierReleases(t *testing.T) {
	endpoints := make([]string, 0, 2*maxEndpoints)
	for i := range 2 * maxEndpoints {
		endpoints = append(endpoints, fmt.Sprintf("10.1.%d.%d", i/200, i%200+1))
	}
	names := slices.Sorted(maps.Keys(slicesOf(newImport(), exportedBy("east", ready(endpoints...)))))
	if want := []string{"derived-isrlchlhrq-2rjf1q343b", "derived-isrlchlhrq-2rjf1q343b-2"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// R491: the ports of a slice are found in a time that grows as their number does.
func TestTimeOfFindingPortsGrowsAsTheyDo(t *testing.T) {
	const few = 200
	fastest := func(count int) time.Duration {
		serviceImport, export := newImport(), exportedBy("east", ready("10.1.0.1"))
		serviceImport.Spec.Ports, export.service.Spec.Ports, export.slices[0].Spec.Ports = nil, nil, nil
		for i := range count {
			name, number := fmt.Sprintf("port-%d", i), int32(i+1)
			serviceImport.Spec.Ports = append(serviceImport.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: name, Port: number})
			export.service.Spec.Ports = append(export.service.Spec.Ports, clustersetv1alpha1.ServicePort{Name: name, Port: number})
			export.slices[0].Spec.Ports = append(export.slices[0].Spec.Ports, discoveryv1.EndpointPort{Name: ptr.To(name), Port: ptr.To(number)})
		}
		owner, shortest := defaulted(desiredService(nil, newImport(), variant{})), time.Hour
		for range 50 { // each is so short that some are not interrupted
			start := time.Now()
			if found := desiredSlices(serviceImport, owner, export, nil); len(only(t, found).Ports) != count {
				t.Fatalf("%d ports, want %d", len(only(t, found).Ports), count)
			}
			shortest = min(shortest, time.Since(start))
		}
		return shortest
	}
	if quick, slow := fastest(few), fastest(10*few); slow > 30*quick {
		t.Errorf("%d ports take %s, ten times as many %s", few, quick, slow)
	}
}

// R491: endpoints that keep changing are not compared with what exists before they may be
// written.
func TestNothingIsComputedBeforeItMayBeWritten(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	east := key{web, "east"}
	for w.pace.Take(east) == 0 {
	}
	computed := 0
	w.slices = countingIndexer{w.slices, &computed}
	for i := range 100 {
		w.export(t, exportedBy("east", ready(fmt.Sprintf("10.1.0.%d", i+2))))
		if err := w.applySlices(t.Context(), east, newImport(), w.existingService(web), nil); err != nil {
			t.Fatal(err)
		}
	}
	if computed > 0 {
		t.Errorf("existing slices were read %d times", computed)
	}
	w.clock.Step(writeInterval)
	if err := w.sync(t.Context(), east); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); got != "update endpointslices" {
		t.Errorf("got requests %q, want the last state", got)
	}
}

// countingIndexer counts lookups.
type countingIndexer struct {
	cache.Indexer
	count *int
}

func (i countingIndexer) ByIndex(name, value string) ([]any, error) {
	*i.count++
	return i.Indexer.ByIndex(name, value)
}
