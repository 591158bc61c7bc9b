// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	// sideVersion is a version of CRDs that exists for a moment: the kube-apiserver serves it
	// while mcs-apiserver serves all others, so that objects can be written before clients see
	// them.
	sideVersion = "migration"
	// returnMargin is for other kube-apiservers to notice that an APIService was returned.
	returnMargin = 2 * time.Second
)

const backConsequences = `Meanwhile, ServiceExports, ClusterProfiles and PlacementDecisions cannot be changed for a
moment. Afterwards:
  - The CRDs serve the API, with the objects that mcs-apiserver has now. Objects that the CRDs
    never had get a new age and UID; objects that were deleted are deleted. ServiceImports that
    the CRDs lack are created; all of them are up to the other implementation.
  - The admission policies of mcs-apiserver keep the controllers of the other implementation
    from writing Services and EndpointSlices of the API: uninstall mcs-apiserver, or delete
    validatingadmissionpolicybinding materialized.mcs-apiserver.io, before you start them.
  - mcs-apiserver keeps what it stores, and exports it to the ClusterSet, until the cluster
    leaves or mcs-apiserver is uninstalled.
`

// goBack returns the group-versions of all clusters to CRDs.
func (o *options) goBack(ctx context.Context, sites []*site) (err error) {
	defer func() { // what clearAway left
		for _, s := range sites {
			if !o.dryRun {
				err = errors.Join(err, s.thaw(ctx))
			}
		}
	}()
	var steps []step
	for _, s := range sites {
		returning, err := s.returnable()
		if err == nil {
			err = s.checkHidden(ctx, returning)
		}
		switch {
		case err != nil:
			return fmt.Errorf("nothing was changed: %w", err)
		case len(returning) > 0:
			steps = append(steps, step{s, fmt.Sprintf("refuse changes, write the objects of the CRDs, return %s, end watches of clients, and allow changes again", names(returning)),
				func(ctx context.Context) error { return s.returnAll(ctx, returning) }})
		case s.phase() == crdmigration.Returning: // interrupted before
			steps = append(steps, step{s, "end watches of clients", s.completeReturn})
		case s.copying():
			steps = append(steps, step{s, "stop copying", s.stopCopying})
		}
	}
	if len(steps) == 0 {
		fmt.Fprintln(o.Streams.Out, "CRDs serve the API in all clusters: there is nothing to return.")
		return nil
	}
	if did, err := o.carryOut(ctx, steps, backConsequences, "Return to the CRDs?"); !did || err != nil {
		return err
	}
	fmt.Fprintln(o.Streams.Out, "CRDs serve the API in all clusters. Run migrate again to move to mcs-apiserver.")
	return nil
}

// returnable returns the group-versions that are returned: those that CRDs serve as soon as
// mcs-apiserver does not. The others stay.
func (s *site) returnable() ([]schema.GroupVersion, error) {
	returning := slices.DeleteFunc(slices.Clone(s.ours), func(gv schema.GroupVersion) bool { return !s.servesAny(gv) })
	if len(returning) == 0 && len(s.held) == 0 {
		return nil, fmt.Errorf("context %q: no CRD serves %s: apply the CRDs of the other implementation first", s.Context, names(crdmigration.GroupVersions))
	}
	if len(returning) == 0 {
		return nil, nil
	}
	for name, crd := range s.crds {
		if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			return nil, fmt.Errorf("context %q: CRD %s.%s has a conversion webhook, which does not know the version %q in which objects are written: "+
				"set spec.conversion.strategy to None for the time being", s.Context, name, multicluster.XGroupName, sideVersion)
		}
	}
	return returning, nil
}

// checkHidden returns an error if mcs-apiserver has objects that no CRD would serve in any
// version: they would be hidden, because CRDs serve the rest of their group-version.
func (s *site) checkHidden(ctx context.Context, returning []schema.GroupVersion) error {
	for _, gv := range returning {
		for _, resource := range resources() {
			if !slices.Contains(resource.Versions, gv.Version) {
				continue
			}
			if _, served := s.servedBy(resource, slices.Concat(returning, s.held)); served {
				continue
			}
			objects, err := s.list(ctx, gv.WithResource(resource.Plural))
			if err != nil {
				return s.WrapError(err, advice)
			}
			if objects = slices.DeleteFunc(objects, crdmigration.OfMember); len(objects) > 0 {
				return fmt.Errorf("context %q: %s %s/%s and %d others would be hidden, because no CRD that is established serves %s: "+
					"apply CRD %s first, wait until it is established, or delete the objects",
					s.Context, resource.Kind, objects[0].GetNamespace(), objects[0].GetName(), len(objects)-1, resource.Plural, resource.CRD())
			}
		}
	}
	return nil
}

// servesAny reports whether any CRD serves a group-version.
func (s *site) servesAny(gv schema.GroupVersion) bool {
	for _, crd := range s.crds {
		for _, version := range versionsOf(crd) {
			if version["name"] == gv.Version && version["served"] == true {
				return true
			}
		}
	}
	return false
}

// returnAll returns the group-versions of one cluster. The mark says so before any is returned,
// so that the command can be repeated after it was killed at any step.
func (s *site) returnAll(ctx context.Context, returning []schema.GroupVersion) (err error) {
	defer func() {
		undo := errors.Join(s.removeSideVersion(ctx), s.thaw(ctx))
		if undo != nil || err != nil {
			err = errors.Join(err, undo, s.standing(ctx))
		}
	}()
	for _, do := range []func(context.Context) error{
		s.freeze, s.startReturn, s.addSideVersion, s.writeBack, s.recordReturn, s.removeSideVersion,
		func(ctx context.Context) error { return s.handBack(ctx, returning) },
		s.completeReturn,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startReturn ends copying.
func (s *site) startReturn(ctx context.Context) error {
	if err := s.removeAccount(ctx); err != nil {
		return s.WrapError(err, advice)
	}
	return s.changeMark(ctx, func(mark *corev1.ConfigMap) error {
		crdmigration.SetPhase(mark, crdmigration.Returning)
		return nil
	})
}

// recordReturn records which objects CRDs have now: all that mcs-apiserver has.
func (s *site) recordReturn(ctx context.Context) error {
	now, err := s.serverTime(ctx)
	if err != nil {
		return s.WrapError(err, advice)
	}
	var plurals []string
	for _, resource := range crdmigration.Copied {
		if s.isWritten(resource) {
			plurals = append(plurals, resource.Plural)
		}
	}
	return s.changeMark(ctx, func(mark *corev1.ConfigMap) error { return crdmigration.SetReturned(mark, plurals, now) })
}

// completeReturn ends the watches of clients that still read from mcs-apiserver.
func (s *site) completeReturn(ctx context.Context) error {
	return s.changeMark(ctx, func(mark *corev1.ConfigMap) error {
		crdmigration.SetPhase(mark, crdmigration.Returned)
		return nil
	})
}

// serverTime returns the time of the kube-apiserver, with which those of objects are compared.
func (s *site) serverTime(ctx context.Context) (time.Time, error) {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: probeName + "-"}}
	created, err := s.Kubernetes.CoreV1().ConfigMaps(s.namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return time.Time{}, err
	}
	return created.CreationTimestamp.Time, nil
}

// handBack returns APIServices in place to what the kube-apiserver registers for CRDs, so that
// there is no moment without. An interruption does not end it between two of them: clients would
// write to both sides.
func (s *site) handBack(ctx context.Context, groupVersions []schema.GroupVersion) error {
	uninterrupted, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, gv := range groupVersions {
		err := retryOnConflict(uninterrupted, func(ctx context.Context) error {
			item, err := s.apiService(ctx, gv)
			if err != nil {
				return err
			}
			_, err = s.aggregator.ApiregistrationV1().APIServices().Update(ctx, returned(item), metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return s.WrapError(err, advice)
		}
	}
	return s.await(ctx, handOverTimeout, "the kube-apiserver does not serve "+names(groupVersions), func(ctx context.Context) error {
		if err := s.observeAPIServices(ctx); err != nil {
			return err
		}
		for _, gv := range groupVersions {
			if !slices.Contains(s.held, gv) {
				return fmt.Errorf("mcs-apiserver still serves %s", gv)
			}
		}
		return sleep(ctx, returnMargin)
	})
}

// returned returns the APIService that the kube-apiserver registers for CRDs.
func returned(item *apiregistrationv1.APIService) *apiregistrationv1.APIService {
	item = item.DeepCopy()
	item.Labels = map[string]string{apiconflict.AutomanagedLabel: "true"}
	item.OwnerReferences = nil
	item.Spec = apiregistrationv1.APIServiceSpec{Group: item.Spec.Group, Version: item.Spec.Version, GroupPriorityMinimum: 1000, VersionPriority: 100}
	return item
}
