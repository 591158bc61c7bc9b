// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	clustersetvalidation "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// What is taken of an entry of a members list. All members are evaluated together, with
// all that their entries contain.
const (
	// MaxClusters is how many clusters a member may list, and a hub may relay.
	MaxClusters = 1000
	// MaxCIDRs is how many allocation CIDRs, and ClusterSet IP ranges, a cluster may have.
	MaxCIDRs = 16

	maxPath       = 16 // as of exports
	maxConditions = 16
	maxMessage    = 1000
	// maxText is how long any other text may be, in bytes. No name is longer.
	maxText = validation.DNS1123SubdomainMaxLength
)

// ReasonInvalidMember is the reason of entries that are not taken, or only in part.
const ReasonInvalidMember = "InvalidMember"

// Entries are the entries of a members list.
type Entries struct {
	Members map[string]*clusterset.Member
	// Refused is how many entries were not taken, or only in part, and First describes
	// one of them.
	Refused int
	First   string
}

func (e *Entries) refuse(name, format string, args ...any) {
	e.Refused++
	if e.First == "" {
		e.First = truncate.Message(fmt.Sprintf("Member %.100q: %s", name, fmt.Sprintf(format, args...)), maxMessage)
	}
}

// Members decodes a members list, by name. It drops what is not used of the entries, and
// limits what is.
func Members(list *clustersetv1alpha1.MemberList) (*Entries, error) {
	entries := &Entries{Members: map[string]*clusterset.Member{}}
	own := func(entry *clustersetv1alpha1.Member) int {
		if entry.Status.State == clustersetv1alpha1.MemberLocal {
			return 0
		}
		return 1
	}
	var items []*clustersetv1alpha1.Member
	for i := range list.Items {
		items = append(items, &list.Items[i])
	}
	slices.SortStableFunc(items, func(a, b *clustersetv1alpha1.Member) int { return cmp.Or(own(a)-own(b), cmp.Compare(a.Name, b.Name)) })
	for _, item := range items {
		member := &clusterset.Member{}
		if err := clustersetv1alpha1.Convert_v1alpha1_Member_To_clusterset_Member(item, member, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		// The UID is that of a namespace.
		if uid := string(member.Status.ClusterUID); uid != "" && len(validation.IsDNS1123Label(uid)) > 0 {
			return nil, fmt.Errorf("%w: clusterUID %.100q of member %.100q is not a UID", ErrInvalid, uid, member.Name)
		}
		entries.add(member)
	}
	return entries, nil
}

// add takes an entry as far as it is within the limits.
func (e *Entries) add(member *clusterset.Member) {
	switch status := &member.Status; {
	case len(e.Members) > MaxClusters: // its own entry, and those of others
		e.refuse(member.Name, "more than %d other clusters are listed, the limit: all beyond it are ignored", MaxClusters)
		return
	case len(member.Name) > maxText:
		e.refuse(member.Name, "name has %d bytes, at most %d are allowed: the entry is ignored", len(member.Name), maxText)
		return
	case len(status.Path) > maxPath || slices.ContainsFunc(status.Path, notClusterID):
		e.refuse(member.Name, "status.path has %d items, at most %d cluster IDs are allowed: the entry is ignored", len(status.Path), maxPath)
		return
	}
	if problems := limit(member); len(problems) > 0 {
		e.refuse(member.Name, "%s", strings.Join(problems, "; "))
	}
	e.Members[member.Name] = member
}

// CIDRsFit reports whether a list of CIDRs is within the limits. Of one that is not,
// nothing is used: other clusters could not tell which of them the cluster allocates from.
func CIDRsFit(list []string) bool { return len(list) <= MaxCIDRs && !slices.ContainsFunc(list, long) }

func long(text string) bool { return len(text) > maxText }

func notClusterID(text string) bool { return len(validation.IsDNS1123Label(text)) > 0 }

// AllocationRefused reports whether a hub refuses the allocation CIDRs that the cluster of
// an entry claims, because it is not the cluster that they are assigned to.
func AllocationRefused(entry *clusterset.Member) bool {
	condition := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberClusterSetIP)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == clusterset.ReasonNotAssigned
}

// limit drops what is not used of an entry, or exceeds a limit, and returns the latter.
func limit(member *clusterset.Member) (problems []string) {
	status := &member.Status
	member.TypeMeta = metav1.TypeMeta{}
	member.ObjectMeta = metav1.ObjectMeta{Name: member.Name}
	for name, list := range map[string]*[]string{"clusterSetIPCIDRs": &status.ClusterSetIPCIDRs, "clusterSetIPRanges": &status.ClusterSetIPRanges} {
		if !CIDRsFit(*list) {
			problems = append(problems, fmt.Sprintf("status.%s has %d items, at most %d short ones are allowed: none is used", name, len(*list), MaxCIDRs))
			*list = nil
		}
	}
	if len(status.Peers) > MaxClusters || slices.ContainsFunc(status.Peers, long) {
		problems = append(problems, fmt.Sprintf("status.peers has %d items, at most %d short ones are allowed: all others are ignored", len(status.Peers), MaxClusters))
		peers := slices.Clone(status.Peers[:min(len(status.Peers), MaxClusters)])
		status.Peers = slices.DeleteFunc(peers, long)
	}
	if long(status.ClusterID) || long(status.ClusterSet) || long(string(status.State)) || long(string(status.LostPolicy)) {
		problems = append(problems, fmt.Sprintf("status.clusterID, status.clusterSet, status.state or status.lostPolicy has more than %d bytes: none is used", maxText))
		status.ClusterID, status.ClusterSet, status.State, status.LostPolicy = "", "", "", ""
	}
	for name, at := range map[string]**metav1.Time{"idClaimedAt": &status.IDClaimedAt, "lastSeen": &status.LastSeen} {
		if *at != nil && !clustersetvalidation.IsEncodable(**at) {
			problems = append(problems, fmt.Sprintf("status.%s is not between the years 0 and 9999 in UTC: it is not used", name))
			*at = nil
		}
	}
	for name, version := range map[string]*string{"version": &status.Version, "kubernetesVersion": &status.KubernetesVersion} {
		if long(*version) {
			problems = append(problems, fmt.Sprintf("status.%s has %d bytes, at most %d are allowed: it is not used", name, len(*version), maxText))
			*version = ""
		}
		*version = truncate.Message(*version, maxText)
	}
	if len(clusterset.FittingProperties(status.Properties)) != len(status.Properties) {
		problems = append(problems, fmt.Sprintf("status.properties has %d items, at most %d with different DNS names that are not reserved for Kubernetes, printable values of up to %d characters, and %d bytes in total are allowed: none is used",
			len(status.Properties), clusterset.MaxProperties, clusterset.MaxPropertyValue, clusterset.MaxPropertyBytes))
		status.Properties = nil
	}
	if status.State == clusterset.MemberLocal {
		status.Conditions = nil // how the cluster sees itself
	}
	if len(status.Conditions) > maxConditions {
		problems = append(problems, fmt.Sprintf("status.conditions has %d items, at most %d are allowed: none is used", len(status.Conditions), maxConditions))
		status.Conditions = nil
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		condition.Type, condition.Reason = truncate.Message(condition.Type, maxText), truncate.Message(condition.Reason, maxText)
		condition.Status = metav1.ConditionStatus(truncate.Message(string(condition.Status), maxText))
		condition.Message = truncate.Message(condition.Message, maxMessage)
		if !clustersetvalidation.IsEncodable(condition.LastTransitionTime) {
			condition.LastTransitionTime = metav1.Time{}
		}
	}
	slices.Sort(problems)
	return problems
}
