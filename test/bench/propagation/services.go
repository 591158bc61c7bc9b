// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

const (
	// namespaces is over how many namespaces services are spread.
	namespaces     = 10
	floorNamespace = "bench-floor"
	// floorObjects is how many ConfigMaps are written in turn.
	floorObjects = 20
	floorKey     = "value"
	// atOnce is how many objects are created at once.
	atOnce = 8
)

func namespaceOf(number int) string { return fmt.Sprintf("bench-%d", number%namespaces) }

// address returns an address for each change, and numberOf the change.
func address(change int) string {
	return fmt.Sprintf("10.%d.%d.%d", 1+change>>16, change>>8&255, change&255)
}

func numberOf(address string) (change int, ok bool) {
	parsed, err := netip.ParseAddr(address)
	if err != nil || !parsed.Is4() {
		return 0, false
	}
	bytes := parsed.As4()
	return int(bytes[1]-1)<<16 + int(bytes[2])<<8 + int(bytes[3]), true
}

// floorObject returns a ConfigMap that is written when the floor is measured.
func floorObject(number int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: floorNamespace, Name: fmt.Sprintf("floor-%d", number%floorObjects)},
		Data:       map[string]string{floorKey: strconv.Itoa(number)},
	}
}

// service is one Service of the exporting cluster.
type service struct{ namespace, name string }

func (s service) String() string { return s.namespace + "/" + s.name }

// steady returns the services that are exported all the time, and passing those that a run
// exports and withdraws.
func steady(number int) service {
	return service{namespaceOf(number), fmt.Sprintf("steady-%d", number)}
}
func passing(run, number int) service {
	return service{namespaceOf(number), fmt.Sprintf("passing-%d-%d", run, number)}
}

// slice returns the EndpointSlice of a service with one endpoint.
func (s service) slice(address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: s.name, Labels: map[string]string{discoveryv1.LabelServiceName: s.name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Zone: ptr.To("zone-a"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		}},
	}
}

func (s service) export() *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
}

// create creates the Service and its endpoint.
func (s service) create(ctx context.Context, in *fleet.Cluster, address string) error {
	_, err := in.Kubernetes.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = in.Kubernetes.DiscoveryV1().EndpointSlices(s.namespace).Create(ctx, s.slice(address), metav1.CreateOptions{})
	return err
}

// populate creates the namespaces, and the objects of the floor.
func populate(ctx context.Context, clusters []*fleet.Cluster) error {
	for _, cluster := range clusters {
		for number := range namespaces {
			if err := cluster.Namespace(ctx, namespaceOf(number)); err != nil {
				return err
			}
		}
		if err := cluster.Namespace(ctx, floorNamespace); err != nil {
			return err
		}
		for number := range floorObjects {
			if _, err := cluster.Kubernetes.CoreV1().ConfigMaps(floorNamespace).Create(ctx, floorObject(number), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forEach calls a function for the numbers of a range, several at once.
func forEach(ctx context.Context, from, to int, do func(ctx context.Context, number int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for number := from; number < to; number++ {
		group.Go(func() error { return do(ctx, number) })
	}
	return group.Wait()
}
