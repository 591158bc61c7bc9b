// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

func joinedAt(at time.Time) func(*secret.Spec) {
	return func(s *secret.Spec) { s.JoinedAt = at }
}

// since returns an export of b that claims to be created at a time.
func since(at time.Time, service string) *clustersetv1alpha1.ExportedService {
	exported := exported("b", service)
	exported.Spec.ExportedAt = metav1.NewTime(at)
	return exported
}

// R230: the time in the Secret applies to what is held, not only to what is read next.
func TestTimeOfJoiningAppliesToWhatIsHeld(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	b := w.connect(w.peers["member-b"])
	b.ClaimsRead(identityOf("b"))
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, since(epoch.AddDate(-50, 0, 0), "web"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "Unknown", clusterset.ReasonNoJoinTime, "run kubectl mcs join with this cluster and the member")
	w.notified()

	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretJoinedAt, "2025-12-31T00:00:00Z")))
	got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].Service.Spec.Since()
	if want := time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC); !got.Time.Equal(want) {
		t.Errorf("the export counts from %s, want %s", got, want)
	}
	if got := w.notified(); got != "ns/web" {
		t.Errorf("%q was reported as changed, want ns/web", got)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "True", "Plausible", "2025-12-31T00:00:00Z")
}

// R230: a member cannot displace another by claiming that it joined earlier.
func TestTimeOfJoiningInTheSecretLimitsTheClaim(t *testing.T) {
	const cidr = "243.1.0.0/16"
	cidrs := func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }
	w := newFixture(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	own := self
	own.IDClaimedAt, own.CIDRs = epoch, cidr
	w.SetIdentity(own)
	b := w.add("b", joinedAt(epoch.Add(time.Hour)))
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.AddDate(-50, 0, 0)})
	w.probe(b, ownEntry("b", cidrs))
	expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "True", "Allocates", "")
	expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"a"`)
	if got := w.Entry("b").Status.IDClaimedAt; !got.Time.Equal(epoch.Add(time.Hour)) {
		t.Errorf("clusters that this one relays to read that b joined at %s", got)
	}
}

// R231
func TestBackdatedExportsAreReported(t *testing.T) {
	w := newFixture(t, nil)
	now := w.clock.Now()
	joined := now.Add(-10 * time.Hour)
	b := w.join("b", joinedAt(joined))
	// Prometheus notices an increase only of what it has read before.
	w.measures(t, map[string]float64{"member_backdated_exports_total b": 0})
	w.replace(t, b, exports.Services, since(epoch, "old"))
	w.replace(t, b, exports.EndpointSlices)
	w.upsert(t, b, since(now.Add(-time.Minute), "new")) // a change takes a moment
	w.upsert(t, b, since(epoch, "old"))                 // exported before
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "True", "Plausible", "")

	w.upsert(t, b, since(time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC), "web"))
	w.upsert(t, b, since(now.Add(-2*time.Minute), "zoo"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "False", clusterset.ReasonBackdated,
		"2 exports are new, but claim to be older, and take precedence accordingly; the first: Service ns/web claims to be exported since "+joined.Format(time.RFC3339))
	w.measures(t, map[string]float64{"member_backdated_exports_total b": 2})
	if got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].Service.Spec.Since(); !got.Time.Equal(joined) {
		t.Errorf("the export counts from %s, want %s: it is reported, and not reordered", got, joined)
	}
	w.remove(t, b, since(epoch, "web"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "False", clusterset.ReasonBackdated, "1 exports")
	w.replace(t, b, exports.Services, since(epoch, "old"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "True", "Plausible", "")
}

// R231: a list after the watch was interrupted is compared with the one before.
func TestBackdatedExportsInALaterListAreReported(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b", joinedAt(epoch))
	w.replace(t, b, exports.Services)
	listed := w.clock.Now()
	w.clock.Step(time.Hour)
	w.replace(t, b, exports.Services, since(listed, "web"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "True", "Plausible", "")
	w.replace(t, b, exports.Services, since(listed, "web"), since(listed, "db"))
	expectCondition(t, w.Entry("b"), clusterset.MemberExportAges, "False", clusterset.ReasonBackdated, "ns/db")
}
