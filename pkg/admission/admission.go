// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission registers the admission plugins of mcs-apiserver that the generic
// API server does not have, and defines their order.
package admission

import (
	"slices"

	"k8s.io/apiserver/pkg/admission"
	genericinitializer "k8s.io/apiserver/pkg/admission/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission/migration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission/resourcequota"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// AddTo adds the plugins to those of the generic API server. They run last, so that
// they see the object that would be stored. Quota is the very last, because it counts
// requests that are not refused.
func AddTo(options *genericoptions.AdmissionOptions) {
	migration.Register(options.Plugins)
	clusterclaim.Register(options.Plugins)
	resourcequota.Register(options.Plugins)
	options.RecommendedPluginOrder = append(slices.Clone(options.RecommendedPluginOrder), migration.PluginName, clusterclaim.PluginName, resourcequota.PluginName)
	options.Decorators = append(options.Decorators, admission.DecoratorFunc(exemptOwnDeletions))
}

type initializer struct {
	client    versioned.Interface
	namespace string
}

// NewInitializer returns an initializer that gives the plugins a client for the
// resources of this server, and the namespace of the member Secrets.
func NewInitializer(client versioned.Interface, namespace string) admission.PluginInitializer {
	return initializer{client, namespace}
}

// Initialize implements admission.PluginInitializer.
func (i initializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(clusterclaim.WantsInstallation); ok {
		wants.SetInstallation(i.client, i.namespace)
	}
	if wants, ok := plugin.(genericinitializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(resourcequota.Configuration())
	}
}
