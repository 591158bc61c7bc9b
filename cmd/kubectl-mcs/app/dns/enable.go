// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const enableLong = `Let CoreDNS serve the names of the ClusterSet.

The command adds a server block for clusterset.local to the Corefile of the cluster DNS
and leaves everything else in it as it is. It lets CoreDNS read ServiceImports if it
cannot do so yet. Then it waits until all Pods of CoreDNS answer. If they do not notice
changes of the Corefile, it restarts them. If none of them uses the change in time, it
restores the Corefile.

If the Corefile belongs to somebody who would undo the change, such as Helm or Argo CD,
the command changes nothing, and prints what to do. The same holds if it is not certain
that the change has the intended effect.`

const enableExample = `  # Enable DNS of the ClusterSet in the cluster of context east
  kubectl mcs dns enable --context east

  # Print the plan without changing anything
  kubectl mcs dns enable --dry-run`

const disableLong = `Stop serving the names of the ClusterSet.

The command removes what enable added: the server block of clusterset.local, and the
permission to read ServiceImports. Nothing else in the Corefile is changed.`

const disableExample = `  # Disable DNS of the ClusterSet in the cluster of context east
  kubectl mcs dns disable --context east`

// step is a change of the cluster.
type step struct {
	description string
	do          func(context.Context) error
}

func newEnableCommand(f *cluster.Factory) *cobra.Command {
	cmd, o := newSubcommand(f, &cobra.Command{
		Use: "enable", Short: "Let CoreDNS serve the names of the ClusterSet", Long: enableLong, Example: enableExample,
	}, (*options).enable)
	o.addChangeFlags(cmd)
	cmd.Flags().StringVar(&o.coreDNSVersion, "coredns-version", "", "The version of CoreDNS, if neither its image nor its metrics tell it.")
	return cmd
}

func newDisableCommand(f *cluster.Factory) *cobra.Command {
	cmd, o := newSubcommand(f, &cobra.Command{
		Use: "disable", Short: "Stop serving the names of the ClusterSet", Long: disableLong, Example: disableExample,
	}, (*options).disable)
	o.addChangeFlags(cmd)
	return cmd
}

func (o *options) enable(ctx context.Context, c *cluster.Cluster) error {
	s, err := o.observe(ctx, c)
	if err != nil {
		return err
	}
	pods, err := o.observePods(ctx, c, s)
	if err != nil {
		return err
	}
	if err := o.checkVersion(ctx, c, s, pods.Ready); err != nil {
		return err
	}
	if s.Served == "" && s.Owner != nil && s.Doubt == "" && len(pods.serving) == 0 {
		return o.instruct(c, s, "add", "enable")
	}
	if _, err := pickImport(ctx, c); err != nil {
		return err
	}
	allowed, err := mayRead(ctx, c, s)
	if err != nil {
		return err
	}
	todo, err := planToEnable(s, allowed, pods)
	if err != nil {
		return fmt.Errorf("context %q: %w", c.Context, err)
	}
	o.warn(ctx, c, s)
	return o.doEnable(ctx, c, s, todo)
}

// checkVersion returns an error if CoreDNS may be too old for a server block that it
// does not have yet.
func (o *options) checkVersion(ctx context.Context, c *cluster.Cluster, s *coredns.Setup, pods []string) error {
	if err := o.findVersion(ctx, s, pods); err != nil {
		return err
	}
	if err := s.CheckVersion(); err != nil {
		return fmt.Errorf("context %q: %w", c.Context, err)
	}
	if s.Version == nil && s.Served == "" {
		return fmt.Errorf("context %q: neither the image %q of CoreDNS nor its metrics tell its version, which must be %s or later: tell it with --coredns-version", c.Context, s.Image, coredns.MinVersion)
	}
	return nil
}

// usualMemory is the memory limit of CoreDNS in kubeadm.
var usualMemory = resource.MustParse("170Mi")

// warn prints what is no reason not to enable DNS.
func (o *options) warn(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) {
	if limit := s.MemoryLimit; limit != nil && !limit.IsZero() && limit.Cmp(usualMemory) < 0 {
		fmt.Fprintf(o.Streams.ErrOut, "Warning: CoreDNS has a memory limit of %s; the server block makes it keep Services, Namespaces and imports in memory once more\n", limit)
	}
	for _, f := range nodeCaches(ctx, c) {
		if !f.OK {
			fmt.Fprintf(o.Streams.ErrOut, "Warning: %s\n", printer.Escape(f.String()))
		}
	}
}

func (o *options) doEnable(ctx context.Context, c *cluster.Cluster, s *coredns.Setup, todo plan) error {
	var written *corev1.ConfigMap
	steps, err := stepsToEnable(c, s, todo, &written)
	if err != nil {
		return err
	}
	switch {
	case len(steps) > 0:
		if done, err := o.perform(ctx, c, steps, s.Block, "Let CoreDNS serve "+coredns.Zone); !done || err != nil {
			return err
		}
	case o.dryRun:
		fmt.Fprintf(o.Streams.Out, "DNS of the ClusterSet is already enabled in the cluster of context %q: %s has the server block.\n", c.Context, s.Served)
		return nil
	}
	if !todo.wait {
		fmt.Fprintf(o.Streams.Out, "%s has the server block. Whether CoreDNS uses it is not known: %s.\n", s.Served, s.Unasked)
		return nil
	}
	if err := o.await(ctx, "wait until CoreDNS serves "+coredns.Zone, func(ctx context.Context) error { return failures(o.askPods(ctx, c, s)) }); err != nil {
		return o.undo(ctx, c, s, written, err)
	}
	fmt.Fprintf(o.Streams.Out, "DNS of the ClusterSet is enabled in the cluster of context %q.\n", c.Context)
	return nil
}

// undo restores the ConfigMap that was written if no Pod uses it: CoreDNS may reject it,
// and would not start again with it.
func (o *options) undo(ctx context.Context, c *cluster.Cluster, s *coredns.Setup, written *corev1.ConfigMap, reason error) error {
	kept := fmt.Sprintf("the changes are not undone: `%s` shows the state, and `%s` undoes them", o.command(c, "check"), o.command(c, "disable"))
	if written == nil || ctx.Err() != nil {
		return fmt.Errorf("%w\n%s", reason, kept)
	}
	state, err := o.observePods(ctx, c, s)
	if err != nil || len(state.serving) > 0 {
		return fmt.Errorf("%w\n%s", reason, kept)
	}
	if err := restore(ctx, c, &s.Target, written); err != nil {
		return fmt.Errorf("%w\n%s could not be restored: %w\n%s", reason, &s.Target, err, kept)
	}
	return fmt.Errorf("%w\nno Pod uses the change, so that %s was restored; `%s` also revokes the permission to read ServiceImports, if it was granted", reason, &s.Target, o.command(c, "disable"))
}

// stepsToEnable returns the steps of a plan. The ConfigMap that results is stored in
// written.
func stepsToEnable(c *cluster.Cluster, s *coredns.Setup, todo plan, written **corev1.ConfigMap) ([]step, error) {
	var steps []step
	if todo.grant {
		steps = append(steps, step{
			fmt.Sprintf("let ServiceAccount %s/%s list and watch ServiceImports (ClusterRole %s)", s.Workload.Namespace, s.Workload.ServiceAccount(), roleName(s.Workload)),
			func(ctx context.Context) error { return grant(ctx, c, s.Workload) },
		})
	}
	if todo.write {
		text, err := s.Enabled()
		if err != nil {
			return nil, fmt.Errorf("context %q: %s: %w", c.Context, &s.Target, err)
		}
		steps = append(steps, step{
			fmt.Sprintf("add a server block for %s to %s", coredns.Zone, &s.Target),
			func(ctx context.Context) (err error) {
				*written, err = write(ctx, c, &s.Target, text)
				return err
			},
		})
	}
	if todo.restart {
		steps = append(steps, restartStep(c, s))
	}
	return steps, nil
}

// restartStep is required if CoreDNS does not notice changes.
func restartStep(c *cluster.Cluster, s *coredns.Setup) step {
	return step{
		fmt.Sprintf("restart %s, because it does not reload its Corefile", s.Workload),
		func(ctx context.Context) error { return restart(ctx, c, s.Workload, time.Now()) },
	}
}

func (o *options) disable(ctx context.Context, c *cluster.Cluster) error {
	s, err := o.observe(ctx, c)
	if err != nil {
		return err
	}
	if s.Served != "" && s.Owner != nil {
		return o.instruct(c, s, "remove", "disable")
	}
	granted, err := isGranted(ctx, c, s.Workload)
	if err != nil {
		return err
	}
	pods, err := o.observePods(ctx, c, s)
	if err != nil {
		return err
	}
	todo, err := planToDisable(s, granted, pods)
	if err != nil {
		return fmt.Errorf("context %q: %w", c.Context, err)
	}
	steps, err := o.stepsToDisable(c, s, todo)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		fmt.Fprintf(o.Streams.Out, "DNS of the ClusterSet is not enabled in the cluster of context %q.\n", c.Context)
		return nil
	}
	if done, err := o.perform(ctx, c, steps, "", "Stop serving "+coredns.Zone); !done || err != nil {
		return err
	}
	fmt.Fprintf(o.Streams.Out, "DNS of the ClusterSet is disabled in the cluster of context %q.\n", c.Context)
	return nil
}

func (o *options) stepsToDisable(c *cluster.Cluster, s *coredns.Setup, todo plan) ([]step, error) {
	var steps []step
	if todo.write {
		text, err := s.Disabled()
		if err != nil {
			return nil, fmt.Errorf("context %q: %s: %w", c.Context, &s.Target, err)
		}
		steps = append(steps, step{
			fmt.Sprintf("remove the server block for %s from %s", coredns.Zone, &s.Target),
			func(ctx context.Context) error {
				_, err := write(ctx, c, &s.Target, text)
				return err
			},
		})
	}
	if todo.restart {
		steps = append(steps, restartStep(c, s))
	}
	if todo.wait {
		steps = append(steps, step{"wait until CoreDNS does not serve " + coredns.Zone, func(ctx context.Context) error {
			return o.poll(ctx, func(ctx context.Context) error { return o.stillServing(ctx, c, s) })
		}})
	}
	if todo.revoke {
		steps = append(steps, step{
			"revoke the permission to read ServiceImports (ClusterRole " + roleName(s.Workload) + ")",
			func(ctx context.Context) error { return revoke(ctx, c, s.Workload) },
		})
	}
	return steps, nil
}

// instruct prints what to do about a Corefile that belongs to somebody else.
func (o *options) instruct(c *cluster.Cluster, s *coredns.Setup, verb, command string) error {
	fmt.Fprintf(o.Streams.Out, "ConfigMap %s/%s belongs to %s, who would undo changes.\n", s.Target.Namespace, s.Target.Name, printer.Escape(s.Owner.Name))
	if verb == "add" {
		fmt.Fprintf(o.Streams.Out, "Instead, %s:\n\n%s\n", s.Owner.Remedy, s.Block)
	} else {
		fmt.Fprintf(o.Streams.Out, "Where you added it: %s.\n", printer.Escape(s.Removal))
	}
	fmt.Fprintf(o.Streams.Out, "Then run `%s` again.\n", o.command(c, command))
	return fmt.Errorf("context %q: nothing was changed: ConfigMap %s/%s belongs to %s", c.Context, s.Target.Namespace, s.Target.Name, s.Owner.Name)
}

// perform prints the plan, asks for confirmation, and executes the steps. It reports
// whether it did.
func (o *options) perform(ctx context.Context, c *cluster.Cluster, steps []step, block, question string) (bool, error) {
	fmt.Fprintln(o.Streams.Out, "Plan:")
	for _, step := range steps {
		fmt.Fprintf(o.Streams.Out, "  %s: %s\n", c.Context, printer.Escape(step.description))
	}
	if block != "" {
		fmt.Fprintf(o.Streams.Out, "\nServer block:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  "))
	}
	fmt.Fprintln(o.Streams.Out)
	if o.dryRun {
		return false, nil
	}
	if !o.yes {
		if err := o.Confirm(fmt.Sprintf("%s in the cluster of context %q?", question, c.Context)); err != nil {
			return false, err
		}
	}
	for _, step := range steps {
		if err := o.Progress.Run(c.Context+": "+step.description, func() error { return step.do(ctx) }); err != nil {
			return false, fmt.Errorf("%w\ncompleted steps are not rolled back: run the command again to complete the others", err)
		}
	}
	return true, nil
}

// await shows the progress of a wait.
func (o *options) await(ctx context.Context, what string, check func(context.Context) error) error {
	return o.Progress.Run(what, func() error { return o.poll(ctx, check) })
}

const pollInterval = time.Second

// poll repeats a check until it succeeds, or fails for a reason that does not change.
func (o *options) poll(ctx context.Context, check func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var reason error
	for {
		err := check(waiting)
		var final *finalError
		if err == nil || errors.As(err, &final) {
			return err
		}
		// A check that is cut off by the end of the wait says nothing.
		if reason == nil || waiting.Err() == nil {
			reason = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted while waiting: %w", ctx.Err())
		case <-waiting.Done():
			return fmt.Errorf("CoreDNS does not use the change after %s: %w", o.timeout, reason)
		case <-time.After(pollInterval):
		}
	}
}

// finalError is an error that a retry does not solve.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }
