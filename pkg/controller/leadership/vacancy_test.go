// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// R156: the holder of a Lease that is deleted still leads, and creates it again. Others wait
// until the Lease would have expired.
func TestDeletedLeaseIsNotVacant(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("mcs-system")
	ctx, cancel := context.WithCancel(t.Context())
	observed, ended := make(chan resourcelock.LeaderElectionRecord, 10), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(client, "mcs-system", "test")(ctx, func(record resourcelock.LeaderElectionRecord) { observed <- record })
	}()
	expect := func(holder string) {
		t.Helper()
		select {
		case record := <-observed:
			if record.HolderIdentity != holder || record.LeaseDurationSeconds != 3 {
				t.Errorf("got %+v, want holder %q", record, holder)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("holder %q was not observed", holder)
		}
	}
	create := func(holder string) {
		t.Helper()
		_, err := leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "test"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](3)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expect(holder)
	}
	create("first")
	if err := leases.Delete(ctx, "test", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create("second") // and nothing before
	cancel()
	<-ended
}

// A replica that stops hesitating while the Lease is held acquires it as soon as it expires.
func TestHesitationIsAskedForWhenTheLeaseIsVacant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newVacancy("own")
		lease.observe(resourcelock.LeaderElectionRecord{HolderIdentity: "other", LeaseDurationSeconds: 3})
		begun := time.Now()
		if !lease.await(t.Context(), time.Second, func() time.Duration {
			if time.Since(begun) < 2*time.Second { // hesitating
				return time.Minute
			}
			return 0
		}) || time.Since(begun) != 3*time.Second {
			t.Errorf("waited %s", time.Since(begun))
		}
	})
}
