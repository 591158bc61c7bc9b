// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

// column is a column of the matrix.
type column struct {
	means  Means
	family corev1.IPFamily
}

func (c column) String() string {
	if c.family == "" {
		return string(podtrial.SRV)
	}
	return fmt.Sprintf("%s/%s", c.means, c.family)
}

var (
	addressColumns = []column{{DNS, corev1.IPv4Protocol}, {DNS, corev1.IPv6Protocol}}
	srvColumn      = column{means: DNS}
	requestColumns = []column{{TCP, corev1.IPv4Protocol}, {UDP, corev1.IPv4Protocol}, {TCP, corev1.IPv6Protocol}, {UDP, corev1.IPv6Protocol}}
)

// cell returns the text of a cell: that of the worst check in it.
func cell(checks []Check, path Path, from, to string, at column) string {
	var found []*Check
	for i := range checks {
		if check := &checks[i]; check.Path == path && check.From == from && check.To == to && check.Means == at.means && check.Family == at.family {
			found = append(found, check)
		}
	}
	text := "-"
	for _, worst := range []struct {
		result Result
		text   string
	}{{Failed, "failed"}, {NotTried, "?"}, {Pending, "?"}} {
		if slices.ContainsFunc(found, func(check *Check) bool { return check.Result == worst.result }) {
			return worst.text
		}
	}
	for _, check := range found {
		if check.Result == OK {
			text = formatLatency(check.LatencyMilliseconds)
		}
	}
	return text
}

func formatLatency(value *float64) string {
	switch {
	case value == nil:
		return "ok"
	case *value < 10:
		return fmt.Sprintf("%.1fms", *value)
	}
	return fmt.Sprintf("%.0fms", *value)
}

// matrix returns the rows of a table, with titles.
func matrix(report Report, path Path, pairs bool, columns []column) [][]string {
	titles := []string{"FROM"}
	if pairs {
		titles = append(titles, "TO")
	}
	for _, each := range columns {
		titles = append(titles, each.String())
	}
	rows := [][]string{titles}
	for _, from := range report.Clusters {
		targets := []string{""}
		if pairs {
			targets = nil
			for _, to := range report.Clusters {
				targets = append(targets, to.ClusterID)
			}
		}
		for _, to := range targets {
			row := []string{from.ClusterID}
			if pairs {
				row = append(row, to)
			}
			for _, each := range columns {
				row = append(row, cell(report.Checks, path, from.ClusterID, to, each))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// writeReport writes a report as text.
func writeReport(out io.Writer, report Report) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintln(out, printer.Escape(fmt.Sprintf(format, args...)))
		errs = append(errs, err)
	}
	table := func(rows [][]string) { errs = append(errs, printer.WriteTable(out, "", rows)) }
	line("ClusterSet %s, service %s in namespace %s", report.ClusterSet, report.Service, report.Namespace)
	for _, cluster := range report.Clusters {
		line("Cluster %s: image %s", cluster.ClusterID, cluster.Image)
	}
	if len(report.NotTested) > 0 {
		line("Members that were not tested, because there is no context for them: %s", strings.Join(report.NotTested, ", "))
	}
	line("")
	line("Server by server (headless)")
	table(matrix(report, Headless, true, slices.Concat(addressColumns, requestColumns)))
	line("")
	line("ClusterSet IP")
	rows := matrix(report, ClusterSetIP, false, slices.Concat(addressColumns, []column{srvColumn}, requestColumns))
	for i := range rows {
		text := "ANSWERED-BY"
		if i > 0 {
			text = answeredBy(slices.DeleteFunc(slices.Clone(report.Checks), func(check Check) bool { return check.Path != ClusterSetIP || check.From != rows[i][0] }))
		}
		rows[i] = append(rows[i], text)
	}
	table(rows)
	line("")
	line("All servers by one name (headless)")
	table(matrix(report, Headless, false, slices.Concat(addressColumns, []column{srvColumn})))
	line("")
	writeFailures(line, report)
	return errors.Join(errs...)
}

// writeFailures writes what failed, and what to do.
func writeFailures(line func(format string, args ...any), report Report) {
	if report.Passed {
		line("Everything that applies works.")
		return
	}
	failures := failuresOf(report.Checks)
	line("Failures:")
	for _, failed := range failures {
		where := failed.from
		if failed.to != "" {
			where += " → " + failed.to
		}
		mark := "✗"
		if !failed.tried {
			mark = "?"
		}
		slices.Sort(failed.what)
		line("  %s %s, %s: %s", mark, where, strings.Join(slices.Compact(failed.what), ", "), failed.reason)
	}
	line("What to do:")
	contexts := map[string]string{}
	var all []string
	for _, cluster := range report.Clusters {
		contexts[cluster.ClusterID] = cluster.Context
		all = append(all, cluster.Context)
	}
	var seen []string
	for _, failed := range failures {
		command := "kubectl mcs doctor --context " + contexts[failed.from]
		if others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == contexts[failed.from] }); len(others) > 0 {
			command += " --contexts " + strings.Join(others, ",")
		}
		if slices.Contains(seen, command) {
			continue
		}
		seen = append(seen, command)
		line("  `%s` checks the ClusterSet as cluster %s sees it.", command, failed.from)
	}
	line("  `kubectl mcs test %s --keep` leaves the service, so that `kubectl mcs doctor` can find out at which hop it is broken.", strings.Join(all, " "))
}
