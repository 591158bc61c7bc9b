// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func export(identity string) runtime.Object {
	object := &multicluster.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"x": "y"}}}
	if identity != "" {
		object.Annotations[multicluster.MigratedFromAnnotation] = identity
	}
	return object
}

// R471: only holders of the verb migrate in all namespaces may set the annotation.
func TestVerbIsRequired(t *testing.T) {
	for _, test := range []struct {
		name        string
		object, old runtime.Object
		subresource string
		asked       bool
	}{
		{name: "created without", object: export("")},
		{name: "created with", object: export("a"), asked: true},
		{name: "added", object: export("a"), old: export(""), asked: true},
		{name: "changed", object: export("b"), old: export("a"), asked: true},
		{name: "kept", object: export("a"), old: export("a")},
		{name: "removed", object: export(""), old: export("a")},
		{name: "status", object: export("a"), old: export(""), subresource: "status"},
	} {
		for answer, decision := range map[string]authorizer.Decision{"allowed": authorizer.DecisionAllow, "denied": authorizer.DecisionNoOpinion, "unknown": authorizer.DecisionDeny} {
			t.Run(test.name+", "+answer, func(t *testing.T) {
				var asked []authorizer.Attributes
				plugin := New()
				plugin.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
					asked = append(asked, attributes)
					if answer == "unknown" {
						return decision, "", errors.New("no connection")
					}
					return decision, "", nil
				}))
				operation := admission.Create
				if test.old != nil {
					operation = admission.Update
				}
				attributes := admission.NewAttributesRecord(test.object, test.old, multicluster.XKind("ServiceExport").WithVersion("v1beta1"), "shop", "web",
					multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceexports"), test.subresource, operation, nil, false, &user.DefaultInfo{Name: "jane"})
				err := errors.Join(plugin.Admit(t.Context(), attributes, nil), plugin.Validate(t.Context(), attributes, nil))
				var status apierrors.APIStatus
				switch {
				case !test.asked || answer == "allowed":
					if err != nil {
						t.Error(err)
					}
				case !errors.As(err, &status):
					t.Errorf("got %v", err)
				case answer == "denied" && (status.Status().Code != 403 || !strings.Contains(err.Error(), `grant the verb "migrate" on resource "serviceexports"`)):
					t.Errorf("got %v", err)
				case answer == "unknown" && status.Status().Code != 503:
					t.Errorf("got %v", err)
				}
				if len(asked) > 0 != test.asked {
					t.Fatalf("asked %v", asked)
				}
				if test.asked && (asked[0].GetVerb() != "migrate" || asked[0].GetResource() != "serviceexports" || asked[0].GetAPIGroup() != "multicluster.x-k8s.io" || asked[0].GetNamespace() != "") {
					t.Errorf("asked %v", asked[0])
				}
			})
		}
	}
}
