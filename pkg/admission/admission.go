// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission lists the admission plugins of mcs-apiserver: which there
// are besides those of the library, in which order, and what they need.
package admission

import (
	"slices"

	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/admission/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// AddTo adds our plugins to those of the library. They come last: what they
// decide about is what would be stored.
func AddTo(options *genericoptions.AdmissionOptions) {
	clusterclaim.Register(options.Plugins)
	options.RecommendedPluginOrder = append(slices.Clone(options.RecommendedPluginOrder), clusterclaim.PluginName)
}

type initializer struct {
	client    versioned.Interface
	namespace string
}

// NewInitializer gives our plugins a client for what this server stores, and
// the namespace where the Secrets are that make other clusters members.
func NewInitializer(client versioned.Interface, namespace string) admission.PluginInitializer {
	return initializer{client, namespace}
}

// Initialize implements admission.PluginInitializer.
func (i initializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(clusterclaim.WantsInstallation); ok {
		wants.SetInstallation(i.client, i.namespace)
	}
}
