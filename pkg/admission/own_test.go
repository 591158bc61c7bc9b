// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// refusing is a plugin that refuses everything.
type refusing struct{ *admission.Handler }

func (refusing) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errors.New("refused")
}

func (refusing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errors.New("refused")
}

// R184, R456: no plugin keeps the server from deleting objects of namespaces that do not exist.
// Everything else is up to the plugins.
func TestOnlyOwnDeletionsAreExempt(t *testing.T) {
	plugin := exemptOwnDeletions(refusing{admission.NewHandler(admission.Create, admission.Delete)}, "refusing")
	if !plugin.Handles(admission.Delete) || plugin.Handles(admission.Update) {
		t.Error("the plugin handles other operations than without the exemption")
	}
	for _, test := range []struct {
		name      string
		operation admission.Operation
		exempt    bool
	}{
		{user.APIServerUser, admission.Delete, true},
		{user.APIServerUser, admission.Create, false},
		{"system:serviceaccount:kube-system:namespace-controller", admission.Delete, false},
		{"jane", admission.Delete, false},
		{"", admission.Delete, false},
	} {
		attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "gone", "web", schema.GroupVersionResource{}, "", test.operation, nil, false, &user.DefaultInfo{Name: test.name})
		for name, err := range map[string]error{
			"admitted":  plugin.(admission.MutationInterface).Admit(t.Context(), attributes, nil),
			"validated": plugin.(admission.ValidationInterface).Validate(t.Context(), attributes, nil),
		} {
			if (err == nil) != test.exempt {
				t.Errorf("%s of %q is %s with %v, exempt should be %t", test.operation, test.name, name, err, test.exempt)
			}
		}
	}
}
