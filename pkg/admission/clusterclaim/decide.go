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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/survey"
)

// change is a write of a claim. before and after are nil if the claim does not exist.
type change struct {
	name          string
	before, after *string
	// force is whether the claim is accepted although not every member can be asked.
	force bool
	// generated is whether mcs-controller generated the former value, and no ClusterSet
	// has used it.
	generated bool
}

// claims are the values of the well-known claims, nil for a missing claim.
type claims struct{ id, clusterSet *string }

// joining is the ID and ClusterSet that a change would give to this cluster.
type joining struct {
	id, clusterSet string
	// claim is the name of the changed claim.
	claim string
	// force is that of the change.
	force bool
}

func changeOf(object, old runtime.Object) (change, error) {
	var c change
	if object == nil && old == nil {
		return c, errors.New("write of a ClusterClaim has no object")
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
			return c, fmt.Errorf("unexpected type %T, want ClusterClaim", state.object)
		}
		*state.into = &claim.Spec.Value
		c.name, c.force = claim.Name, claim.Annotations[multicluster.IgnoreUnreachableMembersAnnotation] == "true"
		if state.into == &c.before {
			c.generated = claim.Annotations[multicluster.GeneratedIDAnnotation] == claim.Spec.Value
		}
	}
	return c, nil
}

// matters reports whether the change creates, deletes or changes the value of a
// well-known claim.
func (c change) matters() bool {
	if c.name != multicluster.ClusterIDClaim && c.name != multicluster.ClusterSetClaim {
		return false
	}
	return c.before == nil || c.after == nil || *c.before != *c.after
}

// leavesClusterSet reports whether the change deletes the ClusterSet claim.
func (c change) leavesClusterSet() bool {
	return c.name == multicluster.ClusterSetClaim && c.after == nil
}

// replacesUsedID reports whether the change replaces a cluster ID that was chosen, or
// that a ClusterSet has used.
func (c change) replacesUsedID() bool {
	return c.name == multicluster.ClusterIDClaim && c.before != nil && !c.generated
}

// forbidden returns why the change is refused for every user and whatever the other
// claims are.
func (c change) forbidden() error {
	switch {
	case c.name == multicluster.ClusterIDClaim && c.after == nil:
		return errors.New("the cluster ID cannot be deleted; " +
			"to rename the cluster, change the value of the claim while the cluster is not in a ClusterSet")
	case c.name == multicluster.ClusterSetClaim && c.before != nil && c.after != nil:
		return fmt.Errorf("a cluster cannot move from ClusterSet %q to %q in one step; delete this claim to leave, then create it again",
			*c.before, *c.after)
	}
	return nil
}

// evaluate checks the change against the current claims. It returns the cluster ID
// that has to be unique in the ClusterSet, nil if the change does not join one.
func (c change) evaluate(current claims) (*joining, error) {
	switch c.name {
	case multicluster.ClusterIDClaim:
		switch {
		case current.clusterSet == nil:
			return nil, nil
		case c.before != nil:
			return nil, fmt.Errorf("the cluster ID cannot change from %q to %q while this cluster is in ClusterSet %q; "+
				"delete the claim %s to leave, change the ID, then join again",
				*c.before, *c.after, *current.clusterSet, multicluster.ClusterSetClaim)
		}
		return &joining{*c.after, *current.clusterSet, c.name, c.force}, nil
	case multicluster.ClusterSetClaim:
		if current.id == nil {
			return nil, fmt.Errorf("this cluster has no ID; create the ClusterClaim %s first, with a value that no other cluster of %q has",
				multicluster.ClusterIDClaim, *c.after)
		}
		return &joining{*current.id, *c.after, c.name, c.force}, nil
	}
	return nil, nil
}

// unique returns an error if another cluster of the ClusterSet has the ID, or if not
// every member could be asked. self is the UID of this cluster.
func (j joining) unique(self types.UID, answers []survey.Answer) error {
	var unreachable []string
	for _, answer := range answers {
		if answer.Problem != "" {
			unreachable = append(unreachable, fmt.Sprintf("%q (Secret %s): %s", answer.Name, answer.Secret, answer.Problem))
			continue
		}
		if holder, ok := j.heldBy(self, answer); ok {
			return fmt.Errorf("cluster ID %q is already used in ClusterSet %q by %s; %s", j.id, j.clusterSet, holder, j.remedy())
		}
	}
	if len(unreachable) == 0 || j.force {
		return nil
	}
	slices.Sort(unreachable)
	return fmt.Errorf("failed to check whether another member has the cluster ID %q: %s. "+
		"Try again when all members are reachable, delete the Secrets of clusters that no longer exist, or, if the ID is known to be unused, "+
		"set the annotation %s=true on the claim %s", j.id, strings.Join(unreachable, "; "),
		multicluster.IgnoreUnreachableMembersAnnotation, j.claim)
}

// remedy returns how to choose another ID.
func (j joining) remedy() string {
	if j.claim == multicluster.ClusterIDClaim {
		return fmt.Sprintf("create the claim %s with another value", j.claim)
	}
	const suffix = "-2"
	another := j.id[:min(len(j.id), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
	return fmt.Sprintf("choose another ID, for example with: kubectl patch clusterclaim %s --type=merge -p '{\"spec\":{\"value\":\"%s\"}}'",
		multicluster.ClusterIDClaim, another)
}

// heldBy returns another cluster with the ID among the members of a member, if that
// member is in the ClusterSet itself.
func (j joining) heldBy(self types.UID, answer survey.Answer) (string, bool) {
	reporter := ""
	for _, entry := range answer.Members {
		if status := &entry.Status; status.State == clusterset.MemberLocal && status.ClusterSet == j.clusterSet {
			reporter = status.ClusterID
		}
	}
	if reporter == "" {
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
		case clusterset.MemberConnected, clusterset.MemberUnavailable, clusterset.MemberStale, clusterset.MemberLost:
			return fmt.Sprintf("a member of %q (UID %s, %s)", reporter, status.ClusterUID, status.State), true
		case "": // the reporter shows the state of its members to itself only
			return fmt.Sprintf("a member of %q (UID %s)", reporter, status.ClusterUID), true
		}
	}
	return "", false
}
