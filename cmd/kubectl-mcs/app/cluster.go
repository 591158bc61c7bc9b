// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// factory makes what commands need of the flags that all of them have.
type factory struct {
	flags   *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	// warnings prints those of all clusters.
	warnings rest.WarningHandler
}

// cluster is the cluster of one context.
type cluster struct {
	// Context is the name of the context.
	Context    string
	Config     *rest.Config
	Kubernetes kubernetes.Interface
	// MCS is for the API of mcs-apiserver.
	MCS versioned.Interface
}

// kubeconfig is the user's, merged of all files.
func (f *factory) kubeconfig() (clientcmdapi.Config, error) {
	return f.flags.ToRawKubeConfigLoader().RawConfig()
}

// currentContext is what --context says, or the kubeconfig.
func (f *factory) currentContext() (string, error) {
	if *f.flags.Context != "" {
		return *f.flags.Context, nil
	}
	config, err := f.kubeconfig()
	if err != nil {
		return "", err
	}
	if config.CurrentContext == "" {
		return "", fmt.Errorf("the kubeconfig has no current context: choose one with --context or `kubectl config use-context`")
	}
	return config.CurrentContext, nil
}

// cluster is the cluster of a context. Nothing is asked of it yet.
func (f *factory) cluster(context string) (*cluster, error) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, err
	}
	if config.Contexts[context] == nil {
		return nil, fmt.Errorf("there is no context %q in the kubeconfig: `kubectl config get-contexts` lists those that there are", context)
	}
	overrides := clientcmd.ConfigOverrides{Timeout: *f.flags.Timeout, AuthInfo: clientcmdapi.AuthInfo{
		Impersonate: *f.flags.Impersonate, ImpersonateUID: *f.flags.ImpersonateUID, ImpersonateGroups: *f.flags.ImpersonateGroup,
	}}
	loaded, err := clientcmd.NewNonInteractiveClientConfig(config, context, &overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	loaded.QPS = -1
	loaded.UserAgent = "kubectl-mcs"
	loaded.WarningHandler = f.warnings
	c := &cluster{Context: context, Config: loaded}
	if c.Kubernetes, err = kubernetes.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	if c.MCS, err = versioned.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	return c, nil
}

// current is the cluster of the current context, and the namespace there.
func (f *factory) current() (*cluster, string, error) {
	context, err := f.currentContext()
	if err != nil {
		return nil, "", err
	}
	c, err := f.cluster(context)
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := f.flags.ToRawKubeConfigLoader().Namespace()
	return c, namespace, err
}

// completeContexts offers the contexts that are not among the arguments yet.
func (f *factory) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

func (f *factory) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, _, err := f.current()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := c.Kubernetes.CoreV1().Namespaces().List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
