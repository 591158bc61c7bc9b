// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// exemptOwnDeletions exempts what this server deletes itself, which are objects of namespaces
// that do not exist: a plugin that asks for the namespace, as those for policies do, would refuse
// that.
func exemptOwnDeletions(plugin admission.Interface, _ string) admission.Interface {
	return exemption{plugin}
}

// exemption is a plugin that does not see what this server deletes itself.
type exemption struct {
	admission.Interface
}

var (
	_ admission.MutationInterface   = exemption{}
	_ admission.ValidationInterface = exemption{}
)

// Admit implements admission.MutationInterface.
func (e exemption) Admit(ctx context.Context, attributes admission.Attributes, objects admission.ObjectInterfaces) error {
	plugin, mutates := e.Interface.(admission.MutationInterface)
	if !mutates || isOwnDeletion(attributes) {
		return nil
	}
	return plugin.Admit(ctx, attributes, objects)
}

// Validate implements admission.ValidationInterface.
func (e exemption) Validate(ctx context.Context, attributes admission.Attributes, objects admission.ObjectInterfaces) error {
	plugin, validates := e.Interface.(admission.ValidationInterface)
	if !validates || isOwnDeletion(attributes) {
		return nil
	}
	return plugin.Validate(ctx, attributes, objects)
}

func isOwnDeletion(attributes admission.Attributes) bool {
	by := attributes.GetUserInfo()
	return attributes.GetOperation() == admission.Delete && by != nil && by.GetName() == user.APIServerUser
}
