// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota enforces the ResourceQuotas of the cluster for the stored objects in
// namespaces, such as ServiceExports, which kube-apiserver cannot: it forwards requests for
// them without admission. The quota controller of the cluster counts them as it counts all
// resources.
package resourcequota

import (
	"context"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// PluginName is the name of the plugin in the admission flags, as in kube-apiserver.
const PluginName = resourcequota.PluginName

// exports are the ServiceExports, and alias is their other API group: both serve the same
// objects. A quota in either name limits exports that are created through the other one, too.
var (
	exports = schema.GroupResource{Group: multicluster.XGroupName, Resource: "serviceexports"}
	alias   = schema.GroupResource{Group: multicluster.GroupName, Resource: exports.Resource}
)

// others have one API group.
var others = []schema.GroupResource{inventory.Resource("clusterprofiles"), inventory.Resource("placementdecisions")}

// evaluators is how many namespaces are evaluated at a time, as in kube-apiserver.
const evaluators = 5

// Plugin is the plugin of kube-apiserver for our objects.
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

// Configuration returns how objects are counted: exports once for both names, so that a request
// that one of the names does not allow is not counted for the other one.
func Configuration() quota.Configuration {
	// Without lists: usage is only added to.
	counts := []quota.Evaluator{generic.NewObjectCountEvaluator(exports, nil, generic.ObjectCountQuotaResourceNameFor(alias))}
	for _, resource := range others {
		counts = append(counts, generic.NewObjectCountEvaluator(resource, nil, ""))
	}
	return generic.NewConfiguration(counts, nil)
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, attributes admission.Attributes, objects admission.ObjectInterfaces) error {
	switch resource := attributes.GetResource().GroupResource(); {
	case resource == exports, resource == alias:
		return p.QuotaAdmission.Validate(ctx, canonical{attributes}, objects)
	case slices.Contains(others, resource):
		return p.QuotaAdmission.Validate(ctx, attributes, objects)
	}
	return nil
}

// canonical is a request as if it had been sent for the group of exports.
type canonical struct {
	admission.Attributes
}

// GetResource implements admission.Attributes.
func (c canonical) GetResource() schema.GroupVersionResource {
	resource := c.Attributes.GetResource()
	resource.Group = exports.Group
	return resource
}
