// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota enforces the ResourceQuotas of the cluster for ServiceExports, which
// kube-apiserver cannot: it forwards requests for them without admission. The quota
// controller of the cluster counts them as it counts all resources.
package resourcequota

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// PluginName is the name of the plugin in the admission flags, as in kube-apiserver.
const PluginName = resourcequota.PluginName

const serviceExports = "serviceexports"

// groups are the API groups that serve the same ServiceExports. A quota in either name limits
// exports that are created through the other one, too.
var groups = []string{multicluster.XGroupName, multicluster.GroupName}

// evaluators is how many namespaces are evaluated at a time, as in kube-apiserver.
const evaluators = 5

// Plugin is the plugin of kube-apiserver for ServiceExports.
type Plugin struct {
	*resourcequota.QuotaAdmission
}

var (
	_ admission.ValidationInterface     = &Plugin{}
	_ admission.InitializationValidator = &Plugin{}
)

// Register registers the plugin.
func Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(config io.Reader) (admission.Interface, error) {
		configuration, err := resourcequota.LoadConfiguration(config)
		if err != nil {
			return nil, err
		}
		enforcer, err := resourcequota.NewResourceQuota(configuration, evaluators)
		if err != nil {
			return nil, err
		}
		return &Plugin{enforcer}, nil
	})
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, objects admission.ObjectInterfaces) error {
	for _, counted := range countedAs(attributes) {
		if err := p.QuotaAdmission.Validate(ctx, counted, objects); err != nil {
			return err
		}
	}
	return nil
}

// countedAs returns a request once for each group in which the object is counted.
func countedAs(attributes admission.Attributes) []admission.Attributes {
	resource := attributes.GetResource()
	if resource.Resource != serviceExports || attributes.GetSubresource() != "" {
		return nil
	}
	var counted []admission.Attributes
	for _, group := range groups {
		counted = append(counted, inGroup{attributes, group})
	}
	return counted
}

// inGroup is a request as if it had been sent for another group.
type inGroup struct {
	admission.Attributes
	group string
}

// GetResource implements admission.Attributes.
func (i inGroup) GetResource() schema.GroupVersionResource {
	resource := i.Attributes.GetResource()
	resource.Group = i.group
	return resource
}
