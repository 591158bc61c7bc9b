// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// factory makes what commands need of the flags that all of them have.
type factory struct {
	flags *genericclioptions.ConfigFlags
	// given says whether the user has set one of the flags.
	given   func(flag string) bool
	streams genericiooptions.IOStreams
	// progress shows what takes a while.
	progress *progress
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

// timeout is what --request-timeout says, or otherwise.
func (f *factory) timeout(otherwise time.Duration) (time.Duration, error) {
	if !f.given(clientcmd.FlagTimeout) {
		return otherwise, nil
	}
	timeout, err := clientcmd.ParseTimeout(*f.flags.Timeout)
	if err != nil {
		return 0, fmt.Errorf("--%s %q: %w", clientcmd.FlagTimeout, *f.flags.Timeout, err)
	}
	return timeout, nil
}

// patience limits how long several requests may take together. What the user says
// is for each of them, and clients see to that.
func (f *factory) patience(ctx context.Context, otherwise time.Duration) (context.Context, context.CancelFunc, error) {
	timeout, err := f.timeout(otherwise)
	if f.given(clientcmd.FlagTimeout) {
		timeout = 0
	}
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	return ctx, cancel, err
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

// completeContextList is completeContexts for a flag that takes several, separated
// by commas. What is offered has to begin with those that are there already.
func (f *factory) completeContextList(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	names, directive := f.completeContexts(cmd, slices.Concat(args, strings.Split(before, ",")), "")
	for i := range names {
		names[i] = before + names[i]
	}
	return names, directive
}

func (f *factory) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(cmd.Context(), func(ctx context.Context, c *cluster, _ string) ([]string, error) {
		list, err := c.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	})
}
