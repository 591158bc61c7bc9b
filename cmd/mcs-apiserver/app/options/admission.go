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
	// hostTimeout is how long the host cluster may take to answer at start.
	hostTimeout = time.Minute
)

// admissionResources are what the library's admission plugins watch in the
// host cluster. A plugin whose resources are not served never gets in sync,
// and refuses every write for that.
var admissionResources = map[string][]string{
	mutatingpolicy.PluginName:    {"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"},
	validatingpolicy.PluginName:  {"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
	mutatingwebhook.PluginName:   {"mutatingwebhookconfigurations"},
	validatingwebhook.PluginName: {"validatingwebhookconfigurations"},
}

// disableUnservedAdmission switches off the admission plugins that cannot work
// with this host cluster, MutatingAdmissionPolicy before Kubernetes 1.36 for one.
func disableUnservedAdmission(ctx context.Context, host *rest.Config, admission *genericoptions.AdmissionOptions) error {
	client, err := discovery.NewDiscoveryClientForConfig(host)
	if err != nil {
		return fmt.Errorf("make a client for the host cluster: %w", err)
	}
	logger := klog.FromContext(ctx)
	var served *metav1.APIResourceList
	err = wait.PollUntilContextTimeout(ctx, time.Second, hostTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := client.ServerResourcesForGroupVersion(admissionGroupVersion)
		if err != nil && !apierrors.IsNotFound(err) {
			logger.Info("Waiting for the host cluster to say which admission APIs it serves", "server", host.Host, "err", err)
			return false, nil
		}
		served = list
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("ask the host cluster at %s which admission APIs it serves: %w", host.Host, err)
	}
	for _, plugin := range unservedPlugins(served) {
		logger.Info("Admission plugin is off: the host cluster does not serve its API", "plugin", plugin, "api", admissionGroupVersion)
		admission.DisablePlugins = append(admission.DisablePlugins, plugin)
	}
	return nil
}

// unservedPlugins are the plugins that lack one of their resources.
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
