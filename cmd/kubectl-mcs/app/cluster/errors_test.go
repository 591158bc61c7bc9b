// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

// R328: only a lack of permission is explained as one.
func TestRefusalsAreExplainedByTheirCause(t *testing.T) {
	exports := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "serviceexports"}
	refused := func(resource schema.GroupResource, message string) error {
		return apierrors.NewForbidden(resource, "web", errors.New(message))
	}
	const permission, none = "permission denied: ask for a role", ""
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"RBAC":              {refused(exports, `User "jane" cannot create resource "serviceexports" in API group "multicluster.x-k8s.io" in the namespace "shop"`), permission},
		"RBAC, of a role":   {refused(schema.GroupResource{Resource: "roles"}, `user "jane" (groups=["a"]) is attempting to grant RBAC permissions not currently held:`), permission},
		"no explanation":    {apierrors.NewForbidden(exports, "web", nil), permission},
		"quota":             {refused(exports, "exceeded quota: exports, requested: count/serviceexports.multicluster.x-k8s.io=1, used: 20, limited: 20"), "quota exceeded: delete ServiceExports or ask for a larger ResourceQuota ("},
		"quota of others":   {refused(schema.GroupResource{Resource: "secrets"}, "exceeded quota: all, requested: secrets=1, used: 20, limited: 20"), "quota exceeded: delete objects of this kind or ask for a larger ResourceQuota ("},
		"required quota":    {refused(exports, "insufficient quota to consume: count/serviceexports.multicluster.x-k8s.io"), "quota required: ask for a ResourceQuota for ServiceExports in the namespace ("},
		"policy":            {refused(exports, "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: not on Fridays"), none},
		"ending namespace":  {refused(exports, "unable to create new content in namespace shop because it is being terminated"), none},
		"webhook":           {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "team" denied the request: not on Fridays`}}, none},
		"name like a cause": {apierrors.NewForbidden(exports, "exceeded quota: ", errors.New(`User "jane" cannot create`)), permission},
	} {
		got := cluster.Diagnose("east", test.err, cluster.MCSUserAdvice).Error()
		if !strings.HasPrefix(got, test.want) || !strings.Contains(got, test.err.Error()) || test.want == none && got != test.err.Error() {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
