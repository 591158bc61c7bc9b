// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/preflight"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// checkOnly prints whether the clusters are ready to join. The error says that they are not.
func (o *options) checkOnly(ctx context.Context, contexts []string, allowed map[string][]string) error {
	facts, err := preflight.Observe(ctx, o.Factory, contexts, o.servers)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
	for i := range facts {
		facts[i].Hub = facts[i].Context == o.hub
		if cluster := facts[i].Membership; cluster != nil {
			cluster.Hub, cluster.AllowedCIDRs, cluster.Flags = facts[i].Hub, strings.Join(allowed[cluster.Context], ","), o.given(cluster.Context, i == 0)
		}
	}
	findings := plan.Check(plan.Joining{
		ClusterSet: o.clusterSet, IDs: o.ids, Repoint: o.repoint, ClientVersion: componentversion.Get().GitVersion,
	}, facts)
	counts := map[plan.Result]int{}
	for _, finding := range findings {
		counts[finding.Result]++
	}
	if err := o.output.Print(o.Streams.Out, map[string]any{"findings": findings}, func(out io.Writer) error { return writeFindings(out, findings, counts) }); err != nil {
		return err
	}
	if problems := counts[plan.Problem]; problems > 0 {
		subject := "the clusters are"
		if len(contexts) == 1 {
			subject = "the cluster is"
		}
		return fmt.Errorf("%s not ready to join ClusterSet %q: %s found; nothing was changed", subject, o.clusterSet, count(problems, "problem"))
	}
	return nil
}

var marks = map[plan.Result]string{plan.OK: "✓", plan.Warning: "!", plan.Problem: "✗", plan.NotChecked: "?"}

// writeFindings writes findings as text.
func writeFindings(out io.Writer, findings []plan.Finding, counts map[plan.Result]int) error {
	var errs []error
	for _, finding := range findings {
		_, err := fmt.Fprintf(out, "%s %s\n", marks[finding.Result], printer.Escape(finding.String()))
		errs = append(errs, err)
	}
	_, err := fmt.Fprintf(out, "\n%s (✗), %s (!), %d not checked (?)\n", count(counts[plan.Problem], "problem"), count(counts[plan.Warning], "warning"), counts[plan.NotChecked])
	return errors.Join(append(errs, err)...)
}

func count(number int, what string) string {
	if number == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", number, what)
}
