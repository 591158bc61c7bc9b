// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// rollbackTimeout limits how long the rollback of one step may take, also after
// an interrupt.
const rollbackTimeout = 30 * time.Second

// Execution carries out the steps of a plan and can roll them back.
type Execution struct {
	// Timeout limits how long a step waits for clusters to connect, and how long all
	// steps together wait until decisions are given up.
	Timeout time.Duration
	// IgnoreUnreachableMembers lets clusters join although not every member can be
	// asked whether a cluster ID is in use.
	IgnoreUnreachableMembers bool
	// Invitation is accepted by the step that adds the inviting cluster as a member. To be
	// connected to it, that need not list this cluster yet.
	Invitation *plan.Invitation

	clusters map[string]*Cluster
	progress *progress.Progress
	// claiming are when clusters were asked to create the claim for the ClusterSet,
	// by context.
	claiming map[string]time.Time
	// waitingSince is when the first step began to wait for decisions.
	waitingSince time.Time
	completed    []completedStep
	// irreversible are the completed steps that cannot be rolled back.
	irreversible []plan.Step
}

// rollback reverts a change. A nil rollback stands for no change.
type rollback func(context.Context) error

// list returns the rollbacks of a step with at most one change.
func (r rollback) list() []rollback {
	if r == nil {
		return nil
	}
	return []rollback{r}
}

// completedStep is a step with the rollbacks of all its changes.
type completedStep struct {
	step      plan.Step
	rollbacks []rollback
}

// NewExecution returns an execution for plans about these clusters.
func NewExecution(clusters []*Cluster, progress *progress.Progress) *Execution {
	e := &Execution{clusters: map[string]*Cluster{}, progress: progress, claiming: map[string]time.Time{}}
	for _, c := range clusters {
		e.clusters[c.Context] = c
	}
	return e
}

// Run carries out the steps in order and stops at the first that fails.
func (e *Execution) Run(ctx context.Context, steps []plan.Step) error {
	for _, step := range steps {
		if err := e.run(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// RunAll carries out all steps in order, also after one has failed, unless it is
// interrupted. In a cluster in which a step failed, it does not wait for anything.
func (e *Execution) RunAll(ctx context.Context, steps []plan.Step) error {
	failed := sets.New[string]()
	var errs []error
	for _, step := range steps {
		if ctx.Err() != nil {
			break
		}
		if step.Action == plan.WaitForDecisions && failed.Has(step.Context) {
			continue
		}
		if err := e.run(ctx, step); err != nil {
			failed.Insert(step.Context)
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (e *Execution) run(ctx context.Context, step plan.Step) error {
	err := e.progress.Run(step.Context+": "+step.String(), func() error {
		rollbacks, err := e.do(ctx, step)
		if len(rollbacks) > 0 {
			e.completed = append(e.completed, completedStep{step, rollbacks})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("context %q: failed to %s: %w", step.Context, printer.Escape(step.String()), printer.EscapeError(err))
	}
	return nil
}

// RollBack rolls back all completed steps because of an error, and returns that
// error with the result of the rollback.
func (e *Execution) RollBack(ctx context.Context, cause error) error {
	if err := e.rollBackAll(ctx); err != nil {
		return fmt.Errorf("%w\nsome steps could not be rolled back: fix the cause and repeat the command, or clean up with `kubectl mcs leave`:\n%w", cause, err)
	}
	if len(e.irreversible) == 0 {
		return fmt.Errorf("%w\nall completed steps were rolled back", cause)
	}
	var kept []string
	for _, step := range e.irreversible {
		kept = append(kept, fmt.Sprintf("%q in context %q", step.Value, step.Context))
	}
	return fmt.Errorf("%w\nall completed steps were rolled back, except for new cluster IDs, which cannot be removed: %s", cause, strings.Join(kept, ", "))
}

// rollBackAll rolls back all completed steps in reverse order. The error lists
// the steps that could not be rolled back. A cluster that does not respond is
// skipped from then on, so that it delays the rollback in other clusters by no
// more than the timeout of one step.
func (e *Execution) rollBackAll(ctx context.Context) error {
	unresponsive := sets.New[string]()
	var errs []error
	for _, completed := range slices.Backward(e.completed) {
		name := completed.step.Context
		err := e.progress.Run("roll back "+name+": "+completed.step.String(), func() error {
			if unresponsive.Has(name) {
				return errors.New("skipped because the cluster does not respond")
			}
			responded, err := completed.rollBack(ctx)
			if !responded {
				unresponsive.Insert(name)
			}
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", name, printer.Escape(completed.step.String()), err))
		}
	}
	return errors.Join(errs...)
}

// rollBack rolls back the changes of one step in reverse order. It reports
// whether the cluster responded to all requests.
func (s completedStep) rollBack(ctx context.Context) (responded bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	responded = true
	var errs []error
	for _, rollback := range slices.Backward(s.rollbacks) {
		err := rollback(ctx)
		var status apierrors.APIStatus
		responded = responded && (err == nil || errors.As(err, &status))
		errs = append(errs, printer.EscapeError(err))
	}
	return responded, errors.Join(errs...)
}

// do carries out one step and returns the rollbacks of its changes, also if the
// step failed halfway.
func (e *Execution) do(ctx context.Context, step plan.Step) ([]rollback, error) {
	c := e.clusters[step.Context]
	switch step.Action {
	case plan.SetClusterID:
		rollbacks, err := c.claim(ctx, multicluster.ClusterIDClaim, step.Value, nil)
		if c.Observed.ID == "" && len(rollbacks) == 0 && (err == nil || mayHaveSucceeded(err)) {
			e.irreversible = append(e.irreversible, step)
		}
		if err == nil {
			c.Observed.ID = step.Value // later steps use the new ID
		}
		return rollbacks, err
	case plan.AssignCIDRs:
		return c.claim(ctx, multicluster.ClusterSetIPCIDRClaim, step.Value, nil)
	case plan.JoinClusterSet:
		asked, annotations := time.Now(), map[string]string{}
		if e.IgnoreUnreachableMembers {
			annotations[multicluster.IgnoreUnreachableMembersAnnotation] = "true"
		}
		if since, err := time.Parse(time.RFC3339, step.Since); err == nil {
			asked = since
			annotations[multicluster.MigratedFromAnnotation] = multicluster.MigratedFrom{CreationTimestamp: metav1.NewTime(since)}.String()
		}
		rollbacks, err := c.claim(ctx, multicluster.ClusterSetClaim, step.Value, annotations)
		if len(rollbacks) > 0 { // not if another claim was created at the same time
			e.claiming[step.Context] = asked
		}
		return rollbacks, err
	case plan.LeaveClusterSet:
		return nil, deleteIfExists(ctx, c.MCS.MulticlusterV1().ClusterClaims(), multicluster.ClusterSetClaim)
	case plan.RecordCIDRs:
		rollback, err := c.recordInSecret(ctx, step.Peers[0], clusterset.MemberSecretAllocationCIDRs, step.Value)
		return rollback.list(), err
	case plan.AllowRelay:
		rollback, err := c.recordInSecret(ctx, step.Peers[0], clusterset.MemberSecretRelayFor, step.Value)
		return rollback.list(), err
	case plan.AllowCIDRs:
		rollback, err := c.recordInSecret(ctx, step.Peers[0], clusterset.MemberSecretAllowedCIDRs, step.Value)
		return rollback.list(), err
	case plan.RecordJoinTimes:
		if step.Value == "" {
			break // what the peers say
		}
		rollback, err := c.recordInSecret(ctx, step.Peers[0], clusterset.MemberSecretJoinedAt, step.Value)
		return rollback.list(), err
	case plan.WaitForMembers:
		return nil, c.waitForMembers(ctx, step.Peers, e.Timeout, e.Invitation != nil)
	}
	var rollbacks []rollback
	for _, peer := range step.Peers {
		more, err := e.doForPeer(ctx, c, step.Action, peer)
		rollbacks = append(rollbacks, more...)
		if err != nil {
			return rollbacks, fmt.Errorf("%s: %w", peer, err)
		}
	}
	return rollbacks, nil
}

func (e *Execution) doForPeer(ctx context.Context, c *Cluster, action plan.Action, peer string) ([]rollback, error) {
	switch action {
	case plan.GrantAccess:
		return c.grantAccess(ctx, peer)
	case plan.GrantRelay:
		rollback, err := createIfMissing(ctx, c.Kubernetes.RbacV1().ClusterRoleBindings(), plan.NewRelayBinding(c.Namespace, peer))
		return rollback.list(), err
	case plan.AddMembers, plan.RecordJoinTimes:
		if action == plan.AddMembers && e.Invitation != nil && e.Invitation.ID == peer {
			rollback, err := c.applyMember(ctx, e.Invitation.Secret)
			return rollback.list(), err
		}
		for _, other := range e.clusters {
			if other.Observed.ID != peer {
				continue
			}
			if action == plan.AddMembers {
				rollback, err := c.addMember(ctx, other)
				return rollback.list(), err
			}
			at, err := e.JoinTime(ctx, other)
			if err != nil {
				return nil, err
			}
			rollback, err := c.recordInSecret(ctx, peer, clusterset.MemberSecretJoinedAt, at)
			return rollback.list(), err
		}
		return nil, errors.New("no context refers to a cluster with this ID")
	case plan.RemoveMembers:
		return nil, c.removeMember(ctx, peer)
	case plan.ExpelMembers:
		return nil, c.expelMember(ctx, peer)
	case plan.WaitForDecisions:
		if e.waitingSince.IsZero() {
			e.waitingSince = time.Now()
		}
		return nil, c.waitForDecisions(ctx, peer, e.waitingSince, e.Timeout)
	case plan.RevokeAccess:
		return nil, c.revokeAccess(ctx, peer)
	}
	return nil, fmt.Errorf("unknown action %q", action)
}

// claim creates or updates a ClusterClaim.
func (c *Cluster) claim(ctx context.Context, name, value string, annotations map[string]string) ([]rollback, error) {
	claims := c.MCS.MulticlusterV1().ClusterClaims()
	existing, err := claims.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		created := plan.NewClaim(name, value)
		created.Annotations = annotations
		rollback, err := createIfMissing(ctx, claims, created)
		if rollback == nil && err == nil { // mcs-controller has just created it
			return c.claim(ctx, name, value, annotations)
		}
		if name == multicluster.ClusterIDClaim { // the claim cannot be deleted, and does no harm
			return nil, err
		}
		return rollback.list(), err
	case err != nil:
		return nil, err
	case existing.Spec.Value == value:
		return nil, nil
	}
	before := existing.Spec.Value
	existing.Spec.Value = value
	if _, err = claims.Update(ctx, existing, metav1.UpdateOptions{}); err != nil && !mayHaveSucceeded(err) {
		return nil, err
	}
	return []rollback{func(ctx context.Context) error {
		_, err := c.claim(ctx, name, before, nil)
		return err
	}}, err
}
