// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership finds out how clusters are members of each other, and changes it.
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

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// undoing is how long undoing one step may take, also after an interrupt.
const undoing = 30 * time.Second

// Execution carries out a plan and remembers how to undo it.
type Execution struct {
	sites    map[string]*Cluster
	progress *progress.Progress
	Timeout  time.Duration
	// Force lets clusters join although not every member can be asked.
	Force bool
	done  []deed
	// kept is what was done that cannot be undone.
	kept []plan.Step
}

// deed is what one step has done.
type deed struct {
	step  plan.Step
	undos []undo
}

// NewExecution prepares to carry out a plan for these clusters.
func NewExecution(sites []*Cluster, progress *progress.Progress) *Execution {
	e := &Execution{sites: map[string]*Cluster{}, progress: progress}
	for _, site := range sites {
		e.sites[site.Context] = site
	}
	return e
}

// Run carries out the steps in order, up to the first that fails.
func (e *Execution) Run(ctx context.Context, steps []plan.Step) error {
	for _, step := range steps {
		err := e.progress.Run(step.Context+": "+step.String(), func() error {
			undos, err := e.do(ctx, step)
			if len(undos) > 0 {
				e.done = append(e.done, deed{step, undos})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("context %s could not %s: %w", step.Context, step, err)
		}
	}
	return nil
}

// Undo takes back everything that was done, the last first. What cannot be taken
// back is in the error. A cluster that does not answer is not asked again, so that
// it delays by no more than one step what can be taken back in the others.
func (e *Execution) Undo(ctx context.Context) error {
	silent := sets.New[string]()
	var errs []error
	for _, deed := range slices.Backward(e.done) {
		at := deed.step.Context
		err := e.progress.Run("undo "+at+": "+deed.step.String(), func() error {
			if silent.Has(at) {
				return errors.New("not undone, since the cluster does not answer")
			}
			answered, err := deed.undo(ctx)
			if !answered {
				silent.Insert(at)
			}
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", at, deed.step, err))
		}
	}
	return errors.Join(errs...)
}

// undo takes back what one step has done, the last first, and says whether the
// cluster has answered to all of it.
func (d deed) undo(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	answered = true
	var failed []error
	for _, undo := range slices.Backward(d.undos) {
		err := undo(ctx)
		var status apierrors.APIStatus
		answered = answered && (err == nil || errors.As(err, &status))
		failed = append(failed, err)
	}
	return answered, errors.Join(failed...)
}

// TakeBack undoes what was done before an error, and adds to the error what has
// become of it.
func (e *Execution) TakeBack(ctx context.Context, err error) error {
	if failed := e.Undo(ctx); failed != nil {
		return fmt.Errorf("%w\nnot everything could be undone; repeat join when the cause is gone, or clean up with `kubectl mcs leave`:\n%w", err, failed)
	}
	if len(e.kept) == 0 {
		return fmt.Errorf("%w\neverything that was done has been undone", err)
	}
	var kept []string
	for _, step := range e.kept {
		kept = append(kept, fmt.Sprintf("%q of %s", step.Value, step.Context))
	}
	return fmt.Errorf("%w\neverything that was done has been undone, but for first ids, which cannot be removed once they are claimed: %s", err, strings.Join(kept, ", "))
}

// do carries out one step. What it returns takes back what it has done, also if
// it failed halfway.
func (e *Execution) do(ctx context.Context, step plan.Step) ([]undo, error) {
	at := e.sites[step.Context]
	switch step.Action {
	case plan.SetID:
		undos, err := at.claim(ctx, multicluster.ClusterIDClaim, step.Value, nil)
		if at.Found.ID == "" && len(undos) == 0 && (err == nil || uncertain(err)) {
			e.kept = append(e.kept, step)
		}
		if err == nil {
			at.Found.ID = step.Value // the steps that follow are about it
		}
		return undos, err
	case plan.AssignIPs:
		return at.claim(ctx, multicluster.ClusterSetIPCIDRClaim, step.Value, nil)
	case plan.Claim:
		var annotations map[string]string
		if e.Force {
			annotations = map[string]string{multicluster.IgnoreUnreachableMembersAnnotation: "true"}
		}
		return at.claim(ctx, multicluster.ClusterSetClaim, step.Value, annotations)
	case plan.Unclaim:
		return nil, remove(ctx, at.MCS.MulticlusterV1().ClusterClaims(), multicluster.ClusterSetClaim)
	case plan.Await:
		return nil, at.await(ctx, step.Peers, e.Timeout)
	}
	var undos []undo
	for _, peer := range step.Peers {
		more, err := e.doForPeer(ctx, at, step.Action, peer)
		undos = append(undos, more...)
		if err != nil {
			return undos, fmt.Errorf("%s: %w", peer, err)
		}
	}
	return undos, nil
}

func (e *Execution) doForPeer(ctx context.Context, at *Cluster, action plan.Action, peer string) ([]undo, error) {
	switch action {
	case plan.Admit:
		return at.admit(ctx, peer)
	case plan.AddMembers:
		for _, other := range e.sites {
			if other.Found.ID == peer {
				back, err := at.addMember(ctx, other, peer, at.Found.ID)
				return back.list(), err
			}
		}
		return nil, errors.New("no context leads to it")
	case plan.RemoveMembers:
		return nil, at.removeMember(ctx, peer)
	case plan.Expel:
		return nil, at.expel(ctx, peer)
	}
	return nil, fmt.Errorf("unknown step %q", action)
}

// claim makes the cluster claim a value, in place of what it claimed before.
func (s *Cluster) claim(ctx context.Context, name, value string, annotations map[string]string) ([]undo, error) {
	claims := s.MCS.MulticlusterV1().ClusterClaims()
	existing, err := claims.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		back, err := create(ctx, claims, &multiclusterv1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: multiclusterv1.ClusterClaimSpec{Value: value},
		})
		if name == multicluster.ClusterIDClaim { // it cannot be removed, and does no harm
			return nil, err
		}
		return back.list(), err
	case err != nil:
		return nil, err
	case existing.Spec.Value == value:
		return nil, nil
	}
	before := existing.Spec.Value
	existing.Spec.Value = value
	if _, err = claims.Update(ctx, existing, metav1.UpdateOptions{}); err != nil && !uncertain(err) {
		return nil, err
	}
	return []undo{func(ctx context.Context) error {
		_, err := s.claim(ctx, name, before, nil)
		return err
	}}, err
}
