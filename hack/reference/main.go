// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Reference prints docs/reference.md: all commands, flags, types of the API and metrics, as the
// code declares them. Run it in the root of the repository.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	kubectlmcs "github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	apiserver "github.com/mcs-apiserver/mcs-apiserver/cmd/mcs-apiserver/app"
	controller "github.com/mcs-apiserver/mcs-apiserver/cmd/mcs-controller/app"
)

const introduction = `# Reference

This page is generated from the code (` + "`make generate`" + `). What conditions and Events say is in [Conditions and Events](conditions.md).

`

func main() {
	text, err := reference(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(text)
}

// reference returns the page for a repository.
func reference(root string) ([]byte, error) {
	if err := os.Unsetenv("POD_NAMESPACE"); err != nil { // defaults depend on it
		return nil, err
	}
	var page bytes.Buffer
	page.WriteString(introduction)
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}
	writeCommands(&page, kubectlmcs.NewCommand(streams))
	writeProgram(&page, apiserver.NewCommand())
	writeProgram(&page, controller.NewCommand())
	writeTypes(&page)
	found, err := metricsIn(root)
	if err != nil {
		return nil, err
	}
	writeMetrics(&page, found)
	return page.Bytes(), nil
}

// writeCommands writes a command and all below it.
func writeCommands(page *bytes.Buffer, root *cobra.Command) {
	fmt.Fprintf(page, "## kubectl mcs\n\n%s. These flags are those of all commands:\n\n", root.Short)
	writeFlags(page, root.PersistentFlags())
	for _, command := range root.Commands() {
		writeCommand(page, command)
	}
}

func writeCommand(page *bytes.Buffer, command *cobra.Command) {
	if !command.IsAvailableCommand() {
		return
	}
	fmt.Fprintf(page, "### %s\n\n%s.\n\n```\n%s\n```\n\n", command.CommandPath(), command.Short, command.UseLine())
	if flags := command.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		writeFlags(page, flags)
	}
	for _, below := range command.Commands() {
		writeCommand(page, below)
	}
}

// writeProgram writes the flags of a program.
func writeProgram(page *bytes.Buffer, command *cobra.Command) {
	fmt.Fprintf(page, "## %s\n\n", command.Name())
	writeFlags(page, command.Flags())
	for _, below := range command.Commands() {
		writeCommand(page, below)
	}
}

func writeFlags(page *bytes.Buffer, flags *pflag.FlagSet) {
	page.WriteString("| Flag | Default | Description |\n| --- | --- | --- |\n")
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" || flag.Name == "help" || flag.Name == "version" {
			return
		}
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(flag)
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", strings.TrimSpace(name+" "+kind), code(flag.DefValue), cell(usage))
	})
	page.WriteString("\n")
}

// code returns a value for a table, nothing for one that is not set.
func code(value string) string {
	switch value {
	case "", "[]", "false", "0s", "0":
		return ""
	}
	return "`" + strings.ReplaceAll(value, "|", `\|`) + "`"
}

// cell returns a text for a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(strings.Join(strings.Fields(text), " "))
}
