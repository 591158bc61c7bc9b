// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output is the flag --output of commands that print data.
type Output struct{ Format string }

var formats = []string{"json", "yaml"}

// AddTo adds the flag to a command.
func (o *Output) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Format, "output", "o", "", "Output format. One of: (json, yaml).")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
	}
}

// Validate validates the flag. Commands call it before they send requests.
func (o *Output) Validate() error {
	if o.Format != "" && !slices.Contains(formats, o.Format) {
		return fmt.Errorf("--output %q: must be json or yaml", o.Format)
	}
	return nil
}

// ValidatePlan validates the flag of a command that prints data only with --dry-run.
func (o *Output) ValidatePlan(dryRun bool) error {
	if o.Format != "" && !dryRun {
		return errors.Join(o.Validate(), errors.New("--output requires --dry-run"))
	}
	return o.Validate()
}

// Print writes data in the format of the flag, or as text by default.
func (o *Output) Print(out io.Writer, data any, text func(io.Writer) error) error {
	var encoded []byte
	var err error
	switch o.Format {
	case "json":
		encoded, err = json.MarshalIndent(data, "", "    ")
		encoded = append(encoded, '\n')
	case "yaml":
		if encoded, err = json.Marshal(data); err == nil {
			encoded, err = yaml.JSONToYAML([]byte(Escape(string(encoded)))) // YAML does not allow some characters
		}
	default:
		return text(out)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(encoded)
	return err
}
