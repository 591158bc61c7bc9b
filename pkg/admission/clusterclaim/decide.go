// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// change is what becomes of a claim: nil stands for no claim.
type change struct {
	name          string
	before, after *string
	// force is that of the claim as it is to be.
	force bool
}

// claims are the well-known claims, nil where there is none.
type claims struct{ id, clusterSet *string }

// joining is a cluster that would have an id in a ClusterSet.
type joining struct {
	id, clusterSet string
	// claim is the one by which it joins.
	claim string
	// force lets it join although not every member can be asked.
	force bool
}

func changeOf(object, old runtime.Object) (change, error) {
	var c change
	if object == nil && old == nil {
		return c, errors.New("a write of a ClusterClaim without the claim")
	}
	for _, state := range []struct {
		object runtime.Object
		into   **string
	}{{old, &c.before}, {object, &c.after}} {
		if state.object == nil {
			continue
		}
		claim, ok := state.object.(*multicluster.ClusterClaim)
		if !ok {
			return c, fmt.Errorf("%T is no ClusterClaim", state.object)
		}
		*state.into = &claim.Spec.Value
		c.name, c.force = claim.Name, claim.Annotations[multicluster.IgnoreUnreachableMembersAnnotation] == "true"
	}
	return c, nil
}

// matters is false for other claims, and for what leaves a claim as it was.
func (c change) matters() bool {
	if c.name != multicluster.ClusterIDClaim && c.name != multicluster.ClusterSetClaim {
		return false
	}
	return c.before == nil || c.after == nil || *c.before != *c.after
}

// leaves is true of the removal of a ClusterSet.
func (c change) leaves() bool { return c.name == multicluster.ClusterSetClaim && c.after == nil }

// never refuses what is wrong whoever asks for it, and whatever else is claimed.
func (c change) never() error {
	switch {
	case c.name == multicluster.ClusterIDClaim && c.after == nil:
		return errors.New("a cluster has an id for as long as it lives: it cannot be removed. " +
			"To rename the cluster, change the claim's value while it is in no ClusterSet")
	case c.name == multicluster.ClusterSetClaim && c.before != nil && c.after != nil:
		return fmt.Errorf("a cluster cannot move from ClusterSet %q to %q in one step: leave first, by deleting this claim, and then create it anew",
			*c.before, *c.after)
	}
	return nil
}

// judge decides by what else is claimed. What it returns has to be unique in
// the ClusterSet; nil if there is nothing that has to.
func (c change) judge(current claims) (*joining, error) {
	switch c.name {
	case multicluster.ClusterIDClaim:
		switch {
		case current.clusterSet == nil:
			return nil, nil
		case c.before != nil:
			return nil, fmt.Errorf("the id cannot change from %q to %q while this cluster is in the ClusterSet %q: "+
				"leave it first, by deleting the claim %s, then change the id, then join again",
				*c.before, *c.after, *current.clusterSet, multicluster.ClusterSetClaim)
		}
		return &joining{*c.after, *current.clusterSet, c.name, c.force}, nil
	case multicluster.ClusterSetClaim:
		if current.id == nil {
			return nil, fmt.Errorf("this cluster has no id: create the ClusterClaim %s first, with a name that no other cluster of %q has",
				multicluster.ClusterIDClaim, *c.after)
		}
		return &joining{*current.id, *c.after, c.name, c.force}, nil
	}
	return nil, nil
}

// unique refuses an id that another cluster has in the ClusterSet, and if that
// cannot be told. self is the UID of this cluster.
func (j joining) unique(self types.UID, answers []member.Answer) error {
	var unasked []string
	for _, answer := range answers {
		if answer.Problem != "" {
			unasked = append(unasked, fmt.Sprintf("%q (Secret %s): %s", answer.Name, answer.Secret, answer.Problem))
			continue
		}
		if holder, ok := j.heldBy(self, answer); ok {
			return fmt.Errorf("the id %q is taken in the ClusterSet %q by %s. %s", j.id, j.clusterSet, holder, j.remedy())
		}
	}
	if len(unasked) == 0 || j.force {
		return nil
	}
	slices.Sort(unasked)
	return fmt.Errorf("whether another member has the id %q cannot be told, because not all could be asked: %s. "+
		"Try again when they can be, delete the Secrets of clusters that are gone for good, or, if you know that the id is free, "+
		"set the annotation %s=true on the claim %s", j.id, strings.Join(unasked, "; "),
		multicluster.IgnoreUnreachableMembersAnnotation, j.claim)
}

// remedy is how to choose another id.
func (j joining) remedy() string {
	if j.claim == multicluster.ClusterIDClaim {
		return fmt.Sprintf("Create the claim %s with another value", j.claim)
	}
	const suffix = "-2"
	another := j.id[:min(len(j.id), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
	return fmt.Sprintf("Choose another id by changing the claim %s, as in: kubectl patch clusterclaim %s --type=merge -p '{\"spec\":{\"value\":\"%s\"}}'",
		multicluster.ClusterIDClaim, multicluster.ClusterIDClaim, another)
}

// heldBy finds another cluster with the id among those that a cluster knows, if
// that is in the ClusterSet itself.
func (j joining) heldBy(self types.UID, answer member.Answer) (string, bool) {
	teller := ""
	for _, entry := range answer.Members {
		if status := &entry.Status; status.State == clusterset.MemberLocal && status.ClusterSet == j.clusterSet {
			teller = status.ClusterID
		}
	}
	if teller == "" {
		return "", false
	}
	for _, entry := range answer.Members {
		status := &entry.Status
		if status.ClusterID != j.id || status.ClusterSet != j.clusterSet || status.ClusterUID == "" || status.ClusterUID == self {
			continue
		}
		switch status.State {
		case clusterset.MemberLocal:
			return fmt.Sprintf("the cluster of Secret %s (UID %s)", answer.Secret, status.ClusterUID), true
		case clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost:
			return fmt.Sprintf("a member of %q (UID %s, %s)", teller, status.ClusterUID, status.State), true
		}
	}
	return "", false
}
