// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// joinedAt returns the time of joining in the member Secret of a peer.
func (s *Cluster) joinedAt(t *testing.T, peer string) string {
	t.Helper()
	secret, err := s.Kubernetes.CoreV1().Secrets(s.Namespace).Get(t.Context(), clusterset.MemberSecretName(peer), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[clusterset.MemberSecretJoinedAt])
}

// joinAt joins clusters, and dates the claim of the last one.
func joinAt(t *testing.T, clusters []*Cluster, at time.Time) error {
	t.Helper()
	_, own := clusters[len(clusters)-1].fakes()
	own.PrependReactor("create", "clusterclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.CreateAction).GetObject().(*multiclusterv1.ClusterClaim)
		claim.CreationTimestamp = metav1.NewTime(at)
		return true, claim, own.Tracker().Create(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), claim, "")
	})
	e := NewExecution(clusters, discardProgress())
	steps := planned(t, clusters, nil)
	if err := e.Run(t.Context(), steps); err != nil {
		return e.RollBack(t.Context(), err)
	}
	return nil
}

// R230
func TestJoinRecordsWhenClustersJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		east, west := newCluster("east", "east"), newCluster("west", "west")
		joined := time.Now().Add(-30 * time.Second).UTC() // the clock of west is a little behind
		if err := joinAt(t, []*Cluster{east, west}, joined); err != nil {
			t.Fatal(err)
		}
		want := joined.Format(time.RFC3339)
		if got := east.joinedAt(t, "west"); got != want {
			t.Errorf("east has %q for west, want %q", got, want)
		}
		if got := west.joinedAt(t, "east"); got != time.Now().UTC().Format(time.RFC3339) {
			t.Errorf("west has %q for east", got)
		}

		// Later, what other clusters recorded counts, not what the member reports.
		time.Sleep(time.Hour)
		if err := west.MCS.MulticlusterV1().ClusterClaims().Delete(t.Context(), multicluster.ClusterSetClaim, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, own := west.fakes()
		forged := &multiclusterv1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetClaim, CreationTimestamp: metav1.Unix(1, 0)},
			Spec:       multiclusterv1.ClusterClaimSpec{Value: "production"},
		}
		if err := own.Tracker().Add(forged); err != nil {
			t.Fatal(err)
		}
		north := newCluster("north", "north")
		if err := joinAt(t, []*Cluster{east, west, north}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := north.joinedAt(t, "west"); got != want {
			t.Errorf("north has %q for west, want %q", got, want)
		}
		if got := east.joinedAt(t, "west"); got != want {
			t.Errorf("east has %q for west, want %q", got, want)
		}
	})
}

// R230: a cluster cannot lie about when it joins.
func TestJoinRefusesAClusterThatClaimsToHaveJoinedBefore(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
	err := joinAt(t, clusters, time.Unix(31536000, 0))
	expect.Error(t, err, "cluster reports that it joined at 1971-01-01T00:00:00Z", "correct the clock and join again", "all completed steps were rolled back")
	for _, s := range clusters {
		secrets, err := s.Kubernetes.CoreV1().Secrets(s.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(secrets.Items) > 0 {
			t.Errorf("%s has Secrets %v (%v)", s.Context, secrets.Items, err)
		}
	}
}

// R232: clusters that joined with an earlier release.
func TestJoinRecordsTheTimeOfTheClaimForExistingMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
		if err := joinAt(t, clusters, time.Now()); err != nil {
			t.Fatal(err)
		}
		joined := clusters[0].joinedAt(t, "west")
		existing, err := clusters[0].Kubernetes.CoreV1().Secrets("mcs-system").Get(t.Context(), clusterset.MemberSecretName("west"), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clusters[0].updateSecret(t.Context(), existing, func(secret *corev1.Secret) { delete(secret.Data, clusterset.MemberSecretJoinedAt) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		steps := planned(t, clusters, nil)
		if len(steps) != 1 || steps[0].Action != plan.RecordJoinTimes {
			t.Errorf("planned %v, want to record when west joined", steps)
		}
		if err := NewExecution(clusters, discardProgress()).Run(t.Context(), steps); err != nil {
			t.Fatal(err)
		}
		if got := clusters[0].joinedAt(t, "west"); got != joined {
			t.Errorf("east has %q for west, want %q", got, joined)
		}
	})
}
