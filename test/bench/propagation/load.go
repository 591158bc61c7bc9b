// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

const (
	// floorRate is how often per second the floor is measured, in turns in both clusters.
	floorRate = 20
	// exportTime is how long a passing service is exported at least.
	exportTime = 2 * time.Second
	// mixed is of how many changes one each is an export, a withdrawal and an endpoint.
	mixed = 3
)

// load changes services at a rate.
type load struct {
	exporting, importing *fleet.Cluster
	arrivals             *arrivals
	// steady is how many services are exported all the time.
	steady int
	// run is the number of the run, rate the changes per second, and lasts how long the run takes.
	run, rate int
	lasts     time.Duration
	// endpointsOnly is whether endpoints are all that changes.
	endpointsOnly bool
	// next returns a number that no change had before.
	next func() int

	// created are closed when services that pass are exported.
	created []chan struct{}

	mu sync.Mutex
	// err is the first error.
	err error
}

// changes returns how many changes a run makes.
func (l *load) changes() int { return int(l.lasts.Seconds() * float64(l.rate)) }

// exports returns how many services a run exports and withdraws again.
func (l *load) exports() int {
	if l.endpointsOnly {
		return 0
	}
	return (l.changes() + 1) / mixed
}

// prepare creates the services that the run exports.
func (l *load) prepare(ctx context.Context) error {
	for range l.exports() {
		l.created = append(l.created, make(chan struct{}))
	}
	return forEach(ctx, 0, l.exports(), func(ctx context.Context, number int) error {
		return passing(l.run, number).create(ctx, l.exporting, address(l.next()))
	})
}

// play makes all changes, each at its time however long others take, and returns when all were
// written.
func (l *load) play(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	l.arrivals.reset()
	begun := time.Now()
	running.Go(func() {
		l.each(ctx, begun, int(l.lasts.Seconds()*floorRate), floorRate, func(ctx context.Context, _ int) error { return l.measureFloor(ctx) })
	})
	l.each(ctx, begun, l.changes(), l.rate, l.change)
	running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// each calls a function for each change at its time, in a goroutine of its own.
func (l *load) each(ctx context.Context, begun time.Time, count, rate int, change func(ctx context.Context, number int) error) {
	var running sync.WaitGroup
	defer running.Wait()
	for number := range count {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begun.Add(time.Duration(number) * time.Second / time.Duration(rate)))):
		}
		running.Go(func() {
			if err := change(ctx, number); err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.err = cmp.Or(l.err, err)
			}
		})
	}
}

// change makes one change: an endpoint, an export or, some time after that, its withdrawal.
func (l *load) change(ctx context.Context, number int) error {
	if l.endpointsOnly {
		return l.changeEndpoint(ctx, number)
	}
	round := number / mixed
	switch number % mixed {
	case 0:
		return l.changeEndpoint(ctx, round)
	case 1:
		defer close(l.created[round])
		return l.export(ctx, passing(l.run, round))
	}
	if late := round - l.lag(); late >= 0 {
		<-l.created[late] // creating it may have taken longer
		return l.withdraw(ctx, passing(l.run, late))
	}
	return nil
}

// lag is how many services are exported before the first is withdrawn.
func (l *load) lag() int { return int(exportTime.Seconds()*float64(l.rate)/mixed) + 1 }

func (l *load) changeEndpoint(ctx context.Context, number int) error {
	changed, change := steady(number%l.steady), l.next()
	l.arrivals.depart(endpoint, changed.String(), change)
	_, err := l.exporting.Kubernetes.DiscoveryV1().EndpointSlices(changed.namespace).Update(ctx, changed.slice(address(change)), metav1.UpdateOptions{})
	return err
}

func (l *load) export(ctx context.Context, s service) error {
	l.arrivals.depart(export, exported(s), 0)
	_, err := l.exporting.Clientset.MulticlusterXV1beta1().ServiceExports(s.namespace).Create(ctx, s.export(), metav1.CreateOptions{})
	return err
}

func (l *load) withdraw(ctx context.Context, s service) error {
	l.arrivals.depart(unexport, withdrawn(s), 0)
	return l.exporting.Clientset.MulticlusterXV1beta1().ServiceExports(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{})
}

func (l *load) measureFloor(ctx context.Context) error {
	change := l.next()
	cluster, object := []*fleet.Cluster{l.exporting, l.importing}[change%2], floorObject(change)
	l.arrivals.depart(floor, cluster.ID+" "+object.Name, change)
	_, err := cluster.Kubernetes.CoreV1().ConfigMaps(floorNamespace).Update(ctx, object, metav1.UpdateOptions{})
	return err
}

// exported and withdrawn say in which way an import changes.
func exported(s service) string  { return "export of " + s.String() }
func withdrawn(s service) string { return "withdrawal of " + s.String() }

// String describes the run.
func (l *load) String() string {
	what := " changes/s"
	if l.endpointsOnly {
		what = " endpoint changes/s"
	}
	return strconv.Itoa(l.rate) + what + ", " + strconv.Itoa(l.steady) + " services"
}
