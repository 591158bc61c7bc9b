// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// runLives runs the lives of a cluster without the Projection.
func (c *cluster) runLives() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	version, err := c.config.Lives.Load(ctx)
	must(c.t, err)
	var running sync.WaitGroup
	running.Go(func() {
		c.config.Lives.Run(ctx, version, importidentity.Callbacks{Changed: c.livesChanged, Living: c.living})
	})
	c.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// awaitRecord waits until web is queued because its life changed.
func (c *cluster) awaitRecord() {
	c.t.Helper()
	eventually(c.t, "the life changes", func() bool { return c.queued() == web.String() })
}

// failWrites makes all writes of records fail from now on, and returns how often that
// was tried.
func failWrites(records *recordtest.Store) *atomic.Int32 {
	var writes atomic.Int32
	records.Before(func(_ context.Context, call recordtest.Call) error {
		if call.Method == "Update" {
			writes.Add(1)
			return errors.New("the storage is read-only")
		}
		return nil
	})
	return &writes
}

// derivedService returns the derived Service of an import, as mcs-controller creates
// it.
func derivedService(of *multicluster.ServiceImport) *corev1.Service {
	derived := service(multicluster.DerivedServiceName(of.Namespace, of.Name))
	derived.Labels = map[string]string{multicluster.ServiceNameLabel: of.Name, multicluster.ManagedByLabel: multicluster.ManagedBy}
	if mark, ok := of.Annotations[multicluster.ImportLifeAnnotation]; ok {
		derived.Annotations = map[string]string{multicluster.ImportLifeAnnotation: mark}
	}
	return derived
}

// R162: a new import is shown without any write.
func TestNewImportNeedsNoWrite(t *testing.T) {
	c := newCluster(t)
	writes := failWrites(c.records)
	c.add(service("web"), exportFor("web"), service("api"))
	stop := run(c)
	_, err := c.multicluster.MulticlusterXV1beta1().ServiceExports("ns").Create(t.Context(), exportFor("api"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "both imports are shown", func() bool { return c.imported("web") != nil && c.imported("api") != nil })
	stop()
	if got := writes.Load(); got != 0 || c.imported("web").UID == "" {
		t.Errorf("%d writes were tried; the UID is %q", got, c.imported("web").UID)
	}
}

// R163: the deletion of an import is shown once it is recorded, and retried until
// then. Other imports are not delayed.
func TestDeletionWaitsForItsRecord(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"), service("api"))
	stop := run(c)
	defer stop()
	first := c.imported("web")
	writes := failWrites(c.records)
	exports := c.multicluster.MulticlusterXV1beta1().ServiceExports("ns")
	must(t, exports.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, "the write is retried", func() bool { return writes.Load() > 1 })
	if c.imported("web") == nil || c.exportedObjects() != "" {
		t.Errorf("the import is %v, published objects are %q", c.imported("web"), c.exportedObjects())
	}
	_, err := exports.Create(t.Context(), exportFor("api"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "another import is shown", func() bool { return c.imported("api") != nil })

	c.records.Before(nil)
	eventually(t, "the import is deleted", func() bool { return c.imported("web") == nil })
	_, err = exports.Create(t.Context(), exportFor("web"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the import is shown again", func() bool { return c.imported("web") != nil })
	second := c.imported("web")
	if second.UID == first.UID || second.Annotations[multicluster.ImportLifeAnnotation] != "1/uid-ns" {
		t.Errorf("UIDs are %s and %s, annotations %v", first.UID, second.UID, second.Annotations)
	}
	if want := epoch.Add(time.Hour); !first.CreationTimestamp.Time.Equal(epoch) || !second.CreationTimestamp.Time.Equal(want) {
		t.Errorf("created at %s and %s, want %s and %s", first.CreationTimestamp, second.CreationTimestamp, epoch, want)
	}
}

// R163: imports go with the membership at once: their UIDs cannot be used again.
func TestLeavingNeedsNoRecord(t *testing.T) {
	c := newCluster(t)
	writes := failWrites(c.records)
	c.runLives()
	c.add(service("web"), exportFor("web"))
	c.sync("web")
	first := c.imported("web").UID
	c.remove(claim("clusterset.k8s.io", "set"))
	must(t, c.syncClaims(t.Context()))
	c.sync("web")
	if c.imported("web") != nil {
		t.Error("the import still exists")
	}
	rejoined := claim("clusterset.k8s.io", "set")
	rejoined.UID = "uid of the next claim"
	c.add(rejoined)
	must(t, c.syncClaims(t.Context()))
	c.sync("web")
	if got := c.imported("web"); got == nil || got.UID == first || writes.Load() != 0 {
		t.Errorf("after %d writes the import is %+v, first UID %s", writes.Load(), got, first)
	}
	// Also if both happen between two looks at the claims.
	second, again := c.imported("web").UID, rejoined.DeepCopy()
	again.UID = "uid of the last claim"
	c.add(again)
	must(t, c.syncClaims(t.Context()))
	if got := c.queued(); got != "ns/web" {
		t.Errorf("queued Services are %q", got)
	}
	c.sync("web")
	if got := c.imported("web").UID; got == second {
		t.Error("the import has the UID of the former membership")
	}
}

// R160, R161: a replica that hears of the end of a life before its exports vanish
// waits for that, but not for long.
func TestReplicaChangesToTheNextLifeAfterTheGracePeriod(t *testing.T) {
	one := newCluster(t)
	other := newReplica(t, one.records)
	for _, c := range []*cluster{one, other} {
		c.runLives()
		c.add(service("web"), exportFor("web"))
		c.sync("web")
	}
	first := one.imported("web").UID
	if got := other.imported("web").UID; got != first {
		t.Errorf("the replicas show %s and %s", first, got)
	}
	one.remove(exportFor("web"))
	one.sync("web")
	one.awaitRecord()
	other.awaitRecord()
	one.sync("web")
	one.add(exportFor("web"))
	one.sync("web")
	second := one.imported("web").UID
	other.sync("web")
	if got := other.imported("web").UID; got != first || second == first {
		t.Errorf("in the grace period the replicas show %s and %s", second, got)
	}
	other.clock.SetTime(other.clock.Now().Add(importidentity.Grace))
	other.sync("web")
	if got := other.imported("web").UID; got != second {
		t.Errorf("after the grace period the replicas show %s and %s", second, got)
	}
	restarted := newReplica(t, one.records)
	restarted.add(service("web"), exportFor("web"))
	ran(restarted)
	if got := restarted.imported("web").UID; got != second {
		t.Errorf("after a restart the UID is %s, was %s", got, second)
	}
}

// R163: imports that were withdrawn while no server ran are recognized by their
// derived Services.
func TestEndsAreRecordedAtStartup(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"web", "withdrawn"} {
		c.add(service(name), exportFor(name))
	}
	ran(c)
	uids := map[string]types.UID{"web": c.imported("web").UID, "withdrawn": c.imported("withdrawn").UID}
	derived := []*corev1.Service{derivedService(c.imported("web")), derivedService(c.imported("withdrawn"))}

	next := newReplica(t, c.records)
	next.add(service("web"), exportFor("web"), service("withdrawn"), derived[0], derived[1])
	stop := run(next)
	eventually(t, "the end is recorded", func() bool { return next.records.Version() == 1 })
	stop()
	last := newReplica(t, c.records)
	last.add(service("web"), exportFor("web"), service("withdrawn"), exportFor("withdrawn"), derived[0], derived[1])
	ran(last)
	if last.imported("web").UID != uids["web"] || last.imported("withdrawn").UID == uids["withdrawn"] {
		t.Error("the existing import has another UID, or the recreated one has its old UID")
	}
	if got := last.records.Version(); got != 1 {
		t.Errorf("%d writes, want 1: only one import was withdrawn", got)
	}
}

// A life is not used again if its record is lost, as with a restored backup, while
// the derived Service exists.
func TestDerivedServiceKeepsTheLifeOfItsImport(t *testing.T) {
	c := newCluster(t)
	marked := &multicluster.ServiceImport{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", Annotations: map[string]string{multicluster.ImportLifeAnnotation: "3/uid-ns"},
	}}
	c.add(service("web"), exportFor("web"), derivedService(marked))
	c.sync("web")
	if got := c.imported("web").Annotations[multicluster.ImportLifeAnnotation]; got != "3/uid-ns" {
		t.Errorf("the import is marked with %q", got)
	}
	c.runLives()
	c.remove(exportFor("web"))
	c.remove(derivedService(marked))
	c.sync("web")
	c.awaitRecord()
	c.sync("web")
	c.add(exportFor("web"))
	c.sync("web")
	if got := c.imported("web").Annotations[multicluster.ImportLifeAnnotation]; got != "4/uid-ns" {
		t.Errorf("the next import is marked with %q", got)
	}
}
