// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the flag -o of commands that print data.
type output struct{ format string }

var formats = []string{"json", "yaml"}

// addTo adds the flag to a command.
func (o *output) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Print json or yaml instead of text for people.")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// validate is to be called before anything is asked or done.
func (o *output) validate() error {
	if o.format != "" && !slices.Contains(formats, o.format) {
		return fmt.Errorf("--output %q: must be json or yaml", o.format)
	}
	return nil
}

// print writes data in the format that was asked for, or as text for people.
func (o *output) print(out io.Writer, data any, text func(io.Writer) error) error {
	var encoded []byte
	var err error
	switch o.format {
	case "json":
		encoded, err = json.MarshalIndent(data, "", "    ")
		encoded = append(encoded, '\n')
	case "yaml":
		encoded, err = yaml.Marshal(data)
	default:
		return text(out)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(encoded)
	return err
}
