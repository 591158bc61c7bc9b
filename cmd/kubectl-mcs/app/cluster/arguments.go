// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// completionTimeout is how long a shell waits for names to offer.
const completionTimeout = 5 * time.Second

// SingleServiceArg is for commands that are about one Service.
func SingleServiceArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Service, and was given %d: see `%s --help`", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	if problems := validation.IsDNS1123Label(args[0]); len(problems) > 0 {
		return fmt.Errorf("%q cannot be the name of a Service: %s", args[0], strings.Join(problems, "; "))
	}
	return nil
}

// CompleteName offers names of the namespace for a command that takes one.
func (f *Factory) CompleteName(names NameLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.Complete(cmd.Context(), names)
	}
}

// NameLister asks a cluster for names.
type NameLister func(ctx context.Context, c *Cluster, namespace string) ([]string, error)

// Complete offers names, unless it takes too long to find them.
func (f *Factory) Complete(ctx context.Context, names NameLister) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, namespace, err := f.Current()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	offered, err := names(ctx, c, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
