// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

func lease(ctx context.Context, in *fleet.Cluster, member string) (*coordinationv1.Lease, error) {
	return in.Kubernetes.CoordinationV1().Leases(installation.Namespace).Get(ctx, "member-"+member, metav1.GetOptions{})
}

// setPolicy sets on the Secret of east in west what happens to its endpoints when it is lost.
func setPolicy(ctx context.Context, t *testing.T, policy string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"clusterset.mcs-apiserver.io/lost-policy":%s}}}`, policy)
	expect.Must(west().Kubernetes.CoreV1().Secrets(installation.Namespace).Patch(ctx, clusterset.MemberSecretName("east"), types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// R79, R80, R81: the endpoints of a lost member, and no others, are withdrawn
// unless they are to be kept; they return with the member. The renew time of its
// Lease is when the member was last seen.
func TestLostMemberLosesItsEndpoints(t *testing.T) {
	ns := fleet.CreateNamespace(t, "cut-off", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	both, own := from{"east": {"10.9.0.1"}, "west": {"10.8.0.1"}}, from{"west": {"10.8.0.1"}}
	before, slices := awaitEndpoints(t, west(), ns, "web", both)
	var ownVersion string
	for _, slice := range slices {
		if slice.Labels["multicluster.kubernetes.io/source-cluster"] == "west" {
			ownVersion = slice.Name + " " + slice.ResourceVersion
		}
	}
	awaitRenewal(t, west(), "east")
	awaitQuiet(t, ns)

	setPolicy(t.Context(), t, `"Keep"`)
	link := west().Links["east"]
	restore := func() {
		expect.Must(0, link.Restore())(t)
		setPolicy(context.Background(), t, "null")
	}
	t.Cleanup(restore)
	inEast, inWest := count(t, east(), ns), count(t, west(), ns)
	link.Cut()
	awaitEast(t, clustersetv1alpha1.MemberLost)
	last := expect.Must(lease(t.Context(), west(), "east"))(t)
	inWest.expect(t) // the endpoints are kept
	awaitEndpoints(t, west(), ns, "web", both)

	setPolicy(t.Context(), t, `"Withdraw"`)
	service, slices := awaitEndpoints(t, west(), ns, "web", own)
	if service.ResourceVersion != before.ResourceVersion {
		t.Error("derived Service was written")
	}
	if len(slices) != 1 || slices[0].Name+" "+slices[0].ResourceVersion != ownVersion {
		t.Errorf("remaining slices are %v, want %s", slices, ownVersion)
	}
	awaitImport(t, west(), ns, metav1.ConditionTrue)
	if got := inWest.atLeast(t, 1); len(got) != 1 {
		t.Errorf("writes for the withdrawal: %q", got)
	}
	if now := expect.Must(lease(t.Context(), west(), "east"))(t); !now.Spec.RenewTime.Equal(last.Spec.RenewTime) {
		t.Errorf("Lease of a lost member was renewed: %v, then %v", last.Spec.RenewTime, now.Spec.RenewTime)
	}

	// Restarts during the partition change nothing.
	inWest = count(t, west(), ns)
	replica := west().APIServers[0]
	expect.NoError(t, replica.Stop(time.Minute))
	expect.NoError(t, replica.Start())
	expect.NoError(t, west().AwaitAvailable(t.Context()))
	expect.NoError(t, west().StopController())
	expect.NoError(t, west().StartController(t.Context()))
	expect.Must(west().EndpointSlice(t.Context(), ns, "web", []string{"10.8.0.2"}))(t)
	awaitEndpoints(t, west(), ns, "web", from{"west": {"10.8.0.2"}})
	if got := inWest.atLeast(t, 1); len(got) != 1 {
		t.Errorf("writes in west: %q, want one update", got)
	}

	restore()
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}, "west": {"10.8.0.2"}})
	awaitRenewal(t, west(), "east")
	awaitEndpoints(t, east(), ns, "web", from{"east": {"10.9.0.1"}, "west": {"10.8.0.2"}})
	if got := inEast.atLeast(t, 1); len(got) != 1 {
		t.Errorf("writes in east, which never lost west: %q, want one update", got)
	}
}

// awaitRenewal waits until the Lease of a member is renewed.
func awaitRenewal(t *testing.T, in *fleet.Cluster, member string) {
	t.Helper()
	var first *metav1.MicroTime
	expect.Eventually(t, "renewal of the Lease of "+member, func(ctx context.Context) error {
		found, err := lease(ctx, in, member)
		if err != nil {
			return err
		}
		if *found.Spec.HolderIdentity != member || *found.Spec.LeaseDurationSeconds != 30 {
			return fmt.Errorf("%+v", found.Spec)
		}
		if first == nil {
			first = found.Spec.RenewTime
		}
		if !first.Before(found.Spec.RenewTime) {
			return fmt.Errorf("renew time is still %s", first)
		}
		return nil
	})
}

// A lost member that is removed stays removed: its endpoints do not return, not
// even briefly.
func TestLostMemberThatIsRemovedDoesNotComeBack(t *testing.T) {
	ns := fleet.CreateNamespace(t, "dismissed", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}, "west": {"10.8.0.1"}})
	link := west().Links["east"]
	t.Cleanup(func() { expect.Must(0, link.Restore())(t) })
	link.Cut()
	awaitEndpoints(t, west(), ns, "web", from{"west": {"10.8.0.1"}})
	awaitQuiet(t, ns)
	inWest := count(t, west(), ns)
	expect.NoError(t, west().Leave(t.Context(), "east"))
	expect.Eventually(t, "end of the Lease", func(ctx context.Context) error {
		if _, err := lease(ctx, west(), "east"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("Lease still exists: %w", err)
		}
		return nil
	})
	inWest.expect(t)
	expect.Must(0, link.Restore())(t)
	expect.Must(west().Join(t.Context(), east(), nil))(t)
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}, "west": {"10.8.0.1"}})
}

// R82: an outage of the cluster's own API server is not a lost member: nothing is
// withdrawn, even if the outage is longer than the TTL, and when it ends.
func TestOwnOutageWithdrawsNothing(t *testing.T) {
	ns := fleet.CreateNamespace(t, "outage", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	_, before := awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}})
	awaitQuiet(t, ns)
	inWest := count(t, west(), ns)
	replica := west().APIServers[0]
	t.Cleanup(func() {
		if !replica.Running() {
			expect.Must(0, errors.Join(replica.Start(), west().AwaitAvailable(context.Background())))(t)
		}
	})
	held := expect.Must(lease(t.Context(), west(), "east"))(t)
	expect.NoError(t, replica.Stop(time.Minute))
	stays(t, 40*time.Second, func(ctx context.Context) error {
		_, err := lease(ctx, west(), "east")
		return err
	}, inWest)
	expect.NoError(t, replica.Start())
	expect.NoError(t, west().AwaitAvailable(t.Context()))
	awaitEast(t, clustersetv1alpha1.MemberConnected)
	// Later changes are applied, and nothing else is written.
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.2"}))(t)
	_, after := awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.2"}})
	inWest.expect(t, fmt.Sprintf("update endpointslices %s/%s", ns, before[0].Name))
	if after[0].UID != before[0].UID {
		t.Error("slice was replaced")
	}
	if now := expect.Must(lease(t.Context(), west(), "east"))(t); now.UID != held.UID {
		t.Error("Lease was replaced")
	}
}
