// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completionTimeout limits how long a shell waits for completions.
const completionTimeout = 5 * time.Second

// NameLister lists the names of objects in a namespace of a cluster.
type NameLister func(ctx context.Context, c *Cluster, namespace string) ([]string, error)

// CompleteName completes the argument of a command that takes one name.
func (f *Factory) CompleteName(list NameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.Complete(cmd.Context(), list)
	}
}

// Complete completes names of the current namespace within a short timeout.
func (f *Factory) Complete(ctx context.Context, list NameLister) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, namespace, err := f.Current()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	names, err := list(ctx, c, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteContext completes the argument of a command that takes one context.
func (f *Factory) CompleteContext(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.CompleteContexts(cmd, args, toComplete)
}

// CompleteContexts completes contexts that are not among the arguments yet.
func (f *Factory) CompleteContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.kubeconfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// CompleteFlagContext completes the value of a flag that takes one context.
func (f *Factory) CompleteFlagContext(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.CompleteContexts(cmd, nil, toComplete)
}

// CompleteContextList completes the value of a flag that takes several contexts,
// separated by commas.
func (f *Factory) CompleteContextList(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeLast(toComplete, func(given []string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.CompleteContexts(cmd, slices.Concat(args, given), "")
	})
}

// CompleteList completes the value of a flag that takes several names, separated by commas.
func (f *Factory) CompleteList(list NameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLast(toComplete, func(given []string) ([]cobra.Completion, cobra.ShellCompDirective) {
			names, directive := f.Complete(cmd.Context(), list)
			return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) }), directive
		})
	}
}

// completeLast completes the last of several values that are separated by commas. Shells expect completions that
// start with those that are given already.
func completeLast(toComplete string, complete func(given []string) ([]cobra.Completion, cobra.ShellCompDirective)) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	values, directive := complete(strings.Split(before, ","))
	for i := range values {
		values[i] = before + values[i]
	}
	return values, directive
}

// CompleteNamespaces completes the namespaces of the current cluster.
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
