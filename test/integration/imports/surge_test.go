// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// surge is how many exports a member joins with: make integration runs a short form.
var surge = flag.Int("surge", 200, "how many exports arrive at once")

const (
	// maxCrossing limits how long changes of other members take meanwhile. Where all exports
	// take long, it is a quarter of that: the changes do not wait for them.
	maxCrossing = 5 * time.Second
	// perExport limits how long an export takes to be imported, and minArrival all of few.
	perExport  = time.Minute / 1000
	minArrival = time.Minute
	// maxGrowth limits the memory of mcs-apiserver for them.
	maxGrowth = 300 << 20
)

// exportMany exports services of a cluster as fast as possible.
func exportMany(t *testing.T, in *fleet.Cluster, ns string, count int) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			name := fmt.Sprintf("service-%05d", i)
			_, errService := in.Service(ctx, ns, name)
			_, errSlice := in.EndpointSlice(ctx, ns, name, []string{fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)})
			_, errExport := in.Export(ctx, ns, name)
			return errors.Join(errService, errSlice, errExport)
		})
	}
	expect.NoError(t, group.Wait())
}

// importedFrom returns the addresses of all imported EndpointSlices of a source cluster.
func importedFrom(ctx context.Context, in *fleet.Cluster, ns, cluster string) ([]string, error) {
	list, err := in.Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{
		LabelSelector: multicluster.SourceClusterLabel + "=" + cluster + "," + discoveryv1.LabelManagedBy + "=" + multicluster.ManagedBy, ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
	}
	return addresses, nil
}

// crossings changes endpoints of a cluster again and again until the context is done, and
// returns how often, and how long a change took at most until it was imported elsewhere.
func crossings(ctx context.Context, of, in *fleet.Cluster, ns, name string) (count int, longest time.Duration, err error) {
	for ; ctx.Err() == nil; count++ {
		address := fmt.Sprintf("10.7.%d.%d", count/250, count%250+1)
		begun := time.Now()
		if _, err := of.EndpointSlice(context.WithoutCancel(ctx), ns, name, []string{address}); err != nil {
			return count, longest, err
		}
		err := wait.PollUntilContextTimeout(context.WithoutCancel(ctx), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			found, err := importedFrom(ctx, in, ns, of.ID)
			return len(found) == 1 && found[0] == address, err
		})
		if err != nil {
			return count, longest, fmt.Errorf("change of %s: %w", of.ID, err)
		}
		longest = max(longest, time.Since(begun))
		select { // in the pace in which endpoints are written without delay
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return count, longest, nil
}

// R374: when a member joins with thousands of exports, all of them are imported, in limited time and
// memory, and changes of other members do not wait for them.
func TestManyExportsArriveAtOnce(t *testing.T) {
	ns := fleet.CreateNamespace(t, "surge", clusters.Clusters...)
	export(t, north(), ns, "other")
	west().AwaitImport(t, ns, "other", "north")
	for _, cluster := range []*fleet.Cluster{west(), north()} {
		expect.NoError(t, cluster.Leave(t.Context(), "east"))
	}
	t.Cleanup(func() {
		expect.EventuallyAfterTest(t, "deletion of all exports", func(ctx context.Context) error { // one request may take too long for many
			return east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		})
		expect.Must(west().Join(context.Background(), east(), nil))(t)
		expect.Must(north().Join(context.Background(), east(), nil))(t)
	})
	limit := minArrival + time.Duration(*surge)*perExport
	begun := time.Now()
	exportMany(t, east(), ns, *surge)
	expect.Within(t, limit, "imports of the exporting cluster", func(ctx context.Context) error {
		found, err := importedFrom(ctx, east(), ns, "east")
		if err == nil && len(found) != *surge {
			err = fmt.Errorf("%d endpoints", len(found))
		}
		return err
	})
	t.Logf("exported after %s", time.Since(begun).Round(time.Second))

	before := memory(t, west())
	ctx, arrived := context.WithCancel(t.Context())
	var count int
	var longest time.Duration
	var others errgroup.Group
	others.Go(func() (err error) {
		count, longest, err = crossings(ctx, north(), west(), ns, "other")
		return err
	})
	begun = time.Now()
	expect.Must(west().Join(t.Context(), east(), map[string][]byte{
		clusterset.MemberSecretServiceLimit: fmt.Append(nil, 2**surge), clusterset.MemberSecretMemoryLimit: []byte("128Mi"),
	}))(t)
	expect.Within(t, limit, "all imports and endpoints", func(ctx context.Context) error {
		found, err := importedFrom(ctx, west(), ns, "east")
		if err == nil && len(found) != *surge {
			err = fmt.Errorf("%d endpoints", len(found))
		}
		return err
	})
	took := time.Since(begun)
	arrived()
	expect.NoError(t, others.Wait())
	imports := expect.Must(west().Clientset.MulticlusterXV1beta1().ServiceImports(ns).List(t.Context(), metav1.ListOptions{}))(t)
	if len(imports.Items) != *surge+1 {
		t.Errorf("%d imports, want %d", len(imports.Items), *surge+1)
	}
	growth := memory(t, west()) - before
	t.Logf("%d exports arrived after %s, %d changes of another member after %s at most, mcs-apiserver grew by %d MiB",
		*surge, took.Round(time.Millisecond), count, longest.Round(time.Millisecond), growth>>20)
	allowed := max(maxCrossing, took/4)
	if *surge < 1000 { // beside other tests
		allowed = max(allowed, 3*maxCrossing)
	}
	if count == 0 || longest > allowed {
		t.Errorf("%d changes of another member arrived, after %s at most", count, longest)
	}
	if growth > maxGrowth {
		t.Errorf("memory grew by %d MiB", growth>>20)
	}
}
