// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// sharingServices is how many services claim one shared ClusterSet IP.
const sharingServices = 500

// longAgo is older than all decisions and memberships.
var longAgo = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// DecisionAttacks are about the shared ClusterSet IP of a service of the importer.
func DecisionAttacks() []Attack {
	return []Attack{
		forging("decision-of-the-importer", func(target Target) string {
			return target.service(0, deciding(target.SharedIP, target.Importer, longAgo))
		}),
		forging("decision-of-an-unknown-cluster", func(target Target) string {
			return target.service(0, deciding(target.FreeIP, "unknown", longAgo))
		}),
		forging("decision-of-the-future", func(target Target) string {
			return target.service(0, deciding(target.FreeIP, target.Importer, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)))
		}),
		{
			// It joined before all others.
			Name: "allocation-cidr-of-the-importer", Imported: 1, Reported: &Report{"ClusterSetIP", "NotAssigned", []string{"does not assign"}},
			Secret: map[string]string{clusterset.MemberSecretJoinedAt: longAgo.Format(time.RFC3339), clusterset.MemberSecretAllocationCIDRs: "243.9.0.0/16"},
			Behavior: func(target Target) Behavior {
				return Behavior{
					Services: {Objects: slices.Values([]string{target.service(0, deciding(target.SharedIP, target.ID, longAgo))})},
					Members: {Objects: slices.Values([]string{Entry(target.ID, target.ClusterSet, []string{target.Importer}, func(entry *clustersetv1alpha1.Member) {
						entry.Status.ClusterSetIPCIDRs = []string{target.SharedIP + "/32"}
					})})},
				}
			},
		},
		{
			// As a hub, it says that the clusters behind it joined before all others, and
			// allocate from what others have, and the honest member as well.
			Name: "allocation-cidrs-of-relayed-clusters", Imported: 1, Reporter: 2, Reported: &Report{"ClusterSetIP", "Overlaps", []string{"relayed by hub", "takes precedence"}},
			Secret: map[string]string{clusterset.MemberSecretJoinedAt: longAgo.Format(time.RFC3339), clusterset.MemberSecretRelayFor: "*"},
			Behavior: func(target Target) Behavior {
				entries, first := []string{Entry(target.ID, target.ClusterSet, []string{target.Importer, target.Honest})}, Behind(target.ID, 1)
				for _, id := range []string{first, Behind(target.ID, 2), target.Honest} {
					entries = append(entries, Entry(id, target.ClusterSet, nil, target.relayedClaim))
				}
				return Behavior{
					Services: {Objects: slices.Values([]string{target.service(0), Service(target.Namespace, "behind", first, deciding(target.SharedIP, first, longAgo), relayedBy(first))})},
					Members:  {Objects: slices.Values(entries)},
				}
			},
		},
		{
			Name: "one-ip-in-many-services", Imported: sharingServices / 5, Sent: sharingServices,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: numbered(sharingServices, func(number int) string {
					return target.service(number, deciding(target.SharedIP, target.Importer, longAgo))
				})}}
			},
		},
	}
}

// relayedClaim makes an entry that of a relayed cluster, which claims the shared
// ClusterSet IP of the importer and is said to be expelled.
func (t Target) relayedClaim(entry *clustersetv1alpha1.Member) {
	status := &entry.Status
	status.State, status.ClusterSetIPCIDRs, status.IDClaimedAt = clustersetv1alpha1.MemberConnected, []string{t.SharedIP + "/32"}, ptr.To(metav1.NewTime(longAgo))
	status.Conditions = []metav1.Condition{
		{Type: clusterset.MemberAccepted, Status: metav1.ConditionFalse, Reason: clusterset.ReasonExpelled, Message: "\x1b[2J"},
		{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionTrue, Reason: "Allocates", Message: "\x1b[2J"},
	}
}

// relayedBy sets the path of a service to that from a cluster behind a hub.
func relayedBy(cluster string) func(*clustersetv1alpha1.ExportedService) {
	return func(service *clustersetv1alpha1.ExportedService) { service.Spec.Path = []string{cluster} }
}

// forging returns an attack in which a service has a shared ClusterSet IP that another
// cluster is said to have decided.
func forging(name string, service func(Target) string) Attack {
	return Attack{Name: name, Imported: 1, Behavior: func(target Target) Behavior {
		return Behavior{Services: {Objects: slices.Values([]string{service(target)})}}
	}}
}

// deciding gives a service a shared ClusterSet IP.
func deciding(ip, decidedBy string, since time.Time) func(*clustersetv1alpha1.ExportedService) {
	return func(service *clustersetv1alpha1.ExportedService) {
		service.Spec.UseClusterSetIP = true
		service.Spec.ClusterSetIP = &clustersetv1alpha1.ClusterSetIPDecision{IPs: []string{ip}, DecidedBy: decidedBy, Since: metav1.NewTime(since)}
	}
}
