// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration restricts who may give objects the identity that they had before
// mcs-apiserver took them over: exports that are older take precedence, and objects are
// deleted with their owners.
package migration

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericinitializer "k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

// PluginName is the name of the plugin in the admission flags.
const PluginName = "Migration"

// Plugin decides who may set the annotation migrated-from.
type Plugin struct {
	*admission.Handler
	authorizer authorizer.Authorizer
}

var (
	_ admission.MutationInterface        = &Plugin{}
	_ admission.ValidationInterface      = &Plugin{}
	_ admission.InitializationValidator  = &Plugin{}
	_ genericinitializer.WantsAuthorizer = &Plugin{}
)

// Register registers the plugin.
func Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return New(), nil })
}

// New returns the plugin. It has to be initialized.
func New() *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// SetAuthorizer implements genericinitializer.WantsAuthorizer.
func (p *Plugin) SetAuthorizer(authorizer authorizer.Authorizer) { p.authorizer = authorizer }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.authorizer == nil {
		return errors.New("admission plugin " + PluginName + " requires an authorizer")
	}
	return nil
}

// Admit implements admission.MutationInterface. It changes nothing: it sees what the user
// writes into an existing object, before the server restores the annotation.
func (p *Plugin) Admit(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetOperation() != admission.Update {
		return nil
	}
	return p.check(ctx, attributes)
}

// Validate implements admission.ValidationInterface. It sees the objects that would be
// created, after all other plugins changed them.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetOperation() != admission.Create {
		return nil
	}
	return p.check(ctx, attributes)
}

func (p *Plugin) check(ctx context.Context, attributes admission.Attributes) error {
	if attributes.GetSubresource() != "" {
		return nil // writes of the status do not change annotations
	}
	value, set := identityOf(attributes.GetObject())
	if old, _ := identityOf(attributes.GetOldObject()); !set || value == old {
		return nil
	}
	// The verb has to be granted in all namespaces: users who have all verbs in one would get it
	// otherwise, and their exports precedence over those of other clusters.
	user, resource := attributes.GetUserInfo(), attributes.GetResource()
	decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: multicluster.MigrateVerb, ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: attributes.GetName(),
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return gate.Unavailable(fmt.Sprintf("%s %s was not written: failed to check whether user %q may set the annotation %s: %v",
			resource.Resource, attributes.GetName(), user.GetName(), multicluster.MigratedFromAnnotation, err))
	}
	detail := ""
	if reason != "" {
		detail = " (" + reason + ")"
	}
	return apierrors.NewForbidden(resource.GroupResource(), attributes.GetName(), fmt.Errorf("user %q is not allowed to set the annotation %s, "+
		"from which the object would take its age and UID%s; remove the annotation, or grant the verb %q on resource %q in API group %q in all namespaces",
		user.GetName(), multicluster.MigratedFromAnnotation, detail, multicluster.MigrateVerb, resource.Resource, resource.Group))
}

// identityOf returns the annotation of an object, which may be nil.
func identityOf(object runtime.Object) (value string, set bool) {
	if object == nil {
		return "", false
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", false
	}
	value, set = accessor.GetAnnotations()[multicluster.MigratedFromAnnotation]
	return value, set
}
