// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

func definition(versions ...string) *unstructured.Unstructured {
	var items []any
	for i, name := range versions {
		items = append(items, map[string]any{"name": name, "served": true, "storage": i == 0, "schema": map[string]any{"a": "b"}})
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"versions": items, "names": map[string]any{"plural": "serviceexports"}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	crd.SetName("serviceexports.multicluster.x-k8s.io")
	return crd
}

// R478: a CRD has another version for a moment, which never stores objects, and afterwards the
// versions that it had.
func TestSideVersionIsAddedAndRemoved(t *testing.T) {
	crd := definition("v1beta1", "v1alpha1")
	before := fmt.Sprint(crd.Object["spec"])
	for range 2 { // also if the command was interrupted before
		if err := addVersion(crd); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(versionsOf(crd)[2:]), "[map[name:migration schema:map[a:b] served:true storage:false]]"; got != want {
		t.Errorf("added %s, want %s", got, want)
	}
	if version := versionsOf(crd)[0]; version["name"] != "v1beta1" || version["storage"] != true {
		t.Errorf("the version that stores objects is %v", version)
	}
	if err := removeVersion(crd); err != nil || fmt.Sprint(crd.Object["spec"]) != before {
		t.Errorf("%v is left, %v", crd.Object["spec"], err)
	}
}

// R476: every change of the category is one of the spec.
func TestCategoryIsToggled(t *testing.T) {
	crd := definition("v1beta1")
	for _, want := range []string{"migrated", "", "migrated"} {
		before := crd.DeepCopy()
		if err := toggleCategory(crd); err != nil {
			t.Fatal(err)
		}
		categories, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "categories")
		if got := strings.Join(categories, ","); got != want || specsEqual(before, crd) {
			t.Errorf("got categories %q, want %q", got, want)
		}
	}
}

// R478: the APIService is what the kube-apiserver registers for CRDs, so that it changes
// nothing, and nothing of mcs-controller is left in it.
func TestReturnedAPIService(t *testing.T) {
	item := returned(&apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.multicluster.x-k8s.io", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{Name: "mcs-controller"}}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "multicluster.x-k8s.io", Version: "v1beta1", CABundle: []byte("ca"), Service: &apiregistrationv1.ServiceReference{}, GroupPriorityMinimum: 2000},
	})
	if item.Spec.Service != nil || item.Spec.CABundle != nil || len(item.OwnerReferences) > 0 || item.ResourceVersion != "7" ||
		item.Labels[apiconflict.AutomanagedLabel] != "true" || len(item.Labels) != 1 || item.Spec.Group == "" || item.Spec.Version == "" {
		t.Errorf("returned %+v", item)
	}
}

// R477: the policy holds for all copied resources in the versions that clients use, and neither
// for those who copy, nor for the version in which objects are returned.
func TestFreeze(t *testing.T) {
	policy, binding := newFreeze("mcs")
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	for _, resource := range []string{"serviceexports", "clusterprofiles", "clusterprofiles/status", "placementdecisions"} {
		if !slices.Contains(rule.Resources, resource) {
			t.Errorf("%s can be changed", resource)
		}
	}
	if slices.Contains(rule.Resources, "serviceexports/status") || slices.Contains(rule.APIVersions, sideVersion) || *policy.Spec.MatchConstraints.MatchPolicy != "Exact" || binding.Spec.PolicyName != policy.Name {
		t.Errorf("policy %+v", policy.Spec)
	}
	for _, account := range []string{"system:serviceaccount:mcs:mcs-apiserver'", "system:serviceaccount:mcs:" + crdmigration.Account} {
		if !strings.Contains(policy.Spec.MatchConditions[0].Expression, account) {
			t.Errorf("%s cannot write", account)
		}
	}
}

// R473: copies cannot be changed by users while mcs-controller would undo that, but created, and
// deleted with their namespaces.
func TestGuard(t *testing.T) {
	policy, binding := newGuard("mcs")
	if operations := fmt.Sprint(policy.Spec.MatchConstraints.ResourceRules[0].Operations); operations != "[UPDATE DELETE]" || binding.Spec.PolicyName != policy.Name || policy.Name == freezeName {
		t.Errorf("policy %+v", policy.Spec)
	}
	for i, part := range []string{"system:serviceaccount:kube-system:namespace-controller", "'clusterset.mcs-apiserver.io/migrated-from' in oldObject"} {
		if !strings.Contains(policy.Spec.MatchConditions[i].Expression, part) {
			t.Errorf("condition %q lacks %s", policy.Spec.MatchConditions[i].Expression, part)
		}
	}
}

// R478: clients prefer the versions of mcs-apiserver, which have priorities of 10 and more, to the
// one in which objects are returned. The kube-apiserver keeps an APIService without its label.
func TestSideVersionIsNotPreferred(t *testing.T) {
	if item := sideAPIService(); item.Spec.VersionPriority != 1 || item.Spec.Service != nil || item.Labels[apiconflict.AutomanagedLabel] != "" {
		t.Errorf("got %+v", item)
	}
}

// R478: what CRDs do not serve stays with mcs-apiserver.
func TestReturnable(t *testing.T) {
	beta, alpha := crdmigration.GroupVersions[0], crdmigration.GroupVersions[1]
	webhook := definition("v1beta1")
	_ = unstructured.SetNestedField(webhook.Object, "Webhook", "spec", "conversion", "strategy")
	for _, test := range []struct {
		name       string
		crd        *unstructured.Unstructured
		ours, held []schema.GroupVersion
		want       string
		problem    string
	}{
		{name: "both", crd: definition("v1beta1", "v1alpha1"), ours: []schema.GroupVersion{beta, alpha}, want: names([]schema.GroupVersion{beta, alpha})},
		{name: "one", crd: definition("v1beta1"), ours: []schema.GroupVersion{beta, alpha}, want: beta.String()},
		{name: "returned", crd: definition("v1beta1"), ours: []schema.GroupVersion{alpha}, held: []schema.GroupVersion{beta}},
		{name: "no CRD", ours: []schema.GroupVersion{beta, alpha}, problem: "apply the CRDs"},
		{name: "no CRD, and detached", problem: "no CRD serves " + names(crdmigration.GroupVersions) + ": apply the CRDs"},
		{name: "webhook", crd: webhook, ours: []schema.GroupVersion{beta}, problem: "conversion webhook"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(test.crd)
			s.ours, s.held = test.ours, test.held
			got, err := s.returnable()
			if names(got) != test.want || (err != nil) != (test.problem != "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("got %s, %v", names(got), err)
			}
		})
	}
}
