// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests what artifacts/monitoring contains, with Prometheus itself.
package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile = "../../artifacts/monitoring/rules.yaml"
	testsFile = "rules_test.yaml"
	promtool  = "../../bin/test/promtool"
	runbooks  = "https://github.com/mcs-apiserver/mcs-apiserver/blob/main/docs/runbooks.md#"
)

// rule is an alert.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// read decodes a file, which must not contain anything else.
func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// rules returns all alerts.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var content struct {
		Groups []struct{ Rules []rule }
	}
	read(t, rulesFile, &content)
	for _, group := range content.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// R525: alerts fire for what they are about and for nothing else, name the member, and end when
// their cause does, or the member is removed.
func TestAlerts(t *testing.T) {
	if _, err := os.Stat(promtool); err != nil {
		t.Fatalf("build it with `make promtool`: %v", err)
	}
	for _, arguments := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", rulesFile}, {"test", "rules", testsFile}} {
		if output, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
	}
}

// R525: with the label that the documentation adds, alerts tell apart the clusters that one
// Prometheus scrapes.
func TestAlertsOfSeveralClusters(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^(sed -E .*) artifacts/monitoring/rules.yaml$`).FindSubmatch(page)
	if command == nil {
		t.Fatal("docs/operations.md does not show how to add a label")
	}
	changed, err := exec.CommandContext(t.Context(), "bash", "-c", string(command[1])+" "+rulesFile).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tests, err := os.ReadFile("clusters_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"rules.yaml": changed, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "tests.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, output)
	}
}

// R525: there are tests of when each alert fires, and of when it does not.
func TestEveryAlertIsTested(t *testing.T) {
	var content struct {
		Tests []struct {
			AlertRuleTest []struct {
				AlertName string `json:"alertname"`
				ExpAlerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, testsFile, &content)
	type outcomes struct{ fires, ends bool }
	tested := map[string]outcomes{}
	for _, test := range content.Tests {
		for _, expected := range test.AlertRuleTest {
			so := tested[expected.AlertName]
			if len(expected.ExpAlerts) > 0 {
				so.fires = true
			} else if so.fires {
				so.ends = true
			}
			tested[expected.AlertName] = so
		}
	}
	for _, rule := range rules(t) {
		if tested[rule.Alert] != (outcomes{true, true}) {
			t.Errorf("%s has no test of when it fires, or none of when it ends", rule.Alert)
		}
	}
}

// R525: every alert has a severity, says what is wrong, and leads to a runbook that says what to
// do. There are no other runbooks.
func TestEveryAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for _, rule := range rules(t) {
		body, ok := sections[rule.Alert]
		delete(sections, rule.Alert)
		for _, part := range []string{"**Means**", "**See**", "**Do**"} {
			if !ok || !strings.Contains(body, part) {
				t.Errorf("the runbook of %s has no part %s", rule.Alert, part)
			}
		}
		if got, want := rule.Annotations["runbook_url"], runbooks+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s leads to %s, want %s", rule.Alert, got, want)
		}
		if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}
		for _, name := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[name], ".") {
				t.Errorf("%s of %s is no sentence: %q", name, rule.Alert, rule.Annotations[name])
			}
		}
	}
	if strings.Contains(string(text), "logs -n mcs-system deployment/") {
		t.Error("a runbook reads the log of one replica only, and another one may lead")
	}
	for title := range sections {
		t.Errorf("there is a runbook for %s, but no such alert", title)
	}
}

// R525: alerts are about metrics that are documented.
func TestMetricsOfAlertsAreDocumented(t *testing.T) {
	for _, rule := range rules(t) {
		expectDocumented(t, rule.Alert, rule.Expr)
	}
}

var (
	// series are the suffixes of the series of a histogram.
	series = regexp.MustCompile(`_(bucket|sum|count)$`)
	// others are not metrics of this project, but of Prometheus and of its client library.
	others = regexp.MustCompile(`^(ALERTS|process_.*)$`)
	// families are documented as one.
	families = regexp.MustCompile(`^(apiserver|workqueue)_.*$`)
)

// documented returns the labels of all metrics of this project, by name.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	reference, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(mcs_[a-z_]+)` \\| [a-z]+ \\| ([a-z, ]*) \\|").FindAllStringSubmatch(string(reference), -1) {
		labels[row[1]] = strings.Split(row[2], ", ")
	}
	return labels
}

// expectDocumented checks that a query can be parsed, and that its metrics are documented, with
// the labels by which it selects them.
func expectDocumented(t *testing.T, subject, query string) {
	t.Helper()
	operations, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", subject, err)
		return
	}
	known := documented(t)
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok || others.MatchString(selector.Name) {
			return nil
		}
		name := series.ReplaceAllString(selector.Name, "")
		if family := families.ReplaceAllString(name, "${1}_…"); family != name {
			if !strings.Contains(string(operations), "`"+family+"`") {
				t.Errorf("%s: metrics %s are not in docs/operations.md", subject, family)
			}
			return nil
		}
		labels, ok := known[name]
		if !ok {
			t.Errorf("%s: metric %s is not in docs/reference.md", subject, name)
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != "__name__" && !slices.Contains(labels, matcher.Name) {
				t.Errorf("%s: metric %s has no label %s", subject, name, matcher.Name)
			}
		}
		return nil
	})
}
