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

// Observed are the clusters as they were found.
func Observed(sites []*Cluster) []plan.Cluster {
	var clusters []plan.Cluster
	for _, site := range sites {
		clusters = append(clusters, site.Found)
	}
	return clusters
}

// PrintPlan shows a plan, and says whether that was all there is to do.
func PrintPlan(f *cluster.Factory, planned plan.Plan, output printer.Output, dryRun bool, nothing string) (bool, error) {
	for _, warning := range planned.Warnings {
		fmt.Fprintln(f.Streams.ErrOut, "warning:", warning)
	}
	err := output.Print(f.Streams.Out, planned, func(out io.Writer) error {
		if len(planned.Steps) == 0 {
			fmt.Fprintln(out, nothing)
			return nil
		}
		fmt.Fprintln(out, "What is to be done:")
		for _, step := range planned.Steps {
			fmt.Fprintf(out, "  %s: %s\n", step.Context, step)
		}
		fmt.Fprintln(out)
		return nil
	})
	return dryRun || len(planned.Steps) == 0, err
}
