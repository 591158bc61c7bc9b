// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

// clearAway undoes what a command that was killed left half done, before anything is checked or
// asked: clients wait until changes are allowed again, and mcs-controller must not register what
// is not copied.
func (o *options) clearAway(ctx context.Context, sites []*site) error {
	for _, s := range sites {
		leftovers, err := s.leftovers(ctx, o.back)
		if err != nil {
			return s.WrapError(err, advice)
		}
		for _, leftover := range leftovers {
			if o.dryRun {
				fmt.Fprintf(o.Streams.Out, "%s: a command that was interrupted left something behind: without --dry-run, %s\n", s.Context, leftover.description)
				continue
			}
			if err := o.Progress.Run(s.Context+": "+leftover.description, func() error { return leftover.do(ctx) }); err != nil {
				return err
			}
		}
		if err := s.observeCRDs(ctx); err != nil {
			return s.WrapError(err, advice)
		}
	}
	return nil
}

// leftovers returns the steps that undo what a killed command left half done.
func (s *site) leftovers(ctx context.Context, back bool) ([]step, error) {
	var steps []step
	for _, gv := range s.held {
		item, err := s.apiService(ctx, gv)
		if err != nil {
			return nil, err
		}
		if abandoned(item) {
			steps = append(steps, step{s, "let CRDs keep " + gv.String(), s.keepCRDs})
		}
	}
	if side, err := s.hasSideVersion(ctx); err != nil {
		return nil, err
	} else if side {
		steps = append(steps, step{s, fmt.Sprintf("remove version %q of the CRDs", sideVersion), s.removeSideVersion})
	}
	// Changes that were allowed now would be lost if only a part of the API was returned.
	if s.frozen && (!back || !s.halfReturned()) {
		steps = append(steps, step{s, "allow changes again", s.unfreeze})
	}
	return steps, nil
}

// halfReturned reports whether only some of the group-versions that CRDs serve were returned.
func (s *site) halfReturned() bool {
	return s.phase() == crdmigration.Returning && len(s.held) > 0 && slices.ContainsFunc(s.ours, s.servesAny)
}

// hasSideVersion reports whether the version for returning objects is left.
func (s *site) hasSideVersion(ctx context.Context) (bool, error) {
	for _, crd := range s.crds {
		for _, version := range versionsOf(crd) {
			if version["name"] == sideVersion {
				return true, nil
			}
		}
	}
	item, err := s.apiService(ctx, sideGroupVersion)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	return item.Labels[apiconflict.AutomanagedLabel] == "", nil
}
