// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclaim guards the well-known claims of KEP-2149: who may assert
// or remove them, when they may change, and that no two clusters of a ClusterSet
// have one id. What a value may look like is a matter of validation.
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// PluginName is how the plugin is switched on and off.
const PluginName = "ClusterClaim"

// WantsInstallation is for plugins that need a client for what this server
// stores, and the namespace of the installation.
type WantsInstallation interface {
	SetInstallation(client versioned.Interface, namespace string)
}

// Plugin decides about writes of ClusterClaims. It reads everything at the
// moment of the write and keeps nothing: a claim that was made a moment ago, or
// a Secret, must not be missed.
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

// Register makes the plugin known.
func Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return New(), nil })
}

// New returns the plugin, which has to be initialized.
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
		return errors.New("admission plugin " + PluginName + " needs an authorizer, clients, and the namespace of the installation")
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
	if err := p.decide(ctx, attributes, change); err != nil {
		// By the name of the claim: requests to delete several have none.
		return apierrors.NewForbidden(multicluster.Resource("clusterclaims"), change.name, err)
	}
	return nil
}

// decide refuses first what nobody may do, then what this user may not, and
// only then looks at how things are.
func (p *Plugin) decide(ctx context.Context, attributes admission.Attributes, change change) error {
	if !change.matters() {
		return nil
	}
	if err := change.never(); err != nil {
		return err
	}
	if err := p.authorize(ctx, attributes, change.name); err != nil {
		return err
	}
	if change.leaves() {
		return nil
	}
	current, err := p.claims(ctx)
	if err != nil {
		return err
	}
	joining, err := change.judge(current)
	if err != nil {
		return err
	}
	if joining == nil {
		if change.name == multicluster.ClusterIDClaim && change.before != nil {
			warning.AddWarning(ctx, "", fmt.Sprintf(
				"whatever knew this cluster as %q, in logs, metrics or DNS names, knows it no longer: an id should stay the same for the life of a cluster", *change.before))
		}
		return nil
	}
	if err := p.checkUnique(ctx, *joining); err != nil {
		return err
	}
	// Asking takes a while, in which the cluster may have become another.
	if current, err = p.claims(ctx); err != nil {
		return err
	}
	if again, err := change.judge(current); err != nil || again == nil || *again != *joining {
		return errors.Join(err, errors.New("the claims of this cluster were changed at the same time: look at them, and try again"))
	}
	return nil
}

// authorize asks whether the user may claim the name, besides writing claims at all.
func (p *Plugin) authorize(ctx context.Context, attributes admission.Attributes, name string) error {
	user := attributes.GetUserInfo()
	decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: multicluster.ClaimVerb, ResourceRequest: true,
		APIGroup: multicluster.GroupName, APIVersion: multiclusterv1.SchemeGroupVersion.Version, Resource: "clusterclaims", Name: name,
	})
	if err != nil && decision != authorizer.DecisionAllow {
		return fmt.Errorf("whether user %q may claim it cannot be told: %w", user.GetName(), err)
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	detail := ""
	if reason != "" {
		detail = " (" + reason + ")"
	}
	return fmt.Errorf("user %q may not assert or remove this claim%s: grant the verb %q on resource \"clusterclaims\" in API group %q with resourceName %q, "+
		"or bind the ClusterRole \"mcs-apiserver:claims\"", user.GetName(), detail, multicluster.ClaimVerb, multicluster.GroupName, name)
}

// claims reads the well-known claims that there are.
func (p *Plugin) claims(ctx context.Context) (current claims, err error) {
	for name, into := range map[string]**string{multicluster.ClusterIDClaim: &current.id, multicluster.ClusterSetClaim: &current.clusterSet} {
		claim, err := p.own.MulticlusterV1().ClusterClaims().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			*into = &claim.Spec.Value
		case !apierrors.IsNotFound(err):
			return current, fmt.Errorf("read the claim %s: %w", name, err)
		}
	}
	return current, nil
}

// checkUnique asks all members whether somebody else has the id already.
func (p *Plugin) checkUnique(ctx context.Context, joining joining) error {
	system, err := p.host.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("tell this cluster from others by the UID of its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	answers, err := member.Ask(ctx, p.host, p.namespace)
	if err != nil {
		return fmt.Errorf("whether another member has the id %q cannot be told: %w", joining.id, err)
	}
	return joining.unique(system.UID, answers)
}
