// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/typed/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/chaos"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// The load changes every service twice a second: 50 changes a second.
const (
	kept     = 20 // services that are always exported
	toggled  = 5  // services whose export is created and deleted
	interval = 500 * time.Millisecond
	// lifespan is after how many changes the export of a service that is toggled is deleted.
	lifespan = 10
	// counter is the annotation of an import with the number of its last change.
	counter = "chaos.example.com/change"
)

// The subjects of changes: the endpoints of a service, and its import.
func endpointsOf(service string) string { return "endpoints of " + service }
func importOf(service string) string    { return "import of " + service }

func keptService(i int) string    { return fmt.Sprintf("kept-%02d", i) }
func toggledService(i int) string { return fmt.Sprintf("toggled-%d", i) }

// subjects returns the subjects of the load of one kind.
func subjects(of func(service string) string, withToggled bool) []string {
	var all []string
	for i := range kept {
		all = append(all, of(keptService(i)))
	}
	for i := range toggled {
		if withToggled {
			all = append(all, of(toggledService(i)))
		}
	}
	return all
}

// load changes the services of one namespace of a cluster.
type load struct {
	namespace  string
	kubernetes kubernetes.Interface
	exports    typed.ServiceExportInterface
	changes    *chaos.Changes
}

func newLoad(t *testing.T, config *rest.Config, namespace string) *load {
	t.Helper()
	return &load{
		namespace:  namespace,
		kubernetes: expect.Must(kubernetes.NewForConfig(config))(t),
		exports:    expect.Must(versioned.NewForConfig(config))(t).MulticlusterXV1beta1().ServiceExports(namespace),
		changes:    chaos.NewChanges(),
	}
}

// address encodes a number in an address.
func address(number int) string {
	return netip.AddrFrom4([4]byte{10, 77, byte(number >> 8), byte(number)}).String()
}

// number decodes address.
func number(address string) int {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return -1
	}
	return int(ip.As4()[2])<<8 | int(ip.As4()[3])
}

// create creates all services, and exports those that are kept.
func (l *load) create(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range kept {
		group.Go(func() error {
			if err := l.service(ctx, keptService(i)); err != nil {
				return err
			}
			return l.export(ctx, keptService(i))
		})
	}
	for i := range toggled {
		group.Go(func() error { return l.service(ctx, toggledService(i)) })
	}
	return group.Wait()
}

func (l *load) service(ctx context.Context, name string) error {
	port := int32(80)
	if _, err := l.kubernetes.CoreV1().Services(l.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: port}}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := l.kubernetes.DiscoveryV1().EndpointSlices(l.namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address(0)}}},
	}, metav1.CreateOptions{})
	l.changes.Written(endpointsOf(name), time.Now())
	return err
}

// export creates a ServiceExport with the number of the change.
func (l *load) export(ctx context.Context, name string) error {
	export := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
	export.Spec.ExportedAnnotations = map[string]string{counter: strconv.Itoa(l.changes.Next(importOf(name)))}
	_, err := l.exports.Create(ctx, export, metav1.CreateOptions{})
	l.changes.Written(importOf(name), time.Now())
	return err
}

// run changes the services until the context is done, and leaves all of them exported.
func (l *load) run(ctx context.Context) error {
	var group errgroup.Group
	for i := range kept {
		group.Go(func() error { return every(ctx, interval, func(n int) error { return l.change(keptService(i), n) }) })
	}
	for i := range toggled {
		group.Go(func() error { return l.toggle(ctx, toggledService(i)) })
	}
	return group.Wait()
}

// every calls a function with 0, 1, … periodically until the context is done or an error occurs.
func every(ctx context.Context, period time.Duration, do func(n int) error) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := do(n); err != nil {
			return err
		}
	}
}

// change changes the endpoints of a service, or every third time its import.
func (l *load) change(name string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if n%3 == 2 {
		return l.changeImport(ctx, name)
	}
	subject := endpointsOf(name)
	_, err := l.kubernetes.DiscoveryV1().EndpointSlices(l.namespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"endpoints":[{"addresses":["%s"]}]}`, address(l.changes.Next(subject))), metav1.PatchOptions{})
	l.changes.Written(subject, time.Now())
	return err
}

// changeImport changes the import of a service by an annotation of its export.
func (l *load) changeImport(ctx context.Context, name string) error {
	subject := importOf(name)
	_, err := l.exports.Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"exportedAnnotations":{"`+counter+`":"%d"}}}`, l.changes.Next(subject)), metav1.PatchOptions{})
	l.changes.Written(subject, time.Now())
	return err
}

// toggle creates the export of a service, changes its import, deletes the export, and so on. It
// leaves the service exported.
func (l *load) toggle(ctx context.Context, name string) error {
	exists := false
	change := func(n int) error {
		ctx := context.WithoutCancel(ctx)
		switch n % lifespan {
		case 0:
			exists = true
			return l.export(ctx, name)
		case lifespan - 1:
			exists = false
			err := l.exports.Delete(ctx, name, metav1.DeleteOptions{})
			l.changes.Written("removal of "+name, time.Now())
			return err
		default:
			return l.changeImport(ctx, name)
		}
	}
	if err := every(ctx, interval, change); err != nil || exists {
		return err
	}
	return change(0)
}
