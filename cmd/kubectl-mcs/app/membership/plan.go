// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"io"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// Observed returns the observed state of clusters.
func Observed(clusters []*Cluster) []plan.Cluster {
	var observed []plan.Cluster
	for _, c := range clusters {
		observed = append(observed, c.Observed)
	}
	return observed
}

// PrintPlan prints a plan, or the given text if the plan has no steps. It
// reports whether the command ends here.
func PrintPlan(f *cluster.Factory, planned plan.Plan, output printer.Output, dryRun bool, nothing string) (bool, error) {
	PrintWarnings(f, planned)
	err := output.Print(f.Streams.Out, planned, func(out io.Writer) error {
		if len(planned.Steps) == 0 {
			fmt.Fprintln(out, nothing)
			return nil
		}
		fmt.Fprintln(out, "Plan:")
		for _, step := range planned.Steps {
			fmt.Fprintf(out, "  %s: %s\n", step.Context, printer.Escape(step.String()))
		}
		if !dryRun { // the progress follows
			fmt.Fprintln(out)
		}
		return nil
	})
	done := dryRun || len(planned.Steps) == 0
	if done {
		PrintNotes(f, planned)
	}
	return done, err
}

// PrintWarnings prints the warnings of a plan.
func PrintWarnings(f *cluster.Factory, planned plan.Plan) {
	for _, warning := range planned.Warnings {
		fmt.Fprintln(f.Streams.ErrOut, "Warning:", printer.Escape(warning))
	}
}

// PrintNotes prints the notes of a plan that was carried out, or is not going to be.
func PrintNotes(f *cluster.Factory, planned plan.Plan) {
	for _, note := range planned.Notes {
		fmt.Fprintln(f.Streams.ErrOut, "Note:", printer.Escape(note))
	}
}
