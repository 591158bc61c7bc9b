// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"slices"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R630: what an export can list are the IDs of the members, whatever their entries are called.
func TestCompletionOfMembers(t *testing.T) {
	renamed := clustertest.NewMember("secret.north", clustersetv1alpha1.MemberRefused, func(status *clustersetv1alpha1.MemberStatus) { status.ClusterID = "north" })
	unknown := clustertest.NewMember("secret.south", clustersetv1alpha1.MemberConnecting, func(status *clustersetv1alpha1.MemberStatus) { status.ClusterID = "" })
	c := clustertest.NewCluster(clustertest.Local(), clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), renamed, unknown)
	got, err := members.PeerIDs(t.Context(), c, "shop")
	if err != nil || !slices.Equal(got, []string{"north", "west"}) {
		t.Errorf("got %v, %v", got, err)
	}
}
