// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

var sideGroupVersion = schema.GroupVersion{Group: multicluster.XGroupName, Version: sideVersion}

// sideAPIService returns the APIService of the version. The kube-apiserver would create one with
// the highest priority, so that clients would prefer the version.
func sideAPIService() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiconflict.APIServiceName(sideGroupVersion), Labels: labels},
		Spec:       apiregistrationv1.APIServiceSpec{Group: sideGroupVersion.Group, Version: sideGroupVersion.Version, GroupPriorityMinimum: 1000, VersionPriority: 1},
	}
}

// addSideVersion adds the version to all CRDs, and waits until it is served.
func (s *site) addSideVersion(ctx context.Context) error {
	if _, err := s.aggregator.ApiregistrationV1().APIServices().Create(ctx, sideAPIService(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return s.WrapError(err, advice)
	}
	for _, crd := range s.crds {
		if err := s.changeCRD(ctx, crd.GetName(), addVersion); err != nil {
			return s.WrapError(err, advice)
		}
	}
	return s.await(ctx, handOverTimeout, "the CRDs cannot be written", func(ctx context.Context) error {
		for plural := range s.crds {
			if _, err := s.list(ctx, sideGroupVersion.WithResource(plural)); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeSideVersion removes the version from all CRDs, also if the command was interrupted.
func (s *site) removeSideVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, crd := range s.crds {
		if err := s.changeCRD(ctx, crd.GetName(), removeVersion); err != nil {
			errs = append(errs, fmt.Errorf("%w\nremove version %q from CRD %s", s.WrapError(err, advice), sideVersion, crd.GetName()))
		}
	}
	name := apiconflict.APIServiceName(sideGroupVersion)
	if err := ignoreNotFound(s.aggregator.ApiregistrationV1().APIServices().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		errs = append(errs, fmt.Errorf("%w\ndelete APIService %s", s.WrapError(err, advice), name))
	}
	return errors.Join(errs...)
}

func versionsOf(crd *unstructured.Unstructured) []map[string]any {
	var versions []map[string]any
	items, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range items {
		if version, ok := item.(map[string]any); ok {
			versions = append(versions, version)
		}
	}
	return versions
}

func setVersions(crd *unstructured.Unstructured, versions []map[string]any) error {
	items := make([]any, len(versions))
	for i := range versions {
		items[i] = versions[i]
	}
	return unstructured.SetNestedSlice(crd.Object, items, "spec", "versions")
}

// addVersion adds a copy of the version in which a CRD stores objects.
func addVersion(crd *unstructured.Unstructured) error {
	versions := versionsOf(crd)
	if slices.ContainsFunc(versions, func(version map[string]any) bool { return version["name"] == sideVersion }) {
		return nil
	}
	for _, version := range versionsOf(crd) {
		if version["storage"] == true {
			version["name"], version["served"], version["storage"] = sideVersion, true, false
			return setVersions(crd, append(versions, version))
		}
	}
	return fmt.Errorf("CRD %s has no version in which objects are stored", crd.GetName())
}

func removeVersion(crd *unstructured.Unstructured) error {
	return setVersions(crd, slices.DeleteFunc(versionsOf(crd), func(version map[string]any) bool { return version["name"] == sideVersion }))
}
