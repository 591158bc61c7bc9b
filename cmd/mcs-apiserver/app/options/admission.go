// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	admissionGroupVersion = "admissionregistration.k8s.io/v1"
	// hostTimeout is how long to wait for the host cluster at startup.
	hostTimeout = time.Minute
)

// admissionResources are the resources of the host cluster that the admission
// plugins of the library watch. A plugin whose resources are not served never
// syncs and rejects every write.
var admissionResources = map[string][]string{
	mutatingpolicy.PluginName:    {"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"},
	validatingpolicy.PluginName:  {"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
	mutatingwebhook.PluginName:   {"mutatingwebhookconfigurations"},
	validatingwebhook.PluginName: {"validatingwebhookconfigurations"},
}

// disableUnservedAdmission disables the admission plugins whose resources the
// host cluster does not serve, such as MutatingAdmissionPolicy before Kubernetes
// 1.36.
func disableUnservedAdmission(ctx context.Context, host *rest.Config, admission *genericoptions.AdmissionOptions) error {
	client, err := discovery.NewDiscoveryClientForConfig(host)
	if err != nil {
		return fmt.Errorf("create client for the host cluster: %w", err)
	}
	logger := klog.FromContext(ctx)
	var served *metav1.APIResourceList
	err = wait.PollUntilContextTimeout(ctx, time.Second, hostTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := client.ServerResourcesForGroupVersion(admissionGroupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			logger.Info("Waiting for the admission API discovery of the host cluster", "server", host.Host, "err", err)
			return false, nil
		}
		served = list
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("discover the admission API of the host cluster at %s: %w", host.Host, err)
	}
	for _, plugin := range unservedPlugins(served) {
		logger.Info("Disabled admission plugin because the host cluster does not serve its API", "plugin", plugin, "api", admissionGroupVersion)
		admission.DisablePlugins = append(admission.DisablePlugins, plugin)
	}
	return nil
}

// unservedPlugins returns the plugins for which a resource is not served.
func unservedPlugins(served *metav1.APIResourceList) []string {
	names := map[string]bool{}
	if served != nil {
		for _, resource := range served.APIResources {
			names[resource.Name] = true
		}
	}
	var plugins []string
	for plugin, resources := range admissionResources {
		for _, resource := range resources {
			if !names[resource] {
				plugins = append(plugins, plugin)
				break
			}
		}
	}
	slices.Sort(plugins)
	return plugins
}
