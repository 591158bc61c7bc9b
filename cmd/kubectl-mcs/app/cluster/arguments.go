// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// SingleServiceArg validates the arguments of commands that take the name of one
// Service.
func SingleServiceArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s requires exactly one Service name, got %d: see `%s --help`", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	if problems := validation.IsDNS1123Label(args[0]); len(problems) > 0 {
		return fmt.Errorf("%q is not a valid Service name: %s", args[0], strings.Join(problems, "; "))
	}
	return nil
}

// SingleContextArg validates the arguments of commands that take one context.
func SingleContextArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s requires exactly one context, got %d: `kubectl config get-contexts` lists all contexts", cmd.CommandPath(), len(args))
	}
	return nil
}
