// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is who restores a ConfigMap after others have changed it.
type Owner struct {
	Name string
	// Remedy says where to add the server block instead.
	Remedy string

	// unsupported is true if there is no such place.
	unsupported bool
}

const inSource = "add the server block to the Corefile where its source is kept"

// helmValues says how to add the server block to values of the charts coredns and
// rke2-coredns.
const helmValues = "add the server block to the values of the release, and keep all others. The charts coredns and rke2-coredns have the list servers. " +
	"Helm does not merge lists: copy the whole present list, which `helm get values %[1]s --namespace %[2]s --all` shows, and append\n\n" +
	"  - zones:\n    - zone: clusterset.local.\n    port: 53\n    plugins:\n    - name: errors\n    - name: kubernetes\n      parameters: clusterset.local\n" +
	"      configBlock: |-\n        multicluster clusterset.local\n        noendpoints\n\n"

const (
	rke2Release = "rke2-coredns"
	rke2Values  = helmValues + "On RKE2, set servers in spec.valuesContent of HelmChartConfig kube-system/rke2-coredns; values of the release itself are overwritten. " +
		"The entry corresponds to this server block"
	otherValues = helmValues + "The entry corresponds to this server block"
)

const eksRemedy = "set corefile in the configuration values of the add-on to the present Corefile with the server block at its end. " +
	"An update replaces all configuration values, so add it to those that `aws eks describe-addon --cluster-name CLUSTER --addon-name coredns --query addon.configurationValues` shows, and run " +
	"`aws eks update-addon --cluster-name CLUSTER --addon-name coredns --configuration-values file://values.json`. " +
	"If there is no such add-on, CoreDNS is self-managed, and the server block can be added to the ConfigMap by hand"

// ownerOf returns who restores a ConfigMap, or nil.
func ownerOf(configMap *corev1.ConfigMap) *Owner {
	controller := metav1.GetControllerOf(configMap)
	for _, tell := range []func(labels, annotations map[string]string) *Owner{gitOpsOwner, helmOwner, providerOwner} {
		if owner := tell(configMap.Labels, configMap.Annotations); owner != nil {
			return owner
		}
	}
	managedBy := configMap.Labels["app.kubernetes.io/managed-by"]
	switch {
	case isManagedBy(configMap, "eks"):
		return &Owner{Name: "the EKS add-on coredns", Remedy: eksRemedy}
	case configMap.Namespace == "openshift-dns" || controller != nil && strings.HasPrefix(controller.APIVersion, "operator.openshift.io/"):
		return &Owner{Name: "the DNS operator of OpenShift", unsupported: true}
	case controller != nil:
		return &Owner{Name: fmt.Sprintf("%s %q", controller.Kind, controller.Name), Remedy: "use what it offers to customize CoreDNS"}
	case managedBy != "" && managedBy != Manager:
		return &Owner{Name: fmt.Sprintf("%q, according to its label app.kubernetes.io/managed-by", managedBy), Remedy: inSource}
	}
	return nil
}

// first returns the first value that is not empty.
func first(values map[string]string, keys ...string) string {
	for _, key := range keys {
		if value := values[key]; value != "" {
			return value
		}
	}
	return ""
}

func gitOpsOwner(labels, annotations map[string]string) *Owner {
	application, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
	if application == "" {
		application = labels["argocd.argoproj.io/instance"]
	}
	flux := first(labels, "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name")
	switch {
	case application != "":
		return &Owner{Name: fmt.Sprintf("the Argo CD application %q", application), Remedy: inSource}
	case flux != "":
		return &Owner{Name: fmt.Sprintf("Flux, as part of %q", flux), Remedy: inSource}
	case labels["kapp.k14s.io/app"] != "":
		return &Owner{Name: "an application of kapp", Remedy: inSource}
	}
	return nil
}

func helmOwner(labels, annotations map[string]string) *Owner {
	release, namespace := annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"]
	switch {
	case release == rke2Release:
		return &Owner{Name: fmt.Sprintf("the Helm release %q of RKE2", release), Remedy: fmt.Sprintf(rke2Values, release, metav1.NamespaceSystem)}
	case plainWord.MatchString(release) && plainWord.MatchString(namespace):
		return &Owner{Name: fmt.Sprintf("the Helm release %q in namespace %q", release, namespace), Remedy: fmt.Sprintf(otherValues, release, namespace)}
	case release != "":
		return &Owner{Name: fmt.Sprintf("the Helm release %q", release), Remedy: fmt.Sprintf(otherValues, "RELEASE", "NAMESPACE")}
	case labels["app.kubernetes.io/managed-by"] == "Helm":
		return &Owner{Name: "Helm", Remedy: fmt.Sprintf(otherValues, "RELEASE", "NAMESPACE")}
	}
	return nil
}

func providerOwner(labels, annotations map[string]string) *Owner {
	switch {
	case labels["addonmanager.kubernetes.io/mode"] == "Reconcile":
		return &Owner{Name: "the addon manager of the control plane", Remedy: "add the server block to the manifest of the addon, or use what your provider offers to customize CoreDNS"}
	case annotations["objectset.rio.cattle.io/owner-name"] != "":
		return &Owner{Name: fmt.Sprintf("the Addon %q of k3s", annotations["objectset.rio.cattle.io/owner-name"]), Remedy: "upgrade k3s to a version whose Corefile imports /etc/coredns/custom/*.server"}
	case labels["k0s.k0sproject.io/stack"] != "":
		return &Owner{Name: fmt.Sprintf("the stack %q of k0s", labels["k0s.k0sproject.io/stack"]), Remedy: "use what k0s offers to customize CoreDNS"}
	case first(labels, "doks.digitalocean.com/managed", "c3.doks.digitalocean.com/component") != "":
		return &Owner{Name: "DigitalOcean Kubernetes", Remedy: "add the server block to a key of ConfigMap kube-system/coredns-custom that ends with .server"}
	}
	return nil
}

// isManagedBy reports whether a manager owns data of a ConfigMap.
func isManagedBy(configMap *corev1.ConfigMap, manager string) bool {
	return slices.ContainsFunc(configMap.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && (entry.FieldsV1 == nil || strings.Contains(entry.FieldsV1.GetRawString(), `"f:data"`))
	})
}
