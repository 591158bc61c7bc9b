// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate implements `kubectl mcs migrate`.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
)

const long = `Move clusters from the CustomResourceDefinitions of another implementation to mcs-apiserver.

mcs-apiserver does not register group-versions that CustomResourceDefinitions (CRDs) serve.
This command moves ServiceExports, ClusterProfiles and PlacementDecisions to it, with their
age and UID, and then the group-versions, without a moment in which an import is missing. It
may be interrupted and repeated at any time: it looks at the clusters, does the next step,
and says what follows.

  1. mcs-controller copies the objects of the CRDs, and keeps the copies up to date. The rest
     of the API is registered.
  2. The clusters join one ClusterSet. The command prints how, with join --since, so that the
     oldest exports take precedence as before.
  3. The command checks that every ServiceImport of the CRDs is an import of mcs-apiserver,
     too, and refuses to go on if one would vanish, unless --allow-missing is given.
  4. Changes of the objects are refused for a moment, which takes about 15 seconds; the
     group-versions are handed over; watches of clients end, so that they continue with
     mcs-apiserver; and changes are allowed again.

Stop the controllers of the other implementation before you install mcs-apiserver, whose
admission policies keep them from writing Services and EndpointSlices of the API. What they
have written goes on serving. Without --back, nothing is deleted: the CRDs keep their objects.
Delete them when all clusters have moved and nobody wants to go back.

With --back, the group-versions return to the CRDs, whose objects become those of
mcs-apiserver before. Ages and UIDs of objects that the CRDs never had are lost, because the
kube-apiserver assigns new ones. The clusters stay in their ClusterSet.`

const example = `  # Move the clusters of contexts east and west, step by step
  kubectl mcs migrate east west

  # Print the next steps without changing anything
  kubectl mcs migrate east west --dry-run

  # Return to the CustomResourceDefinitions
  kubectl mcs migrate --back east west`

type options struct {
	*cluster.Factory
	back, allowMissing, dryRun, yes bool
	timeout                         time.Duration
}

// NewCommand returns the command migrate.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "migrate CONTEXT...",
		Short:   "Move clusters from the CRDs of another implementation to mcs-apiserver",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("at least one context is required: `kubectl config get-contexts` lists all contexts")
			}
			if slices.ContainsFunc(args, func(arg string) bool { return slices.Index(args, arg) != lastIndex(args, arg) }) {
				return errors.New("a context is given more than once")
			}
			return nil
		},
		ValidArgsFunction: f.CompleteContexts,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&o.back, "back", false, "If true, return to the CRDs.")
	cmd.Flags().BoolVar(&o.allowMissing, "allow-missing", false, "If true, go on although ServiceImports of the CRDs are no imports of mcs-apiserver, or objects are refused by it: they vanish.")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "If true, only print the next steps, without changing anything.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "If true, do not ask for confirmation.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait for mcs-controller to copy objects, and for imports to exist.")
	return cmd
}

func lastIndex(args []string, arg string) int {
	last := -1
	for i := range args {
		if args[i] == arg {
			last = i
		}
	}
	return last
}

func (o *options) run(ctx context.Context, contexts []string) error {
	var sites []*site
	for _, name := range contexts {
		s, err := observe(ctx, o.Factory, name)
		if err != nil {
			return err
		}
		sites = append(sites, s)
	}
	if err := o.clearAway(ctx, sites); err != nil {
		return err
	}
	if o.back {
		return o.goBack(ctx, sites)
	}
	if done, err := o.copy(ctx, sites); done || err != nil {
		return err
	}
	if joined, err := o.checkJoined(ctx, sites); !joined || err != nil {
		return err
	}
	if err := o.checkLosses(ctx, sites); err != nil {
		return err
	}
	return o.move(ctx, sites)
}

// step is a change of a cluster.
type step struct {
	*site
	description string
	do          func(context.Context) error
}

// carryOut prints steps, asks for confirmation, and carries them out. It reports whether they
// were.
func (o *options) carryOut(ctx context.Context, steps []step, consequences, question string) (bool, error) {
	fmt.Fprintln(o.Streams.Out, "Plan:")
	for _, step := range steps {
		fmt.Fprintf(o.Streams.Out, "  %s: %s\n", step.Context, printer.Escape(step.description))
	}
	if consequences != "" {
		fmt.Fprintf(o.Streams.Out, "\n%s", consequences)
	}
	if o.dryRun {
		return false, nil
	}
	fmt.Fprintln(o.Streams.Out)
	if !o.yes {
		if err := o.Confirm(question); err != nil {
			return false, err
		}
	}
	for _, step := range steps {
		if err := o.Progress.Run(step.Context+": "+step.description, func() error { return step.do(ctx) }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// copy begins to copy, and waits until everything is. It reports whether nothing else is to be
// done, now or at all.
func (o *options) copy(ctx context.Context, sites []*site) (done bool, err error) {
	var steps []step
	pending := false
	for _, s := range sites {
		if len(s.held) == 0 {
			continue
		}
		pending = true
		if !s.copying() {
			steps = append(steps,
				step{s, fmt.Sprintf("let mcs-controller copy the objects of CRDs, and register all but %s", names(s.held)), s.startCopying},
				step{s, "wait until the rest of the API is available", func(ctx context.Context) error { return s.awaitRegistration(ctx, o.timeout) }},
				step{s, "wait until all objects are copied", func(ctx context.Context) error { return s.awaitCopying(ctx, o.timeout) }},
			)
		}
	}
	if !pending {
		return true, o.complete(ctx, sites)
	}
	if len(steps) > 0 {
		did, err := o.carryOut(ctx, steps, "Objects of the CRDs are not changed, and clients notice nothing. Copies cannot be changed.\n", "Begin to copy?")
		if err != nil {
			return false, fmt.Errorf("%w\nrun migrate again to continue, or `kubectl mcs migrate --back` to stop copying", err)
		}
		if !did {
			return true, nil
		}
	}
	for _, s := range sites {
		if len(s.held) == 0 {
			continue
		}
		if len(steps) == 0 && !o.dryRun {
			if err := s.awaitCopying(ctx, o.timeout); err != nil {
				return false, err
			}
		}
		s.printReport(o.Streams.Out)
		if err := s.observeClusterSet(ctx); err != nil {
			return false, s.WrapError(err, advice)
		}
	}
	return false, nil
}

// complete removes what an interrupted migration left behind.
func (o *options) complete(ctx context.Context, sites []*site) error {
	var steps []step
	for _, s := range sites {
		steps = append(steps, s.completion()...)
	}
	if len(steps) > 0 {
		if did, err := o.carryOut(ctx, steps, "", "Complete the migration?"); !did || err != nil {
			return err
		}
	}
	fmt.Fprintln(o.Streams.Out, "No CRD serves the API: there is nothing to migrate.")
	return nil
}

// completion returns the steps that complete the migration of a cluster in which mcs-apiserver
// serves everything. It is unknown which of them were carried out before: they can be repeated.
func (s *site) completion() []step {
	var steps []step
	if s.copying() {
		steps = append(steps, step{s, "end watches of clients, and show them what was copied", func(ctx context.Context) error {
			return s.showClients(ctx, &observers{})
		}})
	}
	if s.mark != nil {
		steps = append(steps, step{s, "remove the ConfigMap and the service account of the migration", s.stopCopying})
	}
	return steps
}

// checkJoined prints how the clusters join one ClusterSet, unless they have.
func (o *options) checkJoined(ctx context.Context, sites []*site) (bool, error) {
	sets := map[string]bool{}
	for _, s := range sites {
		sets[s.clusterSet] = true
	}
	if len(sets) == 1 && (!sets[""] || len(sites) == 1) {
		return true, nil
	}
	var contexts []string
	var oldest time.Time
	name := "NAME"
	for _, s := range sites {
		contexts = append(contexts, s.Context)
		if s.clusterSet != "" {
			name = s.clusterSet
		}
		at, err := s.oldestExport(ctx)
		if err != nil {
			return false, s.WrapError(err, advice)
		}
		if !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	since := ""
	if !oldest.IsZero() {
		since = " --since " + oldest.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(o.Streams.Out, "\nThe clusters are not in one ClusterSet yet, so that mcs-apiserver imports nothing. Join them:\n\n"+
		"  kubectl mcs join --clusterset %s %s%s\n\nChoose cluster IDs with --id, and see `kubectl mcs join --help`. Run this command again after that.\n",
		printer.Escape(name), strings.Join(contexts, " "), since)
	return false, nil
}

const consequences = `Meanwhile, ServiceExports, ClusterProfiles and PlacementDecisions cannot be changed for about
15 seconds in each cluster. Afterwards:
  - mcs-apiserver serves the API. ServiceImports have the IPs of its derived Services.
  - The CRDs and their objects are kept, and not accessible any more. Delete them when nobody
    wants to go back.
`

// move hands the group-versions of all clusters over, one cluster after the other.
func (o *options) move(ctx context.Context, sites []*site) error {
	var steps []step
	for _, s := range sites {
		if len(s.held) == 0 {
			steps = append(steps, s.completion()...)
			continue
		}
		steps = append(steps,
			step{s, fmt.Sprintf("refuse changes, hand over %s, end watches of clients, and allow changes again", names(s.held)), func(ctx context.Context) error { return o.moveOne(ctx, s) }},
			step{s, "remove the ConfigMap and the service account of the migration", s.stopCopying},
		)
	}
	fmt.Fprintln(o.Streams.Out)
	if did, err := o.carryOut(ctx, steps, consequences, "Hand over?"); !did || err != nil {
		return err
	}
	fmt.Fprintln(o.Streams.Out, "mcs-apiserver serves the API in all clusters. Let DNS use it (`kubectl mcs dns check`), then remove the service discovery of the other implementation, and delete the CRDs when nobody wants to go back.")
	return nil
}

// moveOne hands over the group-versions of one cluster. If that fails, CRDs serve them as
// before, unless mcs-apiserver does already. Whatever happens, changes are allowed again.
func (o *options) moveOne(ctx context.Context, s *site) (err error) {
	// The watches outlive the steps, but not the command.
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, err := s.watchCRDs(watching)
	if err != nil {
		return err
	}
	defer opened.stop()
	defer func() {
		var undo error
		if err != nil {
			undo = s.keepCRDs(ctx) // before changes are allowed: they would not be copied
		}
		if undo = errors.Join(undo, s.thaw(ctx)); undo != nil || err != nil {
			err = errors.Join(err, undo, s.standing(ctx))
		}
	}()
	for _, do := range []func(context.Context) error{
		s.freeze,
		func(ctx context.Context) error { return s.awaitCopies(ctx, o.timeout) },
		func(ctx context.Context) error { return o.checkAgain(ctx, s) },
		s.handOver,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	if err := s.showClients(ctx, opened); errors.Is(err, errWatchesOpen) {
		fmt.Fprintf(o.Streams.ErrOut, "Warning: context %q: %v\n", s.Context, err)
	} else if err != nil {
		return err
	}
	return nil
}

// showClients lets clients of the CRDs continue with mcs-apiserver: their watches end, and then
// all objects change, so that clients that continue a watch see them.
func (s *site) showClients(ctx context.Context, opened *observers) error {
	open := s.endWatches(ctx, opened)
	if open != nil && !errors.Is(open, errWatchesOpen) {
		return open
	}
	if err := s.thaw(ctx); err != nil {
		return err
	}
	if err := s.touch(ctx, time.Now()); err != nil {
		return err
	}
	return open
}

// thaw allows changes again, also if the command was interrupted.
func (s *site) thaw(ctx context.Context) error {
	if !s.frozen {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return s.unfreeze(ctx)
}

// standing says who serves the API after an error.
func (s *site) standing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := s.observeAPIServices(ctx); err != nil {
		return fmt.Errorf("context %q: it is unknown who serves the API: run the command again", s.Context)
	}
	switch {
	case len(s.ours) == 0:
		return fmt.Errorf("context %q: CRDs serve %s as before; run the command again to continue", s.Context, names(s.held))
	case len(s.held) == 0:
		return fmt.Errorf("context %q: mcs-apiserver serves %s; run the command again to complete the migration", s.Context, names(s.ours))
	}
	return fmt.Errorf("context %q: mcs-apiserver serves %s, and CRDs serve %s; run the command again to continue", s.Context, names(s.ours), names(s.held))
}
