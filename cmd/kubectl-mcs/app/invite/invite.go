// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package invite implements `kubectl mcs invite`.
package invite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/manifest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/membership"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const long = `Invite another cluster to read what this one exports.

Together with accept, invite joins clusters whose administrators are not the same. Each
of them needs cluster-admin permissions in their own cluster only:

  1. In the cluster that is in the ClusterSet, or founds it with --clusterset, invite the
     other one.
  2. There, accept the invitation. That cluster is in the ClusterSet from then on.
  3. From there, invite the first cluster, which accepts in turn.

Every pair of clusters in the ClusterSet needs both invitations. Accept those of all
clusters before you invite them: an allocation CIDR that is not known yet is not free.

Invite creates a service account for the invited cluster that can only read what this
cluster exports. It prints the invitation, a member Secret and a ClusterClaim, as YAML for
accept. The invited cluster replaces the token in it by another one at first contact, which
is not written anywhere but to that cluster. Invite again if it expired: existing service
accounts are kept.

If mcs-apiserver is installed in another namespace in the invited cluster than in this one,
name that with --namespace: it is the namespace of the Secret in the invitation.

The token is valid for --duration at most, also after first contact. Until it expires, anyone
who has the invitation reads what the invited cluster reads, and can request further tokens:
only deleting the service account ends that. So keep the invitation secret, and its
--duration short. To withdraw an invitation that was not accepted, with all tokens that were
requested with it, run kubectl mcs leave --id CLUSTER_ID --from CONTEXT with the ID of the
invited cluster and the context of this one.`

const example = `  # Found ClusterSet production in the cluster of context east, and invite west
  kubectl mcs invite west --context east --clusterset production --allowed-cidrs 10.100.0.0/16 --output-dir .

  # In west: accept, and invite east
  kubectl mcs accept -f east-invites-west.yaml
  kubectl mcs invite east --allowed-cidrs 10.101.0.0/16 --output-dir .

  # Put the invitation into a secret store, for a cluster that reaches this one elsewhere
  kubectl mcs invite west --server https://10.0.0.1:6443 --duration 1h | vault kv put clusters/east invitation=-`

type options struct {
	*cluster.Factory
	clusterSet   string
	server       string
	allowedCIDRs string
	outputDir    string
	duration     time.Duration
}

// NewCommand returns the command invite.
func NewCommand(f *cluster.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
		Use:     "invite CLUSTER_ID",
		Short:   "Invite another cluster to read what this one exports",
		Long:    long,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("exactly one cluster ID is required, got %d: the ID of the cluster that is invited", len(args))
			}
			return nil
		},
		ValidArgsFunction: f.CompleteName(members.PeerIDs), // they are invited in turn
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.clusterSet, "clusterset", "", "Name of the ClusterSet. Required if this cluster is in none: it founds the ClusterSet. By default, the ClusterSet of this cluster.")
	flags.StringVar(&o.server, "server", "", "Address at which the invited cluster reaches the kube-apiserver of this one, a URL. By default, the server in the kubeconfig.")
	flags.StringVar(&o.allowedCIDRs, "allowed-cidrs", "", "CIDRs that contain the Pod IPs of this cluster, separated by commas. The invited cluster ignores endpoints outside of them, and asks those inside whether they answer before it withdraws them.")
	flags.DurationVar(&o.duration, "duration", membership.BootstrapLifetime, "How long the invitation is valid, at most: the cluster may issue tokens for a shorter time.")
	flags.StringVar(&o.outputDir, "output-dir", "", "Directory in which a file with the invitation is written, for nobody else to read, but on Windows for all who can read the directory. By default, the invitation is printed.")
	if err := cmd.MarkFlagDirname("output-dir"); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

func (o *options) run(ctx context.Context, peer string) error {
	allowed, err := o.validate()
	if err != nil {
		return err
	}
	name, err := o.CurrentContext()
	if err != nil {
		return err
	}
	clusters, err := membership.Observe(ctx, o.Factory, []string{name}, map[string]string{name: o.server})
	if err != nil {
		return err
	}
	if err := membership.ObserveSharedIPs(ctx, o.Factory, clusters); err != nil {
		return err
	}
	own := clusters[0]
	own.Observed.AllowedCIDRs = strings.Join(allowed, ",")
	planned, err := plan.Invite(o.clusterSet, own.Observed, peer)
	if err != nil {
		return fmt.Errorf("the cluster cannot be invited, and nothing was changed:\n%w", err)
	}
	file := manifest.File{
		Path:  filepath.Join(o.outputDir, fmt.Sprintf("%s-invites-%s.yaml", own.Observed.ID, peer)),
		Title: fmt.Sprintf("Invitation of cluster %s for cluster %s, written by kubectl mcs invite.", own.Observed.ID, peer),
	}
	out := o.Streams.ErrOut // beside the invitation
	if o.outputDir != "" {
		out = o.Streams.Out
		if err := manifest.Check([]manifest.File{file}); err != nil {
			return err
		}
	}
	membership.PrintWarnings(o.Factory, planned)
	execution := membership.NewExecution(clusters, progress.New(out))
	invitation, err := o.invite(ctx, execution, own, planned, peer)
	if err == nil {
		file.Objects = invitation.Objects()
		err = o.write(file)
	}
	if err != nil {
		return execution.RollBack(ctx, err)
	}
	o.explain(out, file, invitation, own)
	membership.PrintNotes(o.Factory, planned)
	return nil
}

func (o *options) validate() (allowed []string, err error) {
	errs := []error{membership.ValidateLifetime(o.duration)}
	if o.allowedCIDRs != "" {
		var invalid []error
		allowed, invalid = plan.ParseAllowedCIDRs(o.allowedCIDRs)
		for _, err := range invalid {
			errs = append(errs, fmt.Errorf("--allowed-cidrs %s: %w", o.allowedCIDRs, err))
		}
	}
	return allowed, errors.Join(errs...)
}

// invite carries out the plan, and returns the invitation.
func (o *options) invite(ctx context.Context, execution *membership.Execution, own *membership.Cluster, planned plan.Plan, peer string) (plan.Invitation, error) {
	if err := execution.Run(ctx, planned.Steps); err != nil {
		return plan.Invitation{}, err
	}
	told := own.Observed.Told(planned)
	var err error
	if told.JoinedAt, err = execution.JoinTime(ctx, own); err != nil {
		return plan.Invitation{}, err
	}
	if told.Token, _, err = own.PeerToken(ctx, peer, o.duration); err != nil {
		return plan.Invitation{}, err
	}
	namespace := own.Namespace
	if o.Changed("namespace") {
		namespace = *o.Flags.Namespace
	}
	return plan.NewInvitation(namespace, cmp.Or(o.clusterSet, own.Observed.ClusterSet), told)
}

// write writes the invitation to its file, or prints it.
func (o *options) write(file manifest.File) error {
	if o.outputDir != "" {
		return manifest.Write([]manifest.File{file})
	}
	content, err := file.Encode()
	if err == nil {
		_, err = o.Streams.Out.Write(content)
	}
	return err
}

// explain says what was written, for how long it is valid, and what to do with it.
func (o *options) explain(out io.Writer, file manifest.File, invitation plan.Invitation, own *membership.Cluster) {
	where := "FILE"
	if o.outputDir != "" {
		where = file.Path
		fmt.Fprintf(out, "Wrote %s\n", file.Path)
	}
	fmt.Fprintf(out, "Invitation of cluster %s for cluster %s:\n", invitation.ID, invitation.Invited)
	_ = printer.WriteTable(out, "  ", invitation.Facts())
	fmt.Fprintf(out, "It contains a credential: send it to the administrators of %s so that nobody else can read or change it. There, run `kubectl mcs accept -f %s`. "+
		"Until it expires, also after it was accepted, who has it reads what %s reads, and can get further credentials: to end that, delete the service account %s in namespace %s of this cluster. "+
		"To withdraw the invitation before it is accepted, run `kubectl mcs leave --id %s --from %s`.\n",
		invitation.Invited, where, invitation.Invited, clusterset.PeerAccountName(invitation.Invited), own.Namespace, invitation.Invited, own.Context)
}
