// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"fmt"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
)

// podState is what the Pods of CoreDNS do.
type podState struct {
	coredns.Pods
	// serving are the Pods that serve the zone, and silent those that do not.
	serving, silent []string
	// failures are why others could not be asked.
	failures []error
}

// plan says what a command does. It follows from what is observed alone, so that one
// that was interrupted, or did not succeed, continues when it is repeated.
type plan struct{ grant, write, restart, wait, revoke bool }

// planToEnable returns what lets CoreDNS serve the zone.
func planToEnable(s *coredns.Setup, allowed bool, pods podState) (plan, error) {
	p := plan{grant: !allowed, write: s.Served == "", wait: s.Unasked == ""}
	// Pods that are being replaced read the Corefile of now.
	p.restart = !s.Reloads && (p.write || pods.RolledOut && len(pods.silent) > 0)
	if s.Misplaced != "" {
		return plan{}, fmt.Errorf("nothing was changed: %s: run `kubectl mcs dns disable`, and then this command again", s.Misplaced)
	}
	if !p.write {
		return p, nil
	}
	if reason := refusal(s, pods); reason != "" {
		return plan{}, fmt.Errorf("nothing was changed: %s: add this server block by hand, if there is none for %s:\n%s", reason, coredns.Zone, s.Block)
	}
	if len(pods.serving)+len(pods.silent) > 0 {
		return p, nil
	}
	if len(pods.failures) > 0 {
		return plan{}, fmt.Errorf("nothing was changed: no Pod of %s could be asked: %w", s.Workload, errors.Join(pods.failures...))
	}
	return plan{}, fmt.Errorf("nothing was changed: %s has no ready Pod", s.Workload)
}

// refusal says why a server block is not added, or nothing. CoreDNS rejects a second one
// for a zone, and does not start with it.
func refusal(s *coredns.Setup, pods podState) string {
	switch {
	case s.Doubt != "":
		return s.Doubt
	case s.Unasked != "":
		return s.Unasked + ", so that the result cannot be checked through the Kubernetes API"
	case len(pods.serving) > 0:
		return fmt.Sprintf("Pod %s serves %s, but the server block was not found in %s: it was removed a moment ago, in which case wait or restart %s, or it is elsewhere", pods.serving[0], coredns.Zone, &s.Target, s.Workload)
	}
	return ""
}

// planToDisable returns what makes CoreDNS stop serving the zone, and then revokes what
// was granted: CoreDNS must not lose the permission while it still uses it.
func planToDisable(s *coredns.Setup, granted bool, pods podState) (plan, error) {
	p := plan{write: s.Served != "", revoke: granted}
	p.restart = !s.Reloads && (p.write || pods.RolledOut && len(pods.serving) > 0)
	p.wait = (p.write || p.revoke || len(pods.serving) > 0) && s.Unasked == ""
	switch {
	case p.write && !s.Managed:
		return plan{}, fmt.Errorf("nothing was changed: %s is served by %s, but not by what `kubectl mcs dns enable` added, or the comments around it were lost: %s", coredns.Zone, s.Served, s.Removal)
	case p.write && s.Unasked != "":
		return plan{}, fmt.Errorf("nothing was changed: %s, so that the result cannot be checked through the Kubernetes API: in %s, %s", s.Unasked, s.Served, s.Removal)
	case !p.write && s.Doubt != "" && len(pods.serving) > 0:
		return plan{}, fmt.Errorf("nothing was changed: Pod %s serves %s, but the server block was not found: %s: remove it by hand", pods.serving[0], coredns.Zone, s.Doubt)
	}
	return p, nil
}
