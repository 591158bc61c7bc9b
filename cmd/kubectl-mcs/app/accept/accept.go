// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accept implements `kubectl mcs accept`.
package accept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

const long = `Accept the invitation of another cluster: read what it exports.

The invitation is checked: that it is for this cluster and has not expired, that it
has nothing that does not belong to an invitation, that it is for the ClusterSet of this
cluster, and that its cluster ID, server and networks are not those of others. Then, if the
inviting cluster can be reached from this machine, it is asked whether it is the one that the
invitation describes, with the token of the invitation.

What this cluster is going to trust is shown: compare the server and the fingerprint of the
certificate authority with those that invite printed. Then accept applies the invitation,
and waits until this cluster reads from the other one. If this cluster is not in a ClusterSet,
it joins that of the invitation.

What this cluster recorded of an existing member is kept: a later invitation cannot make the
member older, and changes its allowed CIDRs and allocation CIDRs only if none are recorded, or
with --replace. All other keys of the member Secret are kept as well.

The other cluster reads from this one when it has accepted an invitation in turn, see
invite. Accept requires cluster-admin permissions in this cluster.`

const example = `  # Accept an invitation in the cluster of the current context
  kubectl mcs accept -f east-invites-west.yaml

  # Accept an invitation from a secret store, without questions
  vault kv get -field=invitation clusters/east | kubectl mcs accept -f - --yes --context west`

// maxSize is the maximum size of an invitation, that of a Secret.
const maxSize = 1 << 20

type options struct {
	*cluster.Factory
	filename  string
	yes, wait bool
	accepting plan.AcceptOptions
	timeout   time.Duration

	ignoreUnreachableMembers bool
}

// NewCommand returns the command accept.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:               "accept -f FILE",
		Short:             "Accept the invitation of another cluster",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.filename, "filename", "f", "", "File with the invitation, or - to read it from standard input. Required.")
	flags.BoolVarP(&o.yes, "yes", "y", false, "If true, do not ask for confirmation.")
	flags.BoolVar(&o.accepting.Repoint, "repoint", false, "If true, an existing member may get another server address or certificate authority, and a cluster that a hub relays may be read directly.")
	flags.BoolVar(&o.accepting.Replace, "replace", false, "If true, an existing member gets the allowed CIDRs and allocation CIDRs of the invitation instead of those that this cluster recorded.")
	flags.BoolVar(&o.ignoreUnreachableMembers, "ignore-unreachable-members", false, "If true, join the ClusterSet although not every member can be asked whether the cluster ID is in use.")
	flags.BoolVar(&o.wait, "wait", true, "If true, wait until this cluster reads from the other one.")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "The length of time to wait until the clusters are connected.")
	for _, err := range []error{cmd.MarkFlagRequired("filename"), cmd.MarkFlagFilename("filename", "yaml", "yml", "json")} {
		if err != nil {
			panic(err) // the flag does not exist
		}
	}
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	invitation, err := o.read()
	if err != nil {
		return err
	}
	name, err := o.CurrentContext()
	if err != nil {
		return err
	}
	clusters, err := membership.Observe(ctx, o.Factory, []string{name}, nil)
	if err != nil {
		return err
	}
	own := clusters[0]
	planned, err := plan.Accept(invitation, own.Observed, own.Namespace, time.Now(), o.accepting)
	var warning string
	if err == nil { // a file that is refused leads nowhere
		warning, err = Ask(ctx, invitation, own.Observed)
	}
	if err != nil {
		return fmt.Errorf("context %q: the invitation cannot be accepted, and nothing was changed:\n%w", name, err)
	}
	if warning != "" {
		planned.Warnings = append(planned.Warnings, warning)
	}
	waits := slices.IndexFunc(planned.Steps, func(step plan.Step) bool { return step.Action == plan.WaitForMembers })
	if !o.wait {
		planned.Steps = planned.Steps[:waits]
	}
	fmt.Fprintf(o.Streams.Out, "Invitation of cluster %s:\n", printer.Escape(invitation.ID))
	if err := printer.WriteTable(o.Streams.Out, "  ", invitation.FactsIn(own.Observed, o.accepting)); err != nil {
		return err
	}
	if _, err := membership.PrintPlan(o.Factory, planned, printer.Output{}, false, ""); err != nil {
		return err
	}
	if !o.yes {
		if err := o.Confirm(fmt.Sprintf("Let the cluster of context %q trust this?", name)); err != nil {
			return err
		}
	}
	execution := membership.NewExecution(clusters, o.Progress)
	execution.Timeout, execution.Invitation, execution.IgnoreUnreachableMembers = o.timeout, &invitation, o.ignoreUnreachableMembers
	if err := execution.Run(ctx, planned.Steps[:waits]); err != nil {
		return execution.RollBack(ctx, err)
	}
	if err := execution.Run(ctx, planned.Steps[waits:]); err != nil {
		return fmt.Errorf("the invitation is accepted, but the clusters are not connected yet: %w\n"+
			"nothing was rolled back: `kubectl mcs status %s` shows the state of the members; if the server cannot be reached from this cluster, ask for an invitation with --server", err, name)
	}
	o.explain(invitation, own.Observed)
	return nil
}

func (o *options) validate() error {
	var errs []error
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: must be greater than zero", o.timeout))
	}
	if o.filename == "-" && !o.yes {
		errs = append(errs, errors.New("--filename -: the question whether to trust the cluster cannot be answered from standard input: add --yes, or give a file"))
	}
	return errors.Join(errs...)
}

// read reads the invitation.
func (o *options) read() (plan.Invitation, error) {
	in := o.Streams.In
	if o.filename != "-" {
		file, err := os.Open(o.filename)
		if err != nil {
			return plan.Invitation{}, fmt.Errorf("--filename: the invitation cannot be read: %w", err)
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return plan.Invitation{}, fmt.Errorf("--filename: the invitation cannot be read: %w", err)
	}
	var invitation plan.Invitation
	if len(content) > maxSize {
		err = fmt.Errorf("larger than %d bytes", maxSize)
	} else {
		invitation, err = plan.ReadInvitation(content)
	}
	if err != nil {
		return plan.Invitation{}, fmt.Errorf("--filename %s: not a valid invitation: %w", o.filename, printer.EscapeError(err))
	}
	return invitation, nil
}

// explain says what is still to be done.
func (o *options) explain(invitation plan.Invitation, own plan.Cluster) {
	state := "reads"
	if !o.wait {
		state = "will read"
	}
	fmt.Fprintf(o.Streams.Out, "Cluster %s %s from cluster %s.", own.ID, state, invitation.ID)
	if !own.Granted[invitation.ID] {
		fmt.Fprintf(o.Streams.Out, " For the other direction, run `kubectl mcs invite %s --context %s`, and let the administrators of %s accept.", invitation.ID, own.Context, invitation.ID)
	}
	fmt.Fprintln(o.Streams.Out)
}
