// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial implements `kubectl mcs test`.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/exitcode"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/installation"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
)

const long = `Test whether every cluster of a ClusterSet reaches services of every other one.

In the cluster of every CONTEXT, the command starts a server and exports it as two
services, one with a ClusterSet IP and a headless one. When they are imported, a client in
every cluster looks up all their DNS names, and sends requests over TCP and UDP, IPv4 and
IPv6: to the ClusterSet IP, behind which all clusters have to answer, and to the server of
each cluster. Servers answer with the ID of their cluster, signed with a key of the run, so
that an answer of another one is not taken for success.

The result is a matrix. A cell has the median of the times of some lookups, or of the
round-trip times of some requests. Otherwise:
  failed  something that should work does not
  -       does not apply, such as IPv6 in a cluster without
  ?       not tried; below the matrix is the reason

The command creates a namespace of its own in all clusters, or uses an existing one
(--namespace). Members may accept exports of some namespaces only: then choose one of
these. Everything is deleted at the end, also after a failure, a timeout, an interrupt, or
when the terminal is closed. A second interrupt ends the command at once.

If the command is killed, --cleanup deletes what is left of runs that began more than 20
minutes ago, and with --run that of one run at once. Namespaces in which others have Pods or
Services are kept.

Pods run mcs-controller from the image that is installed in their cluster, with its node
selector and tolerations. They have no credentials, meet the Pod Security Standard
restricted, and are not part of a service mesh.

The command exits with 0 if everything that applies works, with 1 if something does not, and
with 2 if it could not find out, or could not delete everything.`

const example = `  # Test the clusters of two contexts
  kubectl mcs test east west

  # Test in an existing namespace, such as with the role edit in it, and permission to list members
  kubectl mcs test east west -n shop

  # Print which checks failed
  kubectl mcs test east west -o json | jq '.checks[] | select(.result == "Failed")'

  # Leave the service, to find out at which hop it is broken. The command says how to delete it
  kubectl mcs test east west --keep

  # Delete what is left of runs that were killed
  kubectl mcs test east west --cleanup`

const (
	// couldNotTest is the exit code of everything that keeps the command from finding out.
	couldNotTest = 2
	// deleteTimeout limits each request that deletes something, also after an interrupt.
	deleteTimeout = 5 * time.Second
)

type options struct {
	*cluster.Factory
	output        printer.Output
	image         string
	timeout       time.Duration
	keep, cleanup bool
	// id is the run of which --cleanup deletes everything.
	id string
}

// NewCommand returns the command test.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:               "test [CONTEXT...]",
		Short:             "Test whether clusters reach services of each other",
		Long:              long,
		Example:           example,
		ValidArgsFunction: f.CompleteContexts,
		RunE: func(cmd *cobra.Command, contexts []string) error {
			// Nobody may read the output any more. That must not end the process before everything is deleted.
			signal.Ignore(syscall.SIGPIPE)
			err := o.run(cmd.Context(), contexts)
			if err != nil && exitcode.Of(err) == exitcode.Failure && !errors.Is(err, errFailed) {
				return exitcode.Set(err, couldNotTest)
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitcode.Set(err, couldNotTest) })
	flags := cmd.Flags()
	flags.StringVar(&o.image, "image", "", "The image of the Pods. The default is that of the installed mcs-controller.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait for each of: servers, imports, the start of clients, and DNS and kube-proxy, which lag behind the API.")
	flags.BoolVar(&o.keep, "keep", false, "If true, leave everything that was created.")
	flags.BoolVar(&o.cleanup, "cleanup", false, "If true, only delete what other runs left, in --namespace or in all namespaces.")
	flags.StringVar(&o.id, "run", "", "With --cleanup, the run of which everything is deleted. The default is all that have ended.")
	o.output.AddTo(cmd)
	return cmd
}

// errFailed is for a test that found something that does not work.
var errFailed = errors.New("something that should work does not: see the failures above")

// errNotTried is for a test that found nothing that does not work, but could not try everything.
var errNotTried = errors.New("not everything could be tried: see the reasons above")

func (o *options) run(ctx context.Context, contexts []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	switch {
	case o.timeout <= 0:
		return fmt.Errorf("--timeout %s: must be positive", o.timeout)
	case o.keep && o.cleanup:
		return errors.New("--keep and --cleanup exclude each other: remove one of them")
	case o.id != "" && !o.cleanup:
		return errors.New("--run is for --cleanup: add it, or remove --run")
	case o.id != "" && len(validation.IsDNS1123Label(o.id)) > 0:
		return fmt.Errorf("--run %q: this is not the ID of a run, such as 6x2vq9bn", o.id)
	}
	if len(contexts) == 0 {
		current, err := o.CurrentContext()
		if err != nil {
			return err
		}
		contexts = []string{current}
	}
	var clusters []*cluster.Cluster
	for _, name := range slices.Compact(slices.Sorted(slices.Values(contexts))) {
		c, err := o.ForContext(name)
		if err != nil {
			return err
		}
		clusters = append(clusters, c)
	}
	if o.cleanup {
		return o.cleanUpAll(ctx, clusters)
	}
	t, err := o.open(ctx, clusters)
	if err != nil {
		return err
	}
	report, err := t.do(ctx)
	if err != nil {
		return err
	}
	if err := o.output.Print(o.Streams.Out, report, func(w io.Writer) error { return writeReport(w, report) }); err != nil {
		return err
	}
	return verdict(report, t.left)
}

// verdict returns the error of a run: that something does not work, that it is not known whether everything
// works, or that something could not be deleted. The last two have an exit code of their own.
func verdict(report Report, left error) error {
	switch {
	case report.Passed:
		return left
	case !slices.ContainsFunc(report.Checks, func(check Check) bool { return check.Result == Failed }):
		return errors.Join(errNotTried, left)
	case left != nil:
		return exitcode.Set(errors.Join(errFailed, left), couldNotTest)
	}
	return errFailed
}

// namespace returns the namespace that the user chose, if any.
func (o *options) namespace() string {
	if o.Changed("namespace") {
		return *o.Flags.Namespace
	}
	return ""
}

// steps returns where progress is shown: what is printed as data is nothing else.
func (o *options) steps() *progress.Progress {
	if o.output.Format != "" {
		return progress.New(o.Streams.ErrOut)
	}
	return o.Progress
}

// trial is one run in several clusters.
type trial struct {
	run
	sites      []*site
	clusterSet string
	notTested  []string
	steps      *progress.Progress
	notes      io.Writer
	keep       bool
	// left is the error that something could not be deleted.
	left error
}

// open sees that the clusters are in one ClusterSet, and which image they run.
func (o *options) open(ctx context.Context, clusters []*cluster.Cluster) (*trial, error) {
	t := &trial{run: newRun(o.namespace()), sites: make([]*site, len(clusters)), steps: o.steps(), notes: o.Streams.ErrOut, keep: o.keep}
	clusterSets, others := make([]string, len(clusters)), make([][]string, len(clusters))
	if err := each(len(clusters), func(i int) (err error) {
		ctx, cancel, err := o.WithTimeout(ctx, o.timeout)
		defer cancel()
		if err != nil {
			return err
		}
		t.sites[i], clusterSets[i], others[i], err = o.openSite(ctx, clusters[i])
		return err
	}); err != nil {
		return nil, err
	}
	t.clusterSet = clusterSets[0]
	known, unknown := map[string]string{}, sets.New[string]()
	for i, s := range t.sites {
		if clusterSets[i] != t.clusterSet {
			return nil, fmt.Errorf("context %q is in ClusterSet %s, and context %q in %s: test clusters of one ClusterSet", t.sites[0].Context, t.clusterSet, s.Context, clusterSets[i])
		}
		if same, found := known[s.facts.id]; found {
			return nil, fmt.Errorf("contexts %q and %q are both of cluster %s: leave one out", same, s.Context, s.facts.id)
		}
		known[s.facts.id] = s.Context
		unknown.Insert(others[i]...)
	}
	for id := range known {
		unknown.Delete(id)
	}
	t.notTested = sets.List(unknown)
	return t, nil
}

// openSite returns a cluster, its ClusterSet and all its members.
func (o *options) openSite(ctx context.Context, c *cluster.Cluster) (*site, string, []string, error) {
	list, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", nil, c.WrapError(err, cluster.MCSUserAdvice)
	}
	id, clusterSet := members.Identity(list.Items)
	if id == "" || clusterSet == "" {
		return nil, "", nil, fmt.Errorf("context %q: cluster is not in a ClusterSet: %s", c.Context, members.JoinAdvice)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	s := newSite(c, id, o.image, o.timeout)
	namespace, found, err := installation.Find(ctx, c)
	switch {
	case found != nil:
		s.image = cmp.Or(o.image, installation.Image(found))
		s.nodeSelector, s.tolerations = found.Spec.Template.Spec.NodeSelector, found.Spec.Template.Spec.Tolerations
	case o.image != "": // nothing else is needed
	case err != nil:
		return nil, "", nil, fmt.Errorf("find the image of mcs-controller, or choose one with --image: %w", c.WrapError(err, cluster.KubernetesUserAdvice))
	default:
		return nil, "", nil, fmt.Errorf("context %q: there is no Deployment of mcs-apiserver in namespace %s that shows which image to use: choose one with --image", c.Context, namespace)
	}
	return s, clusterSet, all, nil
}

// each calls a function for all numbers below n, in parallel.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// names returns the IDs of all clusters.
func (t *trial) names() string {
	var ids []string
	for _, s := range t.sites {
		ids = append(ids, s.facts.id)
	}
	return strings.Join(ids, ", ")
}

// do does everything. What was created is deleted in any case.
func (t *trial) do(ctx context.Context) (Report, error) {
	report, err := t.try(ctx)
	if t.keep {
		for _, s := range t.sites {
			fmt.Fprintf(t.notes, "Service %[1]s is left in namespace %[2]s of context %[3]s: `kubectl mcs doctor %[1]s -n %[2]s --context %[3]s` looks at it\n", t.service(), t.namespace, s.Context)
		}
		fmt.Fprintf(t.notes, "Delete it with `%s`\n", t.cleanupCommand())
		return report, err
	}
	if t.left = t.cleanUp(ctx); err != nil {
		return report, errors.Join(err, t.left)
	}
	return report, nil
}

// try starts the servers, waits until they are imported, and runs the clients.
func (t *trial) try(ctx context.Context) (Report, error) {
	if err := t.steps.Run(fmt.Sprintf("Start servers in namespace %s: %s", t.namespace, t.names()), func() error {
		return each(len(t.sites), func(i int) error { return t.sites[i].start(ctx, t.run) })
	}); err != nil {
		return Report{}, interrupted(ctx, err)
	}
	if err := t.steps.Run("Wait until every cluster imports from all of them", func() error {
		clusters := t.facts()
		return each(len(t.sites), func(i int) error { return t.sites[i].awaitImports(ctx, t.run, clusters) })
	}); err != nil {
		return Report{}, interrupted(ctx, err)
	}
	checks := expectChecks(t.run, t.facts())
	outcomes := make([]outcome, len(t.sites))
	_ = t.steps.Run("Look up and call the services from every cluster", func() error {
		return each(len(t.sites), func(i int) error {
			outcomes[i] = t.sites[i].call(ctx, t.run, planFor(t.run, t.sites[i].facts.id, t.sites[i].timeout, checks))
			if outcomes[i].failure != "" {
				return errors.New(outcomes[i].failure) // only for the mark of the step
			}
			return nil
		})
	})
	if ctx.Err() != nil {
		return Report{}, interrupted(ctx, ctx.Err())
	}
	byCluster := map[string]outcome{}
	report := Report{ClusterSet: t.clusterSet, Namespace: t.namespace, Service: t.service(), NotTested: t.notTested}
	for i, s := range t.sites {
		byCluster[s.facts.id] = outcomes[i]
		report.Clusters = append(report.Clusters, Cluster{Context: s.Context, ClusterID: s.facts.id, Families: s.facts.families, Image: s.image, Node: s.node})
	}
	report.Checks = judge(checks, byCluster)
	report.Passed = passed(report.Checks)
	return report, nil
}

// interrupted returns a short error after an interrupt: all clusters would say the same.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
	return err
}

// facts returns what is known of all clusters.
func (t *trial) facts() []facts {
	var all []facts
	for _, s := range t.sites {
		all = append(all, s.facts)
	}
	return all
}

// cleanUp deletes everything, also after an interrupt.
func (t *trial) cleanUp(ctx context.Context) error {
	if ctx.Err() != nil { // another interrupt ends the process
		fmt.Fprintf(t.notes, "Everything is being deleted. If you interrupt that, `%s` deletes what is left\n", t.cleanupCommand())
	}
	ctx = context.WithoutCancel(ctx)
	err := t.steps.Run("Delete everything that was created", func() error {
		return each(len(t.sites), func(i int) error { return t.sites[i].cleanUp(ctx, t.run) })
	})
	if err != nil {
		return fmt.Errorf("not everything could be deleted: repeat that with `%s`: %w", t.cleanupCommand(), err)
	}
	return nil
}

// cleanupCommand returns the command that deletes what is left.
func (t *trial) cleanupCommand() string {
	command := "kubectl mcs test --cleanup --run " + t.id
	for _, s := range t.sites {
		command += " " + s.Context
	}
	if !t.ownNamespace {
		command += " -n " + t.namespace
	}
	return command
}

// cleanUpAll deletes what runs left that were killed.
func (o *options) cleanUpAll(ctx context.Context, clusters []*cluster.Cluster) error {
	done := make([][]string, len(clusters))
	err := each(len(clusters), func(i int) (err error) {
		done[i], err = newSite(clusters[i], "", "", o.timeout).cleanUpAll(ctx, o.namespace(), o.id)
		return err
	})
	for i, c := range clusters {
		for _, what := range done[i] {
			fmt.Fprintf(o.Streams.Out, "%s: %s\n", c.Context, printer.Escape(what))
		}
		if len(done[i]) == 0 {
			fmt.Fprintf(o.Streams.Out, "%s: deleted nothing\n", c.Context)
		}
	}
	return err
}
