// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// R367, R420: whatever a file contains, it is refused, or is a member Secret and a claim that
// are the same when they are written and read again.
func FuzzReadInvitation(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Secret\n---\napiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: clusterset.k8s.io}\nspec: {value: x}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, content := range [][]byte{content, append([]byte(encoded(t, newTestInvitation(t))), content...)} {
			invitation, err := ReadInvitation(content)
			if err != nil {
				continue
			}
			if invitation.Secret.Type != clusterset.MemberSecretType || invitation.Claim.Name != multicluster.ClusterSetClaim || invitation.ID == "" || invitation.Invited == "" {
				t.Fatalf("got %+v", invitation)
			}
			again, err := ReadInvitation([]byte(encoded(t, invitation)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(invitation, again); diff != "" {
				t.Fatalf("invitation is not the same when it is read again:\n%s", diff)
			}
		}
	})
}
