// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Limits for the text output. JSON and YAML are complete.
const (
	maxCell    = 40
	maxColumns = 8
	maxRecords = 20
	maxAnswers = 3
	maxMessage = 400
)

// textWriter writes a report as text and keeps the first error.
type textWriter struct {
	out io.Writer
	now time.Time
	err error
}

// writeExplanation writes a report as text.
func writeExplanation(out io.Writer, report Explanation, now time.Time) error {
	w := &textWriter{out: out, now: now}
	w.line("Service %s in namespace %s, %s", report.Service, report.Namespace, report.viewpoint())
	w.exports(report)
	w.properties(report)
	w.endpoints(report)
	w.dns(report)
	w.client(report)
	return w.err
}

func (r Explanation) viewpoint() string {
	if r.ClusterID == "" {
		return fmt.Sprintf("as seen by the cluster of context %s", r.Context)
	}
	return fmt.Sprintf("as seen by cluster %s in ClusterSet %s (context %s)", r.ClusterID, r.ClusterSet, r.Context)
}

func (w *textWriter) line(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintln(w.out, printer.Escape(fmt.Sprintf(format, args...)))
	}
}

func (w *textWriter) section(title string) {
	w.line("")
	w.line("%s", title)
}

func (w *textWriter) table(rows [][]string) {
	if w.err == nil {
		w.err = printer.WriteTable(w.out, "  ", rows)
	}
}

func (w *textWriter) exports(report Explanation) {
	w.section("Exports, by precedence:")
	rows := [][]string{{"CLUSTER", "SINCE", "AGE", "STATE", "READY/TOTAL ENDPOINTS"}}
	for _, export := range report.Exports {
		rows = append(rows, []string{
			export.Cluster, export.Since.UTC().Format(time.RFC3339), printer.Age(w.now, export.Since.Time), string(export.State),
			fmt.Sprintf("%d/%d", export.Ready, export.Total),
		})
	}
	w.table(rows)
	for _, export := range report.Exports {
		if export.ExportedTo != nil {
			to := "no other cluster"
			if len(*export.ExportedTo) > 0 {
				to = truncate.Characters(strings.Join(*export.ExportedTo, ", "), maxMessage) + " only"
			}
			w.line("  %s exports to %s", export.Cluster, to)
		}
	}
	if report.Limit != nil {
		w.line("  %s", truncate.Characters(capitalized(report.Limit.Message), maxMessage))
	}
}

func (w *textWriter) properties(report Explanation) {
	clusters, omitted := columns(report)
	w.section("Exported properties (! marks a conflict):")
	rows := [][]string{append(append([]string{"  PROPERTY"}, clusters...), "USED", "DECIDED BY")}
	for _, property := range report.Properties {
		row := []string{property.title()}
		for _, cluster := range clusters {
			row = append(row, truncate.Characters(property.Values[cluster], maxCell))
		}
		rows = append(rows, append(row, truncate.Characters(property.Used, maxCell), property.decidedBy()))
	}
	w.table(rows)
	w.omitted(omitted, "clusters")
	for _, conflict := range report.Conflicts {
		w.line("  %s: %s", conflict.Reason, truncate.Characters(conflict.Message, maxMessage))
	}
}

// title returns the title of the property. Labels and annotations are those of the
// ServiceExports, not those of the Services.
func (p propertyReport) title() string {
	mark, name := "  ", p.Name
	if p.Conflict {
		mark = "! "
	}
	if name == "labels" || name == "annotations" {
		name = "exported " + name
	}
	return mark + name
}

func (p propertyReport) decidedBy() string {
	switch p.Rule {
	case merge.Agreed:
		return "all agree"
	case merge.Union:
		return "union"
	case merge.Founding:
		return "founding export, " + p.Cluster
	}
	return "oldest export, " + p.Cluster
}

func (w *textWriter) endpoints(report Explanation) {
	if len(report.Endpoints) == 0 {
		return
	}
	clusters, omitted := columns(report)
	w.section("Ready/total endpoints by port (- if the cluster does not serve the port):")
	rows := [][]string{append([]string{"PORT", "IP FAMILY"}, clusters...)}
	for _, counts := range report.Endpoints {
		row := []string{"", counts.IPFamily}
		if !counts.Used {
			row[1] += ", not used"
		}
		if counts.Port != 0 {
			row[0] = exported.PortText(counts.Name, counts.Port, counts.Protocol)
		}
		for _, cluster := range clusters {
			row = append(row, counts.of(cluster))
		}
		rows = append(rows, row)
	}
	w.table(rows)
	w.omitted(omitted, "clusters")
}

func (r endpointsReport) of(cluster string) string {
	for _, count := range r.Clusters {
		if count.Cluster == cluster && count.Served {
			return fmt.Sprintf("%d/%d", count.Ready, count.Total)
		}
	}
	return ""
}

func (w *textWriter) dns(report Explanation) {
	if report.Import == nil {
		w.section("DNS names (not resolvable in this cluster):")
	} else {
		w.section("DNS names:")
	}
	shown := report.DNS[:min(len(report.DNS), maxRecords)]
	rows := [][]string{{"NAME", "TYPE", "ANSWER"}}
	for _, record := range shown {
		answers := record.Answers[:min(len(record.Answers), maxAnswers)]
		text := strings.Join(answers, ", ")
		if omitted := len(record.Answers) - len(answers); omitted > 0 {
			text += fmt.Sprintf(" and %d more", omitted)
		}
		rows = append(rows, []string{record.Name, record.Type, text})
	}
	w.table(rows)
	w.omitted(len(report.DNS)-len(shown), "names")
}

func (w *textWriter) client(report Explanation) {
	w.section("Import in this cluster:")
	if report.Import == nil {
		w.line("  Not imported: %s", report.NoImport)
	} else {
		w.imported(report.Import)
	}
	for _, member := range report.Disconnected {
		w.line("  Cluster %s is %s: %s", member.Cluster, member.State, truncate.Characters(member.Message, maxMessage))
	}
}

func (w *textWriter) imported(imported *importReport) {
	var ports []string
	for _, port := range imported.Ports {
		ports = append(ports, exported.PortText(port.Name, port.Port, port.Protocol))
	}
	affinity := string(imported.SessionAffinity)
	if config := imported.SessionAffinityConfig; config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil {
		affinity += fmt.Sprintf(" for %d s", *config.ClientIP.TimeoutSeconds)
	}
	w.table([][]string{
		{"Type:", string(imported.Type)},
		{"IPs:", strings.Join(imported.IPs, ", ")},
		{"Ports:", strings.Join(ports, ", ")},
		{"Session affinity:", affinity},
	})
	w.preference(imported)
	for _, condition := range imported.NotTrue {
		w.line("  %s is %s: %s: %s", condition.Type, condition.Status, condition.Reason, truncate.Characters(condition.Message, maxMessage))
	}
}

// preference writes which clusters are preferred, and which of them clients use.
func (w *textWriter) preference(imported *importReport) {
	if len(imported.ClusterPreference) == 0 {
		return
	}
	preference := clusterpreference.Preference{Tiers: imported.ClusterPreference}
	w.line("  Preferred clusters: %s; a tier needs %d ready endpoints", preference, imported.MinReady)
	if imported.ActiveTier != "" {
		w.line("  Active tier: %s: %s", imported.ActiveTier, truncate.Characters(imported.ActiveTierReason, maxMessage))
	}
}

func (w *textWriter) omitted(count int, what string) {
	if count > 0 {
		w.line("  ... and %d more %s (use -o yaml to print all)", count, what)
	}
}

// columns returns the clusters that get a column, by precedence, and the number of
// omitted ones. If there are too many, clusters that differ from the oldest export
// come first.
func columns(report Explanation) (clusters []string, omitted int) {
	for _, export := range report.Exports {
		clusters = append(clusters, export.Cluster)
	}
	if len(clusters) <= maxColumns {
		return clusters, 0
	}
	oldest := clusters[0]
	differs := func(cluster string) int {
		if cluster == oldest || slices.ContainsFunc(report.Properties, func(p propertyReport) bool { return p.Values[cluster] != p.Values[oldest] }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(clusters, func(a, b string) int { return cmp.Compare(differs(a), differs(b)) })
	return clusters[:maxColumns], len(clusters) - maxColumns
}
