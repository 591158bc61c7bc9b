// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

var marks = map[diagnosis.Result]string{diagnosis.OK: "✓", diagnosis.Warning: "!", diagnosis.Broken: "✗", diagnosis.NotChecked: "?"}

// consequence marks what follows from something else that is broken.
const consequence = "↳"

// maxMessage limits how much is shown of what a cluster says. The whole text is in JSON and YAML.
const maxMessage = 1000

// hopWidth is that of the longest name of a hop.
const hopWidth = len("registration")

// writeReport writes a report as text.
func writeReport(out io.Writer, report diagnosis.Report) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintln(out, printer.Escape(fmt.Sprintf(format, args...)))
		errs = append(errs, err)
	}
	line("%s", heading(report))
	line("")
	for _, check := range report.Checks {
		mark := marks[check.Result]
		if check.ConsequenceOf != "" {
			mark = consequence
		}
		line("%s %-*s  %s", mark, hopWidth, check.Hop, short(check))
		// What to do about the first thing that is broken is below.
		if do := check.WhatToDo(); do != "" && check.ConsequenceOf == "" && (report.FirstBroken == nil || check != *report.FirstBroken) {
			line("  %-*s  → %s", hopWidth, "", do)
		}
	}
	line("")
	switch found := report.FirstBroken; {
	case found != nil:
		line("First broken hop: %s (context %s)", found.Hop, found.Context)
		line("  What is wrong: %s", short(*found))
		line("  What to do:    %s", cmp.Or(found.WhatToDo(), "see the documentation"))
		if report.Responds {
			line("  The service responds nevertheless.")
		}
	case report.Verdict == diagnosis.VerdictOK && report.Responds:
		line("Nothing is broken: the service responds.")
	case report.Verdict == diagnosis.VerdictOK:
		line("Nothing is broken.")
	default:
		line("Nothing is known to be broken, but what decides could not be read.")
	}
	return errors.Join(errs...)
}

func short(check diagnosis.Check) string { return truncate.Characters(check.String(), maxMessage) }

func heading(report diagnosis.Report) string {
	view := fmt.Sprintf("as seen by the cluster of context %s", report.Context)
	if report.ClusterID != "" && report.ClusterSet != "" {
		view = fmt.Sprintf("as seen by cluster %s in ClusterSet %s (context %s)", report.ClusterID, report.ClusterSet, report.Context)
	}
	if report.Service == "" {
		return "ClusterSet, " + view
	}
	return fmt.Sprintf("Service %s in namespace %s, %s", report.Service, report.Namespace, view)
}
