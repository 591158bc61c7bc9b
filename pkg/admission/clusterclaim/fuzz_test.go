// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// FuzzValidate writes arbitrary claims to installations with arbitrary claims.
//
// R367: the answer is allow, or 403 with the name of the claim and what to do. It agrees with
// the rules of the claims, which the test states again.
func FuzzValidate(f *testing.F) {
	f.Add(idClaim, "a", "b", "a", "", uint8(0))
	f.Add(idClaim, "a", "b", "a", "set", uint8(0))
	f.Add(setClaim, "", "set", "a", "", uint8(1))
	f.Add(setClaim, "set", "other", "a", "set", uint8(0))
	f.Add(setClaim, "set", "", "a", "set", uint8(2))
	f.Add(idClaim, "a", "", "a", "", uint8(2|4))
	f.Add("other.example", "a", "b", "", "", uint8(8))
	f.Fuzz(func(t *testing.T, name, before, after, id, set string, flags uint8) {
		var stored []*multicluster.ClusterClaim
		if id != "" {
			stored = append(stored, claimOf(idClaim, id))
		}
		if set != "" {
			stored = append(stored, claimOf(setClaim, set))
		}
		var r request
		if flags&1 == 0 {
			r.old = claimOf(name, before)
		}
		if flags&2 == 0 || r.old == nil {
			r.object = claimOf(name, after)
		}
		r.unnamed = flags&4 != 0
		i := install(stored)
		denied := flags&8 != 0
		if denied {
			i.answer = func() (authorizer.Decision, string, error) { return authorizer.DecisionDeny, "no", nil }
		}
		err := i.decided(t, r)
		if err != nil {
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != http.StatusForbidden || status.Status().Details.Name != name || !strings.Contains(err.Error(), ";") {
				t.Fatalf("refused with %v, want 403 that names the claim and says what to do", err)
			}
		}
		if want := refused(r, id, set, denied); (err != nil) != want {
			t.Fatalf("write of %q from %+v to %+v, with ID %q and ClusterSet %q: got %v, refused %v", name, r.old, r.object, id, set, err, want)
		}
		if !wellKnown(name) && i.touched() {
			t.Fatal("a claim that is not well-known causes requests")
		}
	})
}

func wellKnown(name string) bool { return name == idClaim || name == setClaim }

// refused states the rules of well-known claims for a cluster without members: an ID is never
// deleted, and changes only outside of a ClusterSet; a ClusterSet is left before another one is
// joined, and joined only with an ID; and the user must have the permission.
func refused(r request, id, set string, denied bool) bool {
	switch {
	case r.object != nil && !wellKnown(r.object.Name), r.object == nil && !wellKnown(r.old.Name):
		return false
	case r.object != nil && r.old != nil && r.object.Spec.Value == r.old.Spec.Value:
		return false
	case denied:
		return true
	case r.object == nil:
		return r.old.Name == idClaim
	case r.object.Name == idClaim:
		return r.old != nil && set != ""
	}
	return r.old != nil || id == ""
}
