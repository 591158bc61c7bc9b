// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster connects to the clusters of the kubeconfig's contexts.
package cluster

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

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// Factory makes what commands need of the flags that all of them have.
type Factory struct {
	Flags *genericclioptions.ConfigFlags
	// Given says whether the user has set one of the flags.
	Given   func(flag string) bool
	Streams genericiooptions.IOStreams
	// Progress shows what takes a while.
	Progress *progress.Progress
	// Warnings prints those of all clusters.
	Warnings rest.WarningHandler
}

// NewFactory makes a factory that prints to these streams.
func NewFactory(streams genericiooptions.IOStreams) *Factory {
	f := &Factory{Flags: ConfigFlags(), Streams: streams, Progress: progress.New(streams.Out)}
	f.Warnings = rest.NewWarningWriter(f.Progress.Beside(streams.ErrOut), rest.WarningWriterOptions{Deduplicate: true})
	return f
}

// ConfigFlags are those of kubectl that make sense when a command is about
// several clusters: not those that say how to reach or enter one.
func ConfigFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(false)
	return &genericclioptions.ConfigFlags{
		KubeConfig: flags.KubeConfig, Context: flags.Context, Namespace: flags.Namespace, Timeout: flags.Timeout,
		Impersonate: flags.Impersonate, ImpersonateUID: flags.ImpersonateUID, ImpersonateGroup: flags.ImpersonateGroup,
	}
}

// Cluster is the cluster of one context.
type Cluster struct {
	// Context is the name of the context.
	Context    string
	Config     *rest.Config
	Kubernetes kubernetes.Interface
	// MCS is for the API of mcs-apiserver.
	MCS versioned.Interface
}

// kubeconfig is the user's, merged of all files.
func (f *Factory) kubeconfig() (clientcmdapi.Config, error) {
	return f.Flags.ToRawKubeConfigLoader().RawConfig()
}

// CurrentContext is what --context says, or the kubeconfig.
func (f *Factory) CurrentContext() (string, error) {
	if *f.Flags.Context != "" {
		return *f.Flags.Context, nil
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

// RequestTimeout is what --request-timeout says, or otherwise.
func (f *Factory) RequestTimeout(otherwise time.Duration) (time.Duration, error) {
	if !f.Given(clientcmd.FlagTimeout) {
		return otherwise, nil
	}
	timeout, err := clientcmd.ParseTimeout(*f.Flags.Timeout)
	if err != nil {
		return 0, fmt.Errorf("--%s %q: %w", clientcmd.FlagTimeout, *f.Flags.Timeout, err)
	}
	return timeout, nil
}

// WithTimeout limits how long several requests may take together. What the user says
// is for each of them, and clients see to that.
func (f *Factory) WithTimeout(ctx context.Context, otherwise time.Duration) (context.Context, context.CancelFunc, error) {
	timeout, err := f.RequestTimeout(otherwise)
	if f.Given(clientcmd.FlagTimeout) {
		timeout = 0
	}
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	return ctx, cancel, err
}

// ForContext is the cluster of a context. Nothing is asked of it yet.
func (f *Factory) ForContext(context string) (*Cluster, error) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, err
	}
	if config.Contexts[context] == nil {
		return nil, fmt.Errorf("there is no context %q in the kubeconfig: `kubectl config get-contexts` lists those that there are", context)
	}
	overrides := clientcmd.ConfigOverrides{Timeout: *f.Flags.Timeout, AuthInfo: clientcmdapi.AuthInfo{
		Impersonate: *f.Flags.Impersonate, ImpersonateUID: *f.Flags.ImpersonateUID, ImpersonateGroups: *f.Flags.ImpersonateGroup,
	}}
	loaded, err := clientcmd.NewNonInteractiveClientConfig(config, context, &overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	loaded.QPS = -1
	loaded.UserAgent = "kubectl-mcs"
	loaded.WarningHandler = f.Warnings
	c := &Cluster{Context: context, Config: loaded}
	if c.Kubernetes, err = kubernetes.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	if c.MCS, err = versioned.NewForConfig(loaded); err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	return c, nil
}

// Current is the cluster of the current context, and the namespace there.
func (f *Factory) Current() (*Cluster, string, error) {
	context, err := f.CurrentContext()
	if err != nil {
		return nil, "", err
	}
	c, err := f.ForContext(context)
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := f.Flags.ToRawKubeConfigLoader().Namespace()
	return c, namespace, err
}

// CompleteContexts offers the contexts that are not among the arguments yet.
func (f *Factory) CompleteContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// CompleteContextList is CompleteContexts for a flag that takes several, separated
// by commas. What is offered has to begin with those that are there already.
func (f *Factory) CompleteContextList(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	names, directive := f.CompleteContexts(cmd, slices.Concat(args, strings.Split(before, ",")), "")
	for i := range names {
		names[i] = before + names[i]
	}
	return names, directive
}

// CompleteNamespaces offers the namespaces of the current cluster.
func (f *Factory) CompleteNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.Complete(cmd.Context(), func(ctx context.Context, c *Cluster, _ string) ([]string, error) {
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
