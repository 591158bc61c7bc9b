// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	// freezeName is the name of the policy that refuses changes, and of its binding.
	freezeName = "crd-migration.mcs-apiserver.io"
	// guardName is the name of the policy that refuses changes of copies, and of its binding.
	guardName = "crd-copies.mcs-apiserver.io"
	// freezeTimeout is how long a policy may take to be effective.
	freezeTimeout = time.Minute
	// freezeMargin is for other kube-apiservers and replicas, which cannot be asked one by one.
	freezeMargin = 2 * time.Second
	// freezeProbes is how many requests in a row have to be refused.
	freezeProbes = 5
	probeName    = "mcs-migrate-probe"
)

const freezeMessage = "cannot be changed while its API moves between implementations, which takes less than a minute: retry in a minute"

const guardMessage = "is a copy of an object of a CustomResourceDefinition, which is being migrated: change that object, in the version that the CustomResourceDefinition serves"

// newFreeze returns the policy that refuses changes of the copied resources, by the
// kube-apiserver and by mcs-apiserver, which both evaluate it. It holds for the versions that
// clients use, so that objects can be written in another one.
func newFreeze(namespace string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	// mcs-controller copies objects as one account, and shows members as the other.
	return newPolicy(freezeName, freezeMessage, copiers(namespace), admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete)
}

// newGuard returns the policy that refuses changes of copies while mcs-controller would undo
// them. It refuses no objects of CRDs, because these have no such annotation. Objects are
// deleted with their namespaces and owners.
func newGuard(namespace string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	exempt := append(copiers(namespace), "system:serviceaccount:kube-system:namespace-controller", "system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager", "system:apiserver")
	policy, binding := newPolicy(guardName, guardMessage, exempt, admissionregistrationv1.Update, admissionregistrationv1.Delete)
	policy.Spec.MatchConditions = append(policy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{
		Name: "copy", Expression: fmt.Sprintf("oldObject != null && '%s' in oldObject.metadata.?annotations.orValue({})", multicluster.MigratedFromAnnotation),
	})
	return policy, binding
}

func copiers(namespace string) []string {
	return []string{"system:serviceaccount:" + namespace + ":" + crdmigration.Account, "system:serviceaccount:" + namespace + ":" + service}
}

// newPolicy returns a policy that refuses operations on the copied resources to all but some
// users.
func newPolicy(name, message string, exempt []string, operations ...admissionregistrationv1.OperationType) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	var plurals []string
	for _, resource := range crdmigration.Copied {
		plurals = append(plurals, resource.Plural)
		if resource.Status {
			plurals = append(plurals, resource.Plural+"/status")
		}
	}
	var versions []string
	for _, gv := range crdmigration.GroupVersions {
		versions = append(versions, gv.Version)
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy: ptr.To(admissionregistrationv1.Exact),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: operations,
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{multicluster.XGroupName, multicluster.GroupName}, APIVersions: versions, Resources: plurals},
				}}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "not-exempt", Expression: "!(request.userInfo.username in ['" + strings.Join(exempt, "', '") + "'])",
			}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "false", MessageExpression: "request.resource.resource + ' ' + '" + message + "'", Message: message, Reason: ptr.To(metav1.StatusReasonForbidden),
			}},
		},
	}
	return policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// createPolicy creates a policy and its binding, unless they exist.
func (s *site) createPolicy(ctx context.Context, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) error {
	api := s.Kubernetes.AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return s.WrapError(err, advice)
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return s.WrapError(err, advice)
	}
	return nil
}

// deletePolicy deletes a policy and its binding.
func (s *site) deletePolicy(ctx context.Context, name string) error {
	api := s.Kubernetes.AdmissionregistrationV1()
	err := errors.Join(
		ignoreNotFound(api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})),
		ignoreNotFound(api.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})),
	)
	if err != nil {
		return fmt.Errorf("%w\nchanges are still refused: run `kubectl --context %s delete validatingadmissionpolicybinding,validatingadmissionpolicy %s`", s.WrapError(err, advice), s.Context, name)
	}
	return nil
}

// guard refuses changes of copies, and unguard allows them again.
func (s *site) guard(ctx context.Context) error {
	policy, binding := newGuard(s.namespace)
	return s.createPolicy(ctx, policy, binding)
}

func (s *site) unguard(ctx context.Context) error { return s.deletePolicy(ctx, guardName) }

func (s *site) observeFreeze(ctx context.Context) error {
	_, err := s.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, freezeName, metav1.GetOptions{})
	s.frozen = err == nil
	if apierrors.IsNotFound(err) && !cluster.IsObjectNotFound(err) {
		return errors.New("the cluster does not serve ValidatingAdmissionPolicies, by which changes are refused for a moment: migrate requires Kubernetes 1.30 or later")
	}
	return ignoreNotFound(err)
}

// freeze refuses changes, and waits until the servers of all group-versions do.
func (s *site) freeze(ctx context.Context) error {
	policy, binding := newFreeze(s.namespace)
	s.frozen = true
	if err := s.createPolicy(ctx, policy, binding); err != nil {
		return err
	}
	if err := s.awaitProbes(ctx, "changes are not refused", true); err != nil {
		return err
	}
	if err := s.unguard(ctx); err != nil { // this policy says when to retry
		return err
	}
	return sleep(ctx, freezeMargin)
}

// awaitProbes waits until changes are refused, or allowed, several times in a row.
func (s *site) awaitProbes(ctx context.Context, what string, refused bool) error {
	return s.await(ctx, freezeTimeout, what, func(ctx context.Context) error {
		for range freezeProbes {
			for _, gvr := range s.probed() {
				switch is, err := s.isFrozen(ctx, gvr); {
				case apierrors.IsNotFound(err) && !refused: // it is not served
				case err != nil:
					return err
				case is != refused:
					return fmt.Errorf("changes of %s are refused: %t", gvr.GroupResource(), is)
				}
			}
		}
		return nil
	})
}

// probed are resources whose servers evaluate the policy: mcs-apiserver, and the
// kube-apiserver if it serves any of them.
func (s *site) probed() []schema.GroupVersionResource {
	probed := []schema.GroupVersionResource{multiclusterv1alpha1.SchemeGroupVersion.WithResource(crdmigration.Exports.Plural)}
	for _, resource := range crdmigration.Copied {
		if gvr, served := s.servedBy(resource, s.held); served {
			return append(probed, gvr)
		}
	}
	return probed
}

// isFrozen reports whether creating an object is refused by the policy.
func (s *site) isFrozen(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterManager": map[string]any{"name": probeName}}}}
	object.SetAPIVersion(gvr.GroupVersion().String())
	for _, resource := range crdmigration.Copied {
		if resource.Plural == gvr.Resource {
			object.SetKind(resource.Kind)
		}
	}
	if gvr.Resource != "clusterprofiles" {
		delete(object.Object, "spec")
	}
	if gvr.Resource == "placementdecisions" {
		object.Object["decisions"] = []any{}
	}
	object.SetName(probeName)
	_, err := s.objects.Resource(gvr).Namespace(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), freezeMessage) {
		return true, nil
	}
	return false, err
}

// unfreeze allows changes again, and waits until they are. Those of copies are still refused if
// CRDs keep serving the objects.
func (s *site) unfreeze(ctx context.Context) error {
	if s.copying() && len(s.held) > 0 {
		if err := s.guard(ctx); err != nil {
			return err
		}
	}
	if err := s.deletePolicy(ctx, freezeName); err != nil {
		return err
	}
	s.frozen = false
	return s.awaitProbes(ctx, "changes are still refused", false)
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
