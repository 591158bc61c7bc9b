// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclaim protects the well-known claims of KEP-2149: it restricts who may
// assert or delete them and when they may change, and ensures that cluster IDs are
// unique within a ClusterSet. The format of the values is checked by validation.
package clusterclaim

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	genericinitializer "k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/survey"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

// PluginName is the name of the plugin in the admission flags.
const PluginName = "ClusterClaim"

// WantsInstallation is implemented by plugins that need a client for the resources of
// this server, and the namespace of the installation.
type WantsInstallation interface {
	SetInstallation(client versioned.Interface, namespace string)
}

// Plugin validates writes of ClusterClaims. It reads claims and Secrets live and has no
// cache, so that it does not miss one that was just created.
type Plugin struct {
	*admission.Handler
	host       kubernetes.Interface
	own        versioned.Interface
	namespace  string
	authorizer authorizer.Authorizer
}

var (
	_ admission.ValidationInterface                 = &Plugin{}
	_ admission.InitializationValidator             = &Plugin{}
	_ genericinitializer.WantsAuthorizer            = &Plugin{}
	_ genericinitializer.WantsExternalKubeClientSet = &Plugin{}
	_ WantsInstallation                             = &Plugin{}
)

// Register registers the plugin.
func Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return New(), nil })
}

// New returns the plugin. It has to be initialized.
func New() *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete)}
}

// SetAuthorizer implements genericinitializer.WantsAuthorizer.
func (p *Plugin) SetAuthorizer(authorizer authorizer.Authorizer) { p.authorizer = authorizer }

// SetExternalKubeClientSet implements genericinitializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface) { p.host = client }

// SetInstallation implements WantsInstallation.
func (p *Plugin) SetInstallation(client versioned.Interface, namespace string) {
	p.own, p.namespace = client, namespace
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.authorizer == nil || p.host == nil || p.own == nil || p.namespace == "" {
		return errors.New("admission plugin " + PluginName + " requires an authorizer, clients, and the namespace of the installation")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetResource().GroupResource() != multicluster.Resource("clusterclaims") || attributes.GetSubresource() != "" {
		return nil
	}
	change, err := changeOf(attributes.GetObject(), attributes.GetOldObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	err = p.decide(ctx, attributes, change)
	var unknown *unknownError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return gate.Unavailable(fmt.Sprintf("ClusterClaim %s was not written: %v", change.name, err))
	}
	// The name of the claim: a request that deletes a collection has none.
	return apierrors.NewForbidden(multicluster.Resource("clusterclaims"), change.name, err)
}

// unknownError is returned if it is not known whether a change is allowed, because something
// could not be read. Clients may repeat the request, unlike one that is forbidden.
type unknownError struct{ error }

func unknown(format string, args ...any) error { return &unknownError{fmt.Errorf(format, args...)} }

// decide returns why a change is refused. It checks first what no user may do, then
// the permissions of the user, and last the current claims.
func (p *Plugin) decide(ctx context.Context, attributes admission.Attributes, change change) error {
	if !change.matters() {
		return nil
	}
	if err := change.forbidden(); err != nil {
		return err
	}
	if err := p.authorize(ctx, attributes, change.name); err != nil {
		return err
	}
	if change.leavesClusterSet() {
		return nil
	}
	current, err := p.claims(ctx)
	if err != nil {
		return err
	}
	joining, err := change.evaluate(current)
	if err != nil {
		return err
	}
	if joining == nil {
		if change.replacesUsedID() {
			warning.AddWarning(ctx, "", fmt.Sprintf("logs, metrics and DNS names with the former cluster ID %q no longer refer to this cluster; "+
				"a cluster ID should stay the same for the life of the cluster", *change.before))
		}
		return nil
	}
	if err := p.checkUnique(ctx, *joining); err != nil {
		return err
	}
	// The claims may have changed while the members were asked.
	if current, err = p.claims(ctx); err != nil {
		return err
	}
	if again, err := change.evaluate(current); err != nil || again == nil || *again != *joining {
		return errors.Join(err, errors.New("the ClusterClaims of this cluster changed at the same time; check them and try again"))
	}
	return nil
}

// authorize checks that the user may claim the name, in addition to writing claims.
func (p *Plugin) authorize(ctx context.Context, attributes admission.Attributes, name string) error {
	user := attributes.GetUserInfo()
	decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: multicluster.ClaimVerb, ResourceRequest: true,
		APIGroup: multicluster.GroupName, APIVersion: multiclusterv1.SchemeGroupVersion.Version, Resource: "clusterclaims", Name: name,
	})
	if err != nil && decision != authorizer.DecisionAllow {
		return unknown("failed to check whether user %q may claim the name: %w", user.GetName(), err)
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	detail := ""
	if reason != "" {
		detail = " (" + reason + ")"
	}
	return fmt.Errorf("user %q is not allowed to assert or delete this claim%s; grant the verb %q on resource \"clusterclaims\" in API group %q with resourceName %q, "+
		"or bind the ClusterRole \"mcs-apiserver:claims\"", user.GetName(), detail, multicluster.ClaimVerb, multicluster.GroupName, name)
}

// claims reads the well-known claims.
func (p *Plugin) claims(ctx context.Context) (current claims, err error) {
	for name, into := range map[string]**string{multicluster.ClusterIDClaim: &current.id, multicluster.ClusterSetClaim: &current.clusterSet} {
		claim, err := p.own.MulticlusterV1().ClusterClaims().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			*into = &claim.Spec.Value
		case !apierrors.IsNotFound(err):
			return current, unknown("get ClusterClaim %s: %w", name, err)
		}
	}
	return current, nil
}

// checkUnique asks all members whether another cluster has the ID.
func (p *Plugin) checkUnique(ctx context.Context, joining joining) error {
	system, err := p.host.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return unknown("get the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	answers, err := survey.Members(ctx, p.host, p.namespace)
	if err != nil {
		return unknown("failed to check whether another member has the cluster ID %q: %w", joining.id, err)
	}
	return joining.unique(system.UID, answers)
}
